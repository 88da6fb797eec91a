//! Unsigned LEB128: seven bits a byte, the lowest first, the highest bit set on all but the last byte.

/// The most bytes of a 64-bit number.
const MAX_BYTES: usize = 10;

/// Takes a number from the front of `bytes`; `None` if they end within it, or if it has more than 64 bits.
#[inline]
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(u64::from(first));
    }
    let mut value = u64::from(first & 0x7f);
    for (at, &byte) in rest.iter().take(MAX_BYTES - 1).enumerate() {
        let shift = 7 * (at + 1);
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has one bit.
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            *bytes = rest.get(at + 1..)?;
            return Some(value);
        }
    }
    None
}

/// Appends a number as a varint.
pub(crate) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_with_the_bytes_after_them() {
        for value in [0, 1, 127, 128, 300, 1 << 35, u64::MAX >> 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            bytes.push(42);
            let mut rest = bytes.as_slice();
            assert_eq!((take(&mut rest), rest), (Some(value), [42].as_slice()), "{value}");
        }
    }

    #[test]
    fn truncated_and_overlong_numbers_are_refused() {
        for bytes in [
            &[][..],
            &[0x80],
            &[0xff; 9],
            &[0xff; 11],
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2],
        ] {
            let mut rest = bytes;
            assert_eq!(take(&mut rest), None, "{bytes:?}");
        }
    }
}
