//! Record ids within index entries: 2 to 9 bytes whose order is the order of the ids, readable from either end.
//!
//! The number of bytes between the first and the last is in the top 3 bits of the first and in the low 3 bits of the
//! last; all other bits are the id, big-endian (mongodb/mongo:src/mongo/db/storage/key_string.cpp). No record has a
//! negative id; one would be written as 0.

/// Bits of the id within the first byte, and within the last.
const END_BITS: u32 = 5;

/// The record id as the suffix of a standard index's key: order-preserving, 2 to 9 bytes, readable from either end.
pub fn record_id_of(id: i64, out: &mut Vec<u8>) {
    let value = u64::try_from(id).unwrap_or(0);
    let between = (64 - value.leading_zeros()).saturating_sub(2 * END_BITS).div_ceil(8);
    let length = (between as u8) & 7;
    out.push(length << 5 | (value >> (END_BITS + between * 8)) as u8);
    for place in (0..between).rev() {
        out.push((value >> (END_BITS + place * 8)) as u8);
    }
    out.push((value << 3) as u8 | length);
}

/// Splits an entry of a standard index into its key and its record id; `None` if it is not such an entry.
pub fn split_record_id(entry: &[u8]) -> Option<(&[u8], i64)> {
    let length = usize::from(entry.last()? & 7) + 2;
    let (key, suffix) = entry.split_at_checked(entry.len().checked_sub(length)?)?;
    Some((key, read(suffix)?))
}

/// Reads the record id at the beginning of a unique index's value; the rest are type bits.
pub fn leading_record_id(value: &[u8]) -> Option<(i64, &[u8])> {
    let length = usize::from(value.first()? >> 5) + 2;
    let (prefix, rest) = value.split_at_checked(length)?;
    Some((read(prefix)?, rest))
}

/// Reads exactly one record id; `None` if its two lengths differ or it does not fit.
fn read(bytes: &[u8]) -> Option<i64> {
    let [first, between @ .., last] = bytes else { return None };
    if usize::from(first >> 5) != between.len() || usize::from(last & 7) != between.len() {
        return None;
    }
    let mut value = u128::from(first & 0x1f);
    for byte in between {
        value = value << 8 | u128::from(*byte);
    }
    i64::try_from(value << END_BITS | u128::from(last >> 3)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(id: i64) -> Vec<u8> {
        let mut out = Vec::new();
        record_id_of(id, &mut out);
        out
    }

    #[test]
    fn lengths_are_mongodbs() {
        assert_eq!(bytes(0), [0x00, 0x00]);
        assert_eq!(bytes(1), [0x00, 0x08]);
        assert_eq!(bytes(1023), [0x1f, 0xf8]);
        assert_eq!(bytes(1024), [0x20, 0x20, 0x01]);
        assert_eq!(bytes((1 << 18) - 1).len(), 3);
        assert_eq!(bytes(1 << 18).len(), 4);
        assert_eq!(bytes(i64::MAX).len(), 9);
    }

    #[test]
    fn ids_come_back_from_both_ends_and_keep_their_order() {
        let mut ids: Vec<i64> =
            (0..63).flat_map(|bit| [(1i64 << bit) - 1, 1 << bit, (1 << bit) + 1]).collect();
        ids.push(i64::MAX);
        ids.sort_unstable();
        ids.dedup();
        let mut previous = Vec::new();
        for id in ids {
            let suffix = bytes(id);
            assert!(previous < suffix, "{id}");
            let entry = [&[60, b'a', 0, 4], &suffix[..]].concat();
            assert_eq!(split_record_id(&entry), Some((&entry[..4], id)));
            let value = [&suffix[..], &[0x40]].concat();
            assert_eq!(leading_record_id(&value), Some((id, &[0x40][..])));
            previous = suffix;
        }
    }

    #[test]
    fn what_is_no_record_id_is_refused() {
        for entry in [&[][..], &[0], &[0x20, 0], &[0, 0, 1], &[7, 7, 7], &[0xff; 9], &[4]] {
            assert_eq!(split_record_id(entry), None, "{entry:?}");
        }
        assert_eq!(leading_record_id(&[0x40, 0, 0]), None);
    }
}
