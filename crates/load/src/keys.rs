//! The keys of records, as YCSB makes them, so that either program can read what the other loaded.
//!
//! A record has a number; its key is a prefix and that number, or a hash of it. Numbers are 64 bits wide here. Above 2^31
//! records YCSB cuts them to 32 bits, so its keys differ (docs/methods.md#ycsb).

use std::io::Write;

/// FNV-1a of 64 bits (Fowler, Noll, Vo: <http://www.isthe.com/chongo/tech/comp/fnv>).
const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01B3;

/// YCSB's hash of a number: FNV-1a over its bytes, the lowest first, made positive as Java's `Math.abs` does.
pub fn hash(number: u64) -> u64 {
    let mixed = number
        .to_le_bytes()
        .iter()
        .fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    (mixed as i64).unsigned_abs()
}

/// The rule by which numbers become keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyNames {
    /// The text before the number; YCSB: `user`.
    pub prefix: String,
    /// The minimum number of digits (`zeropadding`).
    pub digits: usize,
    /// Whether the number itself is used rather than its hash (`insertorder=ordered`).
    pub ordered: bool,
}

impl Default for KeyNames {
    fn default() -> Self {
        KeyNames { prefix: "user".to_owned(), digits: 1, ordered: false }
    }
}

impl KeyNames {
    /// Appends the key of a record to `out`.
    pub fn append(&self, number: u64, out: &mut Vec<u8>) {
        let number = if self.ordered { number } else { hash(number) };
        out.extend_from_slice(self.prefix.as_bytes());
        let digits = self.digits;
        // Writing into memory does not fail.
        let _ = write!(out, "{number:0digits$}");
    }

    /// The key of a record.
    pub fn name(&self, number: u64) -> String {
        let mut name = Vec::new();
        self.append(number, &mut name);
        String::from_utf8_lossy(&name).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_ycsb() {
        // Keys that YCSB wrote.
        let hashed = KeyNames::default();
        let padded = KeyNames { digits: 20, ..KeyNames::default() };
        let ordered = KeyNames { ordered: true, ..KeyNames::default() };
        for (number, key) in [
            (0, "user6284781860667377211"),
            (1, "user8517097267634966620"),
            (2, "user1820151046732198393"),
            (100, "user879817313296471393"),
            (1000, "user5952875239596136740"),
            (1001, "user3339209904021769693"),
            (4_999_999, "user8699177812743906565"),
            (5_000_000, "user1160143578717203696"),
            (2_147_483_648, "user5860980763039959109"),
        ] {
            assert_eq!(hashed.name(number), key, "{number}");
        }
        assert_eq!(padded.name(0), "user06284781860667377211");
        assert_eq!(padded.name(100), "user00879817313296471393");
        assert_eq!(ordered.name(5), "user5");
        assert_eq!(KeyNames { digits: 8, ..ordered }.name(5), "user00000005");
    }
}
