//! The stored form of keys, which lets cursors work on raw bytes and skip WiredTiger's parser.
//!
//! Bytes are stored as they are, with one exception: WiredTiger has no empty key. A key of nothing but zero bytes, the empty one
//! included, is stored with one more zero byte. That keeps all keys distinct and in order, and MongoDB's keys are never like that.
//! Record numbers are packed as WiredTiger's format `q`.
//!
//! The packed form orders as the numbers do. By the first byte: `01xxxxxx` is one byte for -64..-1, `10xxxxxx` one byte for
//! 0..63, `001xxxxx` and `110xxxxx` two bytes for the next 8192 on either side, `0001llll` and `1110llll` all others: of a
//! negative number the count of leading 0xff bytes that are left out and the rest, of a positive one the length and the bytes.
//! It refuses packed bytes that are too short or have another first byte.

use fathom_engine::Key;

/// The longest packed number.
const MAX_BYTES: usize = 9;

/// A buffer for a key that cannot be stored as it is.
#[derive(Debug, Default)]
pub(crate) struct KeyBuffer {
    packed: [u8; MAX_BYTES],
    zeros: Vec<u8>,
}

/// A key as it is stored; never empty.
#[inline]
pub(crate) fn stored<'k>(key: Key<'k>, scratch: &'k mut KeyBuffer) -> &'k [u8] {
    match key {
        Key::Number(number) => pack(number, &mut scratch.packed),
        Key::Bytes(bytes) if bytes.first().is_some_and(|byte| *byte != 0) => bytes,
        Key::Bytes(bytes) if bytes.iter().any(|byte| *byte != 0) => bytes,
        Key::Bytes(bytes) => {
            scratch.zeros.resize(bytes.len() + 1, 0);
            &scratch.zeros
        }
    }
}

/// Decodes stored bytes into their key.
#[inline]
pub(crate) fn restore(stored: &mut Vec<u8>) {
    if stored.first() == Some(&0) && stored.iter().all(|byte| *byte == 0) {
        stored.pop();
    }
}

const NEGATIVE_MANY: u8 = 0x10;
const NEGATIVE_TWO: u8 = 0x20;
const NEGATIVE_ONE: u8 = 0x40;
const POSITIVE_ONE: u8 = 0x80;
const POSITIVE_TWO: u8 = 0xc0;
const POSITIVE_MANY: u8 = 0xe0;

/// The smallest number of one byte.
const MIN_ONE: i64 = -64;
/// The smallest number of two bytes.
const MIN_TWO: i64 = MIN_ONE - 8192;
/// The largest number of one byte.
const MAX_ONE: i64 = 63;
/// The largest number of two bytes.
const MAX_TWO: i64 = MAX_ONE + 8192;

/// Packs a number into the buffer; returns the part that holds it.
#[inline]
fn pack(number: i64, buffer: &mut [u8; MAX_BYTES]) -> &[u8] {
    let length = match number {
        MIN_ONE..=-1 => {
            buffer[0] = NEGATIVE_ONE | (number - MIN_ONE) as u8;
            1
        }
        0..=MAX_ONE => {
            buffer[0] = POSITIVE_ONE | number as u8;
            1
        }
        MIN_TWO..MIN_ONE => two(buffer, NEGATIVE_TWO, number - MIN_TWO),
        64..=MAX_TWO => two(buffer, POSITIVE_TWO, number - (MAX_ONE + 1)),
        i64::MIN..MIN_TWO => {
            let left_out = (number as u64).leading_ones() as usize / 8;
            many(buffer, NEGATIVE_MANY | left_out as u8, number as u64, 8 - left_out)
        }
        _ => {
            let rest = (number - (MAX_TWO + 1)) as u64;
            // The first of these numbers would need no byte at all; the format gives it one.
            let length = (8 - rest.leading_zeros() as usize / 8).max(1);
            many(buffer, POSITIVE_MANY | length as u8, rest, length)
        }
    };
    buffer.get(..length).unwrap_or_default()
}

fn two(buffer: &mut [u8; MAX_BYTES], marker: u8, rest: i64) -> usize {
    buffer[0] = marker | (rest >> 8) as u8;
    buffer[1] = rest as u8;
    2
}

fn many(buffer: &mut [u8; MAX_BYTES], first: u8, rest: u64, length: usize) -> usize {
    buffer[0] = first;
    let bytes = rest.to_be_bytes();
    for (to, from) in buffer.iter_mut().skip(1).zip(bytes.iter().skip(8 - length)) {
        *to = *from;
    }
    length + 1
}

/// The number in packed bytes; `None` if they are not one.
#[inline]
pub(crate) fn unpack(bytes: &[u8]) -> Option<i64> {
    let (&first, rest) = bytes.split_first()?;
    let second = || rest.first().map(|byte| i64::from(*byte));
    match first & 0xf0 {
        NEGATIVE_MANY => {
            let length = 8usize.checked_sub(usize::from(first & 0x0f))?;
            Some(gather(rest.get(..length)?, u64::MAX) as i64)
        }
        0x20 | 0x30 => Some(((i64::from(first & 0x1f) << 8) | second()?) + MIN_TWO),
        0x40..=0x7f => Some(i64::from(first & 0x3f) + MIN_ONE),
        0x80..=0xbf => Some(i64::from(first & 0x3f)),
        0xc0 | 0xd0 => Some(((i64::from(first & 0x1f) << 8) | second()?) + MAX_ONE + 1),
        POSITIVE_MANY => {
            let number = gather(rest.get(..usize::from(first & 0x0f))?, 0);
            Some(number.wrapping_add(MAX_TWO as u64 + 1) as i64)
        }
        _ => None,
    }
}

fn gather(bytes: &[u8], start: u64) -> u64 {
    bytes.iter().fold(start, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(number: i64) -> Vec<u8> {
        pack(number, &mut [0; MAX_BYTES]).to_vec()
    }

    #[test]
    fn the_edges_have_the_lengths_of_the_format() {
        let edges = [
            (-1, 1),
            (-64, 1),
            (-65, 2),
            (-8256, 2),
            (-8257, 3),
            (i64::MIN, 9),
            (0, 1),
            (63, 1),
            (64, 2),
            (8255, 2),
            (i64::MAX, 9),
        ];
        for (number, length) in edges {
            assert_eq!(packed(number).len(), length, "{number}");
            assert_eq!(unpack(&packed(number)), Some(number));
        }
        assert_eq!(unpack(&packed(8256)), Some(8256));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for bad in [&[][..], &[0x00], &[0xf0], &[0xc1], &[0xe3, 1, 2], &[0x11, 1], &[0x1f, 1, 2]] {
            assert_eq!(unpack(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn keys_of_zeros_get_one_more() {
        for (key, bytes) in
            [(&b""[..], &b"\0"[..]), (b"\0\0", b"\0\0\0"), (b"\0\x01", b"\0\x01"), (b"a", b"a")]
        {
            let mut scratch = KeyBuffer::default();
            let mut back = stored(Key::Bytes(key), &mut scratch).to_vec();
            assert_eq!(back, bytes);
            restore(&mut back);
            assert_eq!(back, key);
        }
    }

    proptest! {
        #[test]
        fn stored_bytes_keep_order_and_value(
            a in prop::collection::vec(0u8..3, 0..6),
            b in prop::collection::vec(0u8..3, 0..6),
        ) {
            let (mut one, mut two) = (KeyBuffer::default(), KeyBuffer::default());
            let mut first = stored(Key::Bytes(&a), &mut one).to_vec();
            let second = stored(Key::Bytes(&b), &mut two);
            prop_assert_eq!(first.as_slice().cmp(second), a.cmp(&b));
            restore(&mut first);
            prop_assert_eq!(first, a);
        }

        #[test]
        fn packing_keeps_order_and_value(a: i64, b: i64, shift in 0u32..63) {
            let (a, b) = (a >> shift, b >> shift);
            prop_assert_eq!(unpack(&packed(a)), Some(a));
            prop_assert_eq!(packed(a).cmp(&packed(b)), a.cmp(&b));
        }
    }
}
