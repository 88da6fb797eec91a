//! Decodes key bytes into values, for covered queries and `validate`.
//!
//! The input may be any bytes: those that are not a key are refused, however they are malformed. A document that names a field
//! twice is returned with it once.

use super::class::{self, malformed};
use super::encode::{Marker, TWO_TO_63, TWO_TO_256, tiny_base};
use super::rounding::{Round, add_units, normalized, of_double, of_halves, with_exponent};
use super::type_bits::{NumberType, TypeBitsReader, ZeroType};
use crate::decimal::{BIAS, DIGITS, Decimal, FiniteDecimal};
use crate::order::MAX_DEPTH;
use crate::{Code, Failure, Result};
use bson::oid::ObjectId;
use bson::raw::RawDocument;
use bson::{Binary, Bson, DateTime, Document, JavaScriptCodeWithScope, Regex, Timestamp};

/// The values of a key, which ends in the end byte; `descending` has one flag for each field.
pub fn decode(bytes: &[u8], type_bits: &[u8], descending: &[bool]) -> Result<Vec<Bson>> {
    let mut reader = KeyStringReader { rest: bytes, type_bits: TypeBitsReader::new(type_bits)?, mask: 0 };
    let mut values = Vec::with_capacity(descending.len());
    for descending in descending {
        reader.mask = if *descending { 0xff } else { 0 };
        let class = reader.byte()?;
        values.push(reader.value(class, 0)?);
    }
    match reader.rest {
        [class::END] => Ok(values),
        _ => Err(malformed("no end byte where the last field ends")),
    }
}

struct KeyStringReader<'a> {
    rest: &'a [u8],
    pub(super) type_bits: TypeBitsReader<'a>,
    /// 0xff if bytes are inverted, else 0.
    pub(super) mask: u8,
}

impl KeyStringReader<'_> {
    pub(super) fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.rest.split_first().ok_or_else(|| malformed("a key ends within a value"))?;
        self.rest = rest;
        Ok(first ^ self.mask)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) =
            self.rest.split_first_chunk::<N>().ok_or_else(|| malformed("a key ends within a value"))?;
        self.rest = rest;
        Ok(first.map(|byte| byte ^ self.mask))
    }

    fn bytes(&mut self, length: usize) -> Result<Vec<u8>> {
        let (first, rest) =
            self.rest.split_at_checked(length).ok_or_else(|| malformed("a key ends within a value"))?;
        self.rest = rest;
        Ok(first.iter().map(|byte| byte ^ self.mask).collect())
    }

    /// Eight bytes, the highest first.
    pub(super) fn long(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Up to the next NUL, which is not part of it.
    fn until_nul(&mut self) -> Result<Vec<u8>> {
        let nul = class::NUL ^ self.mask;
        let length = self.rest.iter().position(|byte| *byte == nul);
        let text = self.bytes(length.ok_or_else(|| malformed("a text without end"))?)?;
        self.byte()?;
        Ok(text)
    }

    /// Reads a text with escaped NULs.
    fn text(&mut self) -> Result<String> {
        let mut text = self.until_nul()?;
        while self.rest.first() == Some(&(class::ESCAPE ^ self.mask)) {
            self.byte()?;
            text.push(class::NUL);
            text.append(&mut self.until_nul()?);
        }
        utf8(text)
    }

    fn c_string(&mut self) -> Result<bson::raw::CString> {
        bson::raw::CString::try_from(utf8(self.until_nul()?)?)
            .map_err(|_| malformed("a text with a NUL in it"))
    }

    fn value(&mut self, class: u8, depth: u32) -> Result<Bson> {
        Ok(match class {
            class::MIN_KEY => Bson::MinKey,
            class::UNDEFINED => Bson::Undefined,
            class::NULL => Bson::Null,
            class::NAN..=class::POSITIVE_LARGE => self.number(class)?,
            class::TEXT => {
                let symbol = self.type_bits.is_symbol()?;
                let text = self.text()?;
                if symbol { Bson::Symbol(text) } else { Bson::String(text) }
            }
            class::OBJECT => Bson::Document(self.fields(depth + 1)?),
            class::ARRAY => Bson::Array(self.elements(depth + 1)?),
            class::BINARY => Bson::Binary(self.binary()?),
            class::OBJECT_ID => Bson::ObjectId(ObjectId::from_bytes(self.array()?)),
            class::FALSE => Bson::Boolean(false),
            class::TRUE => Bson::Boolean(true),
            class::DATE => Bson::DateTime(DateTime::from_millis(self.long()? as i64 ^ i64::MIN)),
            class::TIMESTAMP => {
                let value = self.long()?;
                Bson::Timestamp(Timestamp { time: (value >> 32) as u32, increment: value as u32 })
            }
            class::REGEX => {
                Bson::RegularExpression(Regex { pattern: self.c_string()?, options: self.c_string()? })
            }
            class::DB_POINTER => self.db_pointer()?,
            class::CODE => Bson::JavaScriptCode(self.text()?),
            class::CODE_WITH_SCOPE => {
                let code = self.text()?;
                Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
                    code,
                    scope: self.fields(depth + 1)?,
                })
            }
            class::MAX_KEY => Bson::MaxKey,
            _ => return Err(malformed("a byte that begins no value")),
        })
    }

    fn fields(&mut self, depth: u32) -> Result<Document> {
        check_depth(depth)?;
        let mut document = Document::new();
        while self.byte()? != class::NUL {
            let name = utf8(self.until_nul()?)?;
            let class = self.byte()?;
            document.insert(name, self.value(class, depth)?);
        }
        Ok(document)
    }

    fn elements(&mut self, depth: u32) -> Result<Vec<Bson>> {
        check_depth(depth)?;
        let mut values = Vec::new();
        loop {
            match self.byte()? {
                class::NUL => return Ok(values),
                class => values.push(self.value(class, depth)?),
            }
        }
    }

    fn binary(&mut self) -> Result<Binary> {
        let length = match self.byte()? {
            0xff => u32::from_be_bytes(self.array()?) as usize,
            length => usize::from(length),
        };
        let subtype = self.byte()?.into();
        Ok(Binary { subtype, bytes: self.bytes(length)? })
    }

    /// Decodes a DBPointer; the library creates this type only from a document.
    fn db_pointer(&mut self) -> Result<Bson> {
        let length = u32::from_be_bytes(self.array()?) as usize;
        let namespace = self.bytes(length)?;
        let id: [u8; 12] = self.array()?;
        let broken = || malformed("a DBPointer of no valid namespace");
        let text_bytes = u32::try_from(length + 1).map_err(|_| broken())?.to_le_bytes();
        let document_bytes = u32::try_from(length + 25).map_err(|_| broken())?.to_le_bytes();
        let document =
            [&document_bytes[..], &[0x0c, b'p', 0], &text_bytes, &namespace, &[0], &id, &[0]].concat();
        let value = RawDocument::from_bytes(&document).and_then(|document| document.get("p"));
        Bson::try_from(value.map_err(|_| broken())?.ok_or_else(broken)?).map_err(|_| broken())
    }
}

fn utf8(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| malformed("a text that is not UTF-8"))
}

fn check_depth(depth: u32) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Failure::new(
            Code::Overflow,
            "KeyString encoding exceeded maximum allowable BSON nesting depth",
        ));
    }
    Ok(())
}

/// From this integer part on, a decimal's integer is written rather than its double.
const MIN_LONG_INTEGER: u64 = 1 << 53;

impl KeyStringReader<'_> {
    pub(super) fn number(&mut self, class: u8) -> Result<Bson> {
        let mask = self.mask;
        let negative = class < class::ZERO;
        self.mask ^= if negative { 0xff } else { 0 };
        let number = match class {
            class::NAN => {
                self.mask = mask;
                match self.type_bits.number()? {
                    NumberType::Double => Ok(Bson::Double(f64::NAN)),
                    NumberType::Decimal => Ok(Bson::Decimal128(Decimal::NaN.pack())),
                    _ => Err(malformed("an integer that is not a number")),
                }
            }
            class::ZERO => self.zero(),
            class::NEGATIVE_LARGE | class::POSITIVE_LARGE => self.large(negative),
            class::NEGATIVE_SMALL | class::POSITIVE_SMALL => self.small(negative),
            class::POSITIVE_1_BYTE..=class::POSITIVE_8_BYTES => {
                self.middle(class - class::POSITIVE_1_BYTE + 1, negative)
            }
            class::NEGATIVE_8_BYTES..=class::NEGATIVE_1_BYTE => {
                self.middle(class::NEGATIVE_1_BYTE - class + 1, negative)
            }
            _ => Err(malformed("a byte that begins no number")),
        };
        self.mask = mask;
        number
    }

    fn zero(&mut self) -> Result<Bson> {
        Ok(match self.type_bits.zero()? {
            ZeroType::Int32 => Bson::Int32(0),
            ZeroType::Int64 => Bson::Int64(0),
            ZeroType::Double => Bson::Double(0.0),
            ZeroType::NegativeDouble => Bson::Double(-0.0),
            ZeroType::Decimal { negative, biased } => {
                let exponent = i32::from(biased) - BIAS;
                Bson::Decimal128(Decimal::Finite(FiniteDecimal { negative, coefficient: 0, exponent }).pack())
            }
        })
    }

    /// Reads a number from 2^63 on.
    fn large(&mut self, negative: bool) -> Result<Bson> {
        let kind = self.type_bits.number()?;
        let encoded = self.long()?;
        if encoded == u64::MAX {
            return match kind {
                NumberType::Double => Ok(Bson::Double(signed(f64::INFINITY, negative))),
                NumberType::Decimal => Ok(Bson::Decimal128(Decimal::Infinity { negative }.pack())),
                _ => Err(malformed("an integer that is infinite")),
            };
        }
        if encoded >> 63 == 1 {
            let low = self.long()?;
            let value = of_halves(encoded & !(1 << 63), low).ok_or_else(|| malformed("no decimal"))?;
            return self.decimal(value, kind, negative);
        }
        let bin = f64::from_bits(encoded >> 1 | 1 << 62);
        if !bin.is_finite() {
            return Err(malformed("a double beyond the doubles"));
        }
        match (kind, encoded & 1) {
            (NumberType::Double, 0) => Ok(Bson::Double(signed(bin, negative))),
            (NumberType::Int64, 0) if negative && bin == TWO_TO_63 => Ok(Bson::Int64(i64::MIN)),
            (NumberType::Decimal, 0) => self.decimal(of_double(bin, DIGITS, Round::Up), kind, negative),
            (NumberType::Decimal, _) => self.continued(of_double(bin, DIGITS, Round::Up), kind, negative),
            _ => Err(malformed("a large number of another type")),
        }
    }

    /// Reads a number between 0 and 1.
    fn small(&mut self, negative: bool) -> Result<Bson> {
        let kind = self.type_bits.number()?;
        let encoded = self.long()?;
        match encoded >> 62 {
            0 => {
                let low = self.long()?;
                let value = of_halves(encoded, low).ok_or_else(|| malformed("no decimal"))?;
                self.decimal(value, kind, negative)
            }
            3 => {
                let bin = f64::from_bits(encoded >> 2);
                self.marked(bin, marker(encoded), kind, negative)
            }
            _ => {
                let scaled = f64::from_bits((encoded - (1 << 62)) >> 1);
                let bin = scaled / TWO_TO_256;
                match (kind, encoded & 1) {
                    (NumberType::Double, 0) => Ok(Bson::Double(signed(bin, negative))),
                    (NumberType::Decimal, 1) if scaled < f64::MIN_POSITIVE * TWO_TO_256 => {
                        self.continued(tiny_base(scaled), kind, negative)
                    }
                    (NumberType::Decimal, 1) => {
                        self.continued(of_double(bin, DIGITS, Round::Up), kind, negative)
                    }
                    _ => Err(malformed("a tiny number of another type")),
                }
            }
        }
    }

    /// Reads a number from 1 to 2^63: an integer part of `length` bytes, doubled, and perhaps a fraction.
    fn middle(&mut self, length: u8, negative: bool) -> Result<Bson> {
        let kind = self.type_bits.number()?;
        let mut encoded = 0u64;
        for _ in 0..length {
            encoded = encoded << 8 | u64::from(self.byte()?);
        }
        let integer = encoded >> 1;
        if encoded & 1 == 0 {
            return self.integer(integer, kind, negative);
        }
        let fraction_bytes = 8 - u32::from(length);
        let mut encoded = integer;
        for _ in 0..fraction_bytes {
            encoded = encoded << 8 | u64::from(self.byte()?);
        }
        let long_base = FiniteDecimal { negative: false, coefficient: u128::from(integer), exponent: 0 };
        if fraction_bytes == 0 {
            return self.continued(long_base, kind, negative);
        }
        let bin = (encoded & !3) as f64 / (1u64 << (8 * fraction_bytes)) as f64;
        match marker(encoded) {
            Marker::BelowFifteen | Marker::AboveFifteen if integer >= MIN_LONG_INTEGER => {
                self.continued(long_base, kind, negative)
            }
            marker => self.marked(bin, marker, kind, negative),
        }
    }

    fn integer(&mut self, magnitude: u64, kind: NumberType, negative: bool) -> Result<Bson> {
        let too_large = || malformed("an integer too large for its type");
        let value = i64::try_from(magnitude).map_err(|_| too_large())?;
        let value = if negative { -value } else { value };
        Ok(match kind {
            NumberType::Int32 => Bson::Int32(i32::try_from(value).map_err(|_| too_large())?),
            NumberType::Int64 => Bson::Int64(value),
            NumberType::Double => Bson::Double(value as f64),
            NumberType::Decimal => return self.decimal(FiniteDecimal::from_integer(value), kind, negative),
        })
    }

    /// The value of a double with a marker: the double itself, or the decimal that the marker indicates.
    fn marked(&mut self, bin: f64, marker: Marker, kind: NumberType, negative: bool) -> Result<Bson> {
        match (kind, marker) {
            (NumberType::Double, Marker::Equal) => Ok(Bson::Double(signed(bin, negative))),
            (_, Marker::Equal) => self.decimal(of_double(bin, DIGITS, Round::Up), kind, negative),
            (_, Marker::EqualToFifteen) => self.decimal(of_double(bin, 15, Round::Up), kind, negative),
            _ => self.continued(of_double(bin, DIGITS, Round::Up), kind, negative),
        }
    }

    /// Reads a decimal above `base`; the next 8 bytes give the distance in units of its 34th digit.
    fn continued(&mut self, base: FiniteDecimal, kind: NumberType, negative: bool) -> Result<Bson> {
        let units = self.long()?;
        let sum =
            add_units(normalized(base), units).ok_or_else(|| malformed("a decimal of too many digits"))?;
        self.decimal(sum, kind, negative)
    }

    fn decimal(&mut self, magnitude: FiniteDecimal, kind: NumberType, negative: bool) -> Result<Bson> {
        if kind != NumberType::Decimal {
            return Err(malformed("a decimal of another type"));
        }
        let low_bits = self.type_bits.exponent()?;
        let value = with_exponent(FiniteDecimal { negative, ..magnitude }, low_bits)
            .ok_or_else(|| malformed("a decimal of an impossible exponent"))?;
        Ok(Bson::Decimal128(Decimal::Finite(value).pack()))
    }
}

fn signed(magnitude: f64, negative: bool) -> f64 {
    if negative { -magnitude } else { magnitude }
}

fn marker(encoded: u64) -> Marker {
    match encoded & 3 {
        0 => Marker::Equal,
        1 => Marker::BelowFifteen,
        2 => Marker::EqualToFifteen,
        _ => Marker::AboveFifteen,
    }
}
