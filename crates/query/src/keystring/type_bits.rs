//! The type bits of a key, for facts about its values that the key's bytes do not keep: the type of a number, text or symbol,
//! a decimal's exponent, the sign of zero.
//!
//! The most common types are all zeros, and all zeros take no byte at all. Otherwise one byte below 128 holds the bits, and
//! more bytes are preceded by their number: one byte with its top bit set, or 0x80 and four bytes, little-endian
//! (mongodb/mongo:src/mongo/db/storage/key_string.h). Bits fill bytes from the low end.
use super::class::malformed;
use crate::Result;

/// The type of a number that is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberType {
    Int32 = 0,
    Int64 = 1,
    Double = 2,
    Decimal = 3,
}

/// The type of a zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZeroType {
    Int32,
    Int64,
    Double,
    NegativeDouble,
    /// With the exponent field of its Decimal128.
    Decimal {
        negative: bool,
        biased: u16,
    },
}

/// The number of positive decimal zeros, one for each exponent; negative ones are counted after them.
const POSITIVE_ZEROS: u16 = 12_288;
/// The longest string of bits whose number of bytes fits into one.
const MAX_SHORT_BYTES: usize = 127;

#[derive(Clone, Debug, Default)]
pub(super) struct TypeBits {
    /// The bits up to the last one that is set.
    bytes: Vec<u8>,
    /// Bits so far, set or not.
    count: usize,
}

impl TypeBits {
    /// Reuses the memory of a buffer.
    pub(super) fn reuse(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        TypeBits { bytes, count: 0 }
    }

    pub(super) fn string(&mut self) {
        self.count += 1;
    }

    pub(super) fn symbol(&mut self) {
        self.append(1, 1);
    }

    /// A number that is not zero.
    pub(super) fn number(&mut self, kind: NumberType) {
        self.append(kind as u16, 2);
    }

    /// The low bits of a decimal's exponent field; they and the value determine the rest.
    pub(super) fn exponent(&mut self, biased: i32) {
        self.append((biased & 0x3f) as u16, 6);
    }

    pub(super) fn zero(&mut self, kind: ZeroType) {
        match kind {
            ZeroType::Int32 => self.append(0, 2),
            ZeroType::Int64 => self.append(1, 2),
            ZeroType::Double => self.append(2, 2),
            ZeroType::NegativeDouble => self.append(0b11000, 5),
            ZeroType::Decimal { negative, biased } => {
                let which = biased + if negative { POSITIVE_ZEROS } else { 0 };
                self.append(0b11010 + (which >> 12), 5);
                self.append(which & 0xfff, 12);
            }
        }
    }

    /// The low `width` bits of `bits`, the highest first.
    fn append(&mut self, bits: u16, width: usize) {
        if bits == 0 {
            self.count += width;
            return;
        }
        for place in (0..width).rev() {
            if bits >> place & 1 == 1 {
                let byte = self.count / 8;
                if self.bytes.len() <= byte {
                    self.bytes.resize(byte + 1, 0);
                }
                if let Some(byte) = self.bytes.get_mut(byte) {
                    *byte |= 1 << (self.count % 8);
                }
            }
            self.count += 1;
        }
    }

    /// The bytes to store.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.bytes.is_empty() {
            return self.bytes;
        }
        self.bytes.resize(self.count.div_ceil(8), 0);
        let length = self.bytes.len();
        match (length, self.bytes.first()) {
            (1, Some(..=0x7f)) => {}
            (..=MAX_SHORT_BYTES, _) => self.bytes.insert(0, 0x80 | length as u8),
            _ => {
                let size = (length as u32).to_le_bytes();
                self.bytes.splice(0..0, std::iter::once(0x80).chain(size));
            }
        }
        self.bytes
    }
}

#[derive(Clone, Debug)]
pub(super) struct TypeBitsReader<'a> {
    /// The bits; `None` means endless zeros.
    bytes: Option<&'a [u8]>,
    place: usize,
}

impl<'a> TypeBitsReader<'a> {
    /// Reads the bytes of [`TypeBits::finish`]; refuses a length that does not agree with the bytes.
    pub(super) fn new(stored: &'a [u8]) -> Result<Self> {
        let bytes = match stored {
            [] | [0] => None,
            [1..=0x7f] => Some(stored),
            [0x80, a, b, c, d, bytes @ ..]
                if u32::from_le_bytes([*a, *b, *c, *d]) as usize == bytes.len() =>
            {
                Some(bytes)
            }
            [size @ 0x81..=0xff, bytes @ ..] if usize::from(size & 0x7f) == bytes.len() => Some(bytes),
            _ => return Err(malformed("type bits of another length than they say")),
        };
        Ok(TypeBitsReader { bytes, place: 0 })
    }

    fn read(&mut self, width: usize) -> Result<u16> {
        let Some(bytes) = self.bytes else { return Ok(0) };
        let mut bits = 0;
        for _ in 0..width {
            let byte = bytes.get(self.place / 8).ok_or_else(|| malformed("type bits end too early"))?;
            bits = bits << 1 | u16::from(byte >> (self.place % 8) & 1);
            self.place += 1;
        }
        Ok(bits)
    }

    /// Whether a text is a symbol.
    pub(super) fn is_symbol(&mut self) -> Result<bool> {
        Ok(self.read(1)? == 1)
    }

    /// The type of a number that is not zero.
    pub(super) fn number(&mut self) -> Result<NumberType> {
        Ok(match self.read(2)? {
            0 => NumberType::Int32,
            1 => NumberType::Int64,
            2 => NumberType::Double,
            _ => NumberType::Decimal,
        })
    }

    /// The low bits of a decimal's exponent field.
    pub(super) fn exponent(&mut self) -> Result<i32> {
        Ok(i32::from(self.read(6)?))
    }

    /// The type of a zero.
    pub(super) fn zero(&mut self) -> Result<ZeroType> {
        match self.read(2)? {
            0 => return Ok(ZeroType::Int32),
            1 => return Ok(ZeroType::Int64),
            2 => return Ok(ZeroType::Double),
            _ => {}
        }
        let high = match self.read(3)? {
            0 => return Ok(ZeroType::NegativeDouble),
            1 => return Err(malformed("a zero of no known type")),
            prefix => prefix - 2,
        };
        let which = high << 12 | self.read(12)?;
        let negative = which >= POSITIVE_ZEROS;
        Ok(ZeroType::Decimal { negative, biased: if negative { which - POSITIVE_ZEROS } else { which } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_stored_for_the_commonest_types() {
        let mut bits = TypeBits::default();
        for _ in 0..100 {
            bits.string();
            bits.number(NumberType::Int32);
            bits.zero(ZeroType::Int32);
        }
        assert!(bits.finish().is_empty());
    }

    #[test]
    fn one_double_takes_one_byte_and_many_take_a_length() {
        for (doubles, expected_bytes) in [(1, 1), (4, 1), (5, 3), (508, 128), (509, 133)] {
            let mut bits = TypeBits::default();
            (0..doubles).for_each(|_| bits.number(NumberType::Double));
            let stored = bits.finish();
            assert_eq!(stored.len(), expected_bytes, "{doubles} doubles");
            let mut reader = TypeBitsReader::new(&stored).unwrap();
            for _ in 0..doubles {
                assert_eq!(reader.number().unwrap(), NumberType::Double);
            }
        }
    }

    #[test]
    fn every_kind_comes_back() {
        let zeros = [
            ZeroType::Int32,
            ZeroType::Int64,
            ZeroType::Double,
            ZeroType::NegativeDouble,
            ZeroType::Decimal { negative: false, biased: 0 },
            ZeroType::Decimal { negative: false, biased: 12_287 },
            ZeroType::Decimal { negative: true, biased: 6_176 },
            ZeroType::Decimal { negative: true, biased: 12_287 },
        ];
        let mut bits = TypeBits::default();
        for zero in zeros {
            bits.zero(zero);
            bits.symbol();
            bits.string();
            bits.exponent(37);
        }
        let stored = bits.finish();
        let mut reader = TypeBitsReader::new(&stored).unwrap();
        for zero in zeros {
            assert_eq!(reader.zero().unwrap(), zero);
            assert!(reader.is_symbol().unwrap());
            assert!(!reader.is_symbol().unwrap());
            assert_eq!(reader.exponent().unwrap(), 37);
        }
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for stored in [&[0x82, 1][..], &[0x80, 1, 0, 0, 0], &[5, 5], &[0x80], &[0, 0]] {
            assert!(TypeBitsReader::new(stored).is_err(), "{stored:?}");
        }
    }
}
