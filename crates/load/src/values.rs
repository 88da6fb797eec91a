//! The values of fields: random bytes as YCSB draws them, and values that can be verified.

use std::fmt::Write;

use fathom_stats::SeededRandom;

use crate::java::StringHash;

/// Appends `bytes` random bytes of ASCII 32 to 127, six for each 32 random bits, as YCSB's `RandomByteIterator` draws them: they
/// compress as YCSB's do.
pub fn append_random(random: &mut SeededRandom, bytes: usize, out: &mut Vec<u8>) {
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

/// The value of a field with `dataintegrity`: `KEY:FIELD`, and hashes of the value so far until it is long enough.
///
/// It is cut to `bytes` bytes; blanks replace a character that does not fit completely. YCSB counts characters
/// and sends the lowest byte of each, so if names are not ASCII it takes its own values for wrong.
pub fn integrity(key: &str, field: &str, bytes: usize) -> String {
    let mut value = format!("{key}:{field}");
    let mut hash = StringHash::from_text(&value);
    while value.len() < bytes {
        let begun = value.len();
        value.push(':');
        hash.extend(":");
        // Writing into memory does not fail.
        let _ = write!(value, "{}", hash.value());
        hash.extend(value.get(begun + 1..).unwrap_or_default());
    }
    let whole = (0..=bytes).rev().find(|end| value.is_char_boundary(*end)).unwrap_or(0);
    value.truncate(whole);
    value.extend(std::iter::repeat_n(' ', bytes - whole));
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_say_what_they_are_are_those_of_ycsb() {
        // Seen in documents that YCSB wrote.
        assert_eq!(
            integrity("user6284781860667377211", "field0", 100),
            "user6284781860667377211:field0:-56807877:2032869390:-165488160:1762371712:-169193395:-1039977118:-10"
        );
        assert_eq!(integrity("user1", "field0", 4), "user");
        // In one pass: hashing all of it again for each piece would take minutes.
        assert_eq!(integrity("user1", "field0", 8 << 20).len(), 8 << 20);
    }

    #[test]
    fn a_value_has_its_length_where_names_are_not_ascii_too() {
        let (key, field) = ("\u{e9}1", "\u{1f5c4}0");
        let whole = integrity(key, field, 1000);
        for bytes in 0..100 {
            let value = integrity(key, field, bytes);
            let kept = value.trim_end_matches(' ');
            assert_eq!(value.len(), bytes, "{value:?}");
            assert!(whole.starts_with(kept) && bytes - kept.len() < 4, "{value:?}");
        }
    }

    #[test]
    fn random_values_have_their_length_and_range() {
        let mut random = SeededRandom::from_seed(1);
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
