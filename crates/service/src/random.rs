//! Unpredictable random numbers, for cursor ids, suffixes of idents and salts.

pub fn number() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// A random number from 0, inclusive, to 1, exclusive.
#[expect(clippy::cast_precision_loss, reason = "53 bits are what a double holds")]
pub fn fraction() -> f64 {
    (number() >> 11) as f64 / (1u64 << 53) as f64
}

/// Fills a buffer with random bytes.
pub fn fill(bytes: &mut [u8]) {
    // The kernel's generator does not fail once the machine has started.
    if getrandom::fill(bytes).is_err() {
        let id = bson::Uuid::new().bytes();
        bytes.iter_mut().zip(id.iter().cycle()).for_each(|(byte, random)| *byte = *random);
    }
}
