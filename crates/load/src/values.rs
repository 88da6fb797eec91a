//! The values of fields: random bytes as YCSB draws them, and values that say what they must be.

use fathom_stats::Seeded;

use crate::java::string_hash;

/// Appends so many random bytes of ASCII 32 to 127, six for each 32 random bits, as YCSB's `RandomByteIterator` draws them: what
/// a compressor makes of them is what it makes of YCSB's.
pub fn append_random(random: &mut Seeded, bytes: usize, out: &mut Vec<u8>) {
    let mut left = bytes;
    while left > 0 {
        let bits = random.bits();
        for half in [bits as u32, (bits >> 32) as u32] {
            let six = [
                32 + (half & 31) as u8,
                32 + ((half >> 5) & 63) as u8,
                32 + ((half >> 10) & 95) as u8,
                32 + ((half >> 15) & 31) as u8,
                32 + ((half >> 20) & 63) as u8,
                32 + ((half >> 25) & 95) as u8,
            ];
            let taken = left.min(six.len());
            out.extend(six.iter().take(taken));
            left -= taken;
        }
    }
}

/// The value that `dataintegrity` wants of a field: `KEY:FIELD`, and hashes of what is there so far until it is long enough.
pub fn integrity(key: &str, field: &str, bytes: usize) -> String {
    let mut value = format!("{key}:{field}");
    while value.len() < bytes {
        value.push(':');
        value.push_str(&string_hash(&value).to_string());
    }
    value.truncate(bytes);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_say_what_they_are_are_those_of_ycsb() {
        // facts/ycsb.md 3.3.
        assert_eq!(
            integrity("user6284781860667377211", "field0", 100),
            "user6284781860667377211:field0:-56807877:2032869390:-165488160:1762371712:-169193395:-1039977118:-10"
        );
        assert_eq!(integrity("user1", "field0", 4), "user");
    }

    #[test]
    fn random_values_have_their_length_and_range() {
        let mut random = Seeded::from_seed(1);
        let mut seen = [false; 128];
        for bytes in [0, 1, 5, 6, 7, 11, 12, 13, 100, 10_000] {
            let mut value = vec![0];
            append_random(&mut random, bytes, &mut value);
            assert_eq!(value.len(), bytes + 1);
            for byte in value.iter().skip(1) {
                assert!((32..128).contains(byte));
                seen[usize::from(*byte)] = true;
            }
        }
        assert!(seen.iter().skip(32).all(|seen| *seen));
    }
}
