//! Encodes values into key bytes.
//!
//! A text ends in NUL, and a NUL within it is followed by 0xff. Numbers of all types share one class: a byte for sign and
//! length, then the integer part doubled, its lowest bit saying whether a fraction follows. Binary data is preceded by its
//! length, in one byte below 255 and in five from there on.
//!
//! Integers and doubles are class and length from sign and magnitude, then the magnitude, inverted if negative. A decimal is the
//! double at or below the magnitude, a marker, and if that is not exact, the distance of the decimal above the double, in units
//! of the 34th digit. So a decimal sorts among doubles and integers, and takes no more bytes than a double if 15 digits
//! are exact.
use super::class;
use super::rounding::{Round, halves, multiply_down, normalized, of_double, to_double_down, units_between};
use super::type_bits::{NumberType, TypeBits, ZeroType};
use crate::decimal::{BIAS, DIGITS, Decimal, FiniteDecimal};
use crate::order::{MAX_DEPTH, db_pointer_bytes};
use bson::Decimal128;
use bson::raw::{RawBinaryRef, RawBsonRef, RawDocument};

/// The bytes to reserve after a value: the end of the key and a record id.
const TAIL_BYTES: usize = 10;

/// The first double beyond all 64-bit integers.
pub(super) const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
/// Doubles below this one, not only subnormal ones, leave room for a marker of one bit; from it on for two bits.
const TWO_TO_MINUS_255: f64 = f64::from_bits((1023 - 255) << 52);
/// The factor of tiny doubles, so that none is subnormal.
pub(super) const TWO_TO_256: f64 = f64::from_bits((1023 + 256) << 52);
/// From this integer on, not every integer is a double.
const TWO_TO_53: f64 = 9_007_199_254_740_992.0;

/// The relation of a decimal to the double that is written for it, and to that double rounded up to 15 digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Equal = 0,
    BelowFifteen = 1,
    EqualToFifteen = 2,
    AboveFifteen = 3,
}

/// The reason why a value has no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyFault {
    Malformed,
    TooDeep,
}

pub(super) struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    type_bits: &'a mut TypeBits,
    fault: &'a mut Option<KeyFault>,
    /// 0xff when the field descends.
    mask: u8,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        bytes: &'a mut Vec<u8>,
        type_bits: &'a mut TypeBits,
        fault: &'a mut Option<KeyFault>,
        descending: bool,
    ) -> Self {
        Writer { bytes, type_bits, fault, mask: if descending { 0xff } else { 0 } }
    }

    pub(super) fn value(&mut self, value: RawBsonRef<'_>, depth: u32) {
        match value {
            RawBsonRef::String(text) => {
                self.type_bits.string();
                self.text(class::TEXT, text);
            }
            RawBsonRef::Int32(value) => self.integer(i64::from(value), NumberType::Int32, ZeroType::Int32),
            RawBsonRef::Int64(value) => self.integer(value, NumberType::Int64, ZeroType::Int64),
            RawBsonRef::ObjectId(id) => {
                self.put(class::OBJECT_ID);
                self.put_all(&id.bytes());
            }
            RawBsonRef::Double(value) => {
                if value == 0.0 && value.is_sign_negative() {
                    self.type_bits.zero(ZeroType::NegativeDouble);
                } else {
                    self.type_bits.number(NumberType::Double);
                }
                self.double(value, Marker::Equal);
            }
            RawBsonRef::Decimal128(value) => self.decimal(value),
            RawBsonRef::DateTime(value) => {
                self.put(class::DATE);
                // The sign bit is inverted, so that dates before 1970 come first.
                self.put_all(&(value.timestamp_millis() ^ i64::MIN).to_be_bytes());
            }
            RawBsonRef::Timestamp(value) => {
                self.put(class::TIMESTAMP);
                self.put_all(&(u64::from(value.time) << 32 | u64::from(value.increment)).to_be_bytes());
            }
            RawBsonRef::Boolean(value) => self.put(if value { class::TRUE } else { class::FALSE }),
            RawBsonRef::Binary(value) => self.binary(value),
            RawBsonRef::Document(document) => {
                self.put(class::OBJECT);
                self.fields(document, depth + 1);
            }
            RawBsonRef::Array(array) => {
                self.put(class::ARRAY);
                self.elements(array, depth + 1);
            }
            other => self.rare(other, depth),
        }
    }

    /// Encodes types with a single value and types that are seldom indexed.
    fn rare(&mut self, value: RawBsonRef<'_>, depth: u32) {
        match value {
            RawBsonRef::Symbol(text) => {
                self.type_bits.symbol();
                self.text(class::TEXT, text);
            }
            RawBsonRef::RegularExpression(regex) => {
                self.put(class::REGEX);
                self.c_string(regex.pattern.as_str());
                self.c_string(regex.options.as_str());
            }
            RawBsonRef::JavaScriptCode(code) => self.text(class::CODE, code),
            RawBsonRef::JavaScriptCodeWithScope(code) => {
                self.text(class::CODE_WITH_SCOPE, code.code);
                self.fields(code.scope, depth + 1);
            }
            RawBsonRef::DbPointer(_) => {
                let bytes = db_pointer_bytes(value);
                self.put(class::DB_POINTER);
                self.put_all(&(bytes.len().saturating_sub(12) as u32).to_be_bytes());
                self.put_all(&bytes);
            }
            single => self.put(class::from_type(single.element_type())),
        }
    }

    fn put(&mut self, byte: u8) {
        self.bytes.push(byte ^ self.mask);
    }

    fn put_all(&mut self, bytes: &[u8]) {
        if self.mask == 0 {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.bytes.extend(bytes.iter().map(|byte| !byte));
        }
    }

    /// Writes bytes that grow with the magnitude of a number, inverted if it is negative.
    fn put_magnitude(&mut self, bytes: &[u8], negative: bool) {
        let mask = self.mask;
        self.mask ^= if negative { 0xff } else { 0 };
        self.put_all(bytes);
        self.mask = mask;
    }

    fn text(&mut self, class: u8, text: &str) {
        let bytes = text.as_bytes();
        self.bytes.reserve(bytes.len() + 2 + TAIL_BYTES);
        self.put(class);
        if bytes.contains(&class::NUL) {
            for byte in bytes {
                self.put(*byte);
                if *byte == class::NUL {
                    self.put(class::ESCAPE);
                }
            }
        } else {
            self.put_all(bytes);
        }
        self.put(class::NUL);
    }

    fn c_string(&mut self, text: &str) {
        self.put_all(text.as_bytes());
        self.put(class::NUL);
    }

    fn binary(&mut self, value: RawBinaryRef<'_>) {
        self.put(class::BINARY);
        match u8::try_from(value.bytes.len()) {
            Ok(length @ ..=0xfe) => self.put(length),
            _ => {
                self.put(0xff);
                self.put_all(&(value.bytes.len() as u32).to_be_bytes());
            }
        }
        self.put(value.subtype.into());
        self.put_all(value.bytes);
    }

    fn fields(&mut self, document: &RawDocument, depth: u32) {
        if depth > MAX_DEPTH {
            *self.fault = Some(KeyFault::TooDeep);
            return;
        }
        for field in document {
            let Ok((name, value)) = field else {
                *self.fault = Some(KeyFault::Malformed);
                return;
            };
            self.put(class::from_type(value.element_type()));
            self.c_string(name.as_str());
            self.value(value, depth);
        }
        self.put(class::NUL);
    }

    fn elements(&mut self, array: &bson::RawArray, depth: u32) {
        if depth > MAX_DEPTH {
            *self.fault = Some(KeyFault::TooDeep);
            return;
        }
        for value in array {
            let Ok(value) = value else {
                *self.fault = Some(KeyFault::Malformed);
                return;
            };
            self.value(value, depth);
        }
        self.put(class::NUL);
    }
}

impl Writer<'_> {
    fn integer(&mut self, value: i64, kind: NumberType, zero: ZeroType) {
        if value == 0 {
            self.type_bits.zero(zero);
            return self.put(class::ZERO);
        }
        self.type_bits.number(kind);
        if value == i64::MIN {
            // The only magnitude that leaves no room for the fraction bit; a double holds it exactly.
            self.large_double(-TWO_TO_63, Marker::Equal);
        } else {
            self.doubled(value.unsigned_abs() << 1, value < 0);
        }
    }

    /// An integer part, doubled, with the fraction bit: as many bytes as it needs.
    fn doubled(&mut self, doubled: u64, negative: bool) {
        let skip = (doubled.leading_zeros() / 8).min(7) as u8;
        let length = 7 - skip;
        self.put(if negative { class::NEGATIVE_1_BYTE - length } else { class::POSITIVE_1_BYTE + length });
        let bytes = doubled.to_be_bytes();
        self.put_magnitude(bytes.get(usize::from(skip)..).unwrap_or_default(), negative);
    }

    /// Writes a double, or the double that represents a decimal. With a marker it is neither zero, infinite nor NaN, and has a
    /// magnitude for which that marker is allowed.
    fn double(&mut self, value: f64, marker: Marker) {
        let magnitude = value.abs();
        let negative = value < 0.0;
        if value.is_nan() {
            self.put(class::NAN);
        } else if magnitude >= TWO_TO_63 {
            self.large_double(value, marker);
        } else if magnitude >= 1.0 {
            let integer = magnitude as u64;
            if integer as f64 == magnitude && marker == Marker::Equal {
                self.doubled(integer << 1, negative);
            } else {
                self.fraction(magnitude, marker, negative);
            }
        } else if magnitude > 0.0 {
            self.small_double(value, marker);
        } else {
            self.put(class::ZERO);
        }
    }

    /// A magnitude from 1 to 2^53 with a fraction: 8 bytes of which the first hold the integer part as it would stand alone,
    /// and the last the fraction and the marker.
    fn fraction(&mut self, magnitude: f64, marker: Marker, negative: bool) {
        let integer = magnitude as u64;
        let fraction_bytes = (integer << 1).leading_zeros() / 8;
        let length = 7 - fraction_bytes as u8;
        self.put(if negative { class::NEGATIVE_1_BYTE - length } else { class::POSITIVE_1_BYTE + length });
        let shifted = (magnitude * (1u64 << (8 * fraction_bytes)) as f64) as u64;
        let encoded = (shifted + ((integer + 1) << (8 * fraction_bytes))) | marker as u64;
        self.put_magnitude(&encoded.to_be_bytes(), negative);
    }

    /// Below 1: the double's own bits behind a two-bit prefix, 3 from 2^-255 on, 1 or 2 below it.
    fn small_double(&mut self, value: f64, marker: Marker) {
        let magnitude = value.abs();
        let encoded = if magnitude >= TWO_TO_MINUS_255 {
            magnitude.to_bits() << 2 | marker as u64
        } else {
            tiny_bits(magnitude * TWO_TO_256, marker != Marker::Equal)
        };
        self.small(encoded, value < 0.0);
    }

    /// The 8 bytes of a magnitude below 1.
    fn small(&mut self, encoded: u64, negative: bool) {
        self.put(if negative { class::NEGATIVE_SMALL } else { class::POSITIVE_SMALL });
        self.put_magnitude(&encoded.to_be_bytes(), negative);
    }

    /// From 2^63 on: the double's bits without the top one of the exponent, which is always set; infinity is all ones.
    fn large_double(&mut self, value: f64, marker: Marker) {
        let encoded = if value.is_infinite() {
            u64::MAX
        } else {
            (value.to_bits() << 1) & !(1 << 63) | u64::from(marker != Marker::Equal)
        };
        self.large(encoded, value < 0.0);
    }

    /// The 8 bytes of a magnitude from 2^63 on.
    fn large(&mut self, encoded: u64, negative: bool) {
        self.put(if negative { class::NEGATIVE_LARGE } else { class::POSITIVE_LARGE });
        self.put_magnitude(&encoded.to_be_bytes(), negative);
    }
}

/// The bits of a tiny magnitude multiplied by 2^256, and of the flag whether a decimal's rest follows.
pub(super) fn tiny_bits(scaled: f64, continued: bool) -> u64 {
    (scaled.to_bits() << 1 | u64::from(continued)) + (1 << 62)
}

impl Writer<'_> {
    fn decimal(&mut self, value: Decimal128) {
        match Decimal::from_value(value) {
            Decimal::NaN => {
                self.type_bits.number(NumberType::Decimal);
                self.put(class::NAN);
            }
            Decimal::Infinity { negative } => {
                self.type_bits.number(NumberType::Decimal);
                self.large(u64::MAX, negative);
            }
            Decimal::Finite(finite) => {
                let biased = finite.exponent + BIAS;
                if finite.coefficient == 0 {
                    self.type_bits
                        .zero(ZeroType::Decimal { negative: finite.negative, biased: biased as u16 });
                    self.put(class::ZERO);
                } else {
                    self.type_bits.number(NumberType::Decimal);
                    self.type_bits.exponent(biased);
                    self.finite(finite);
                }
            }
        }
    }

    fn finite(&mut self, value: FiniteDecimal) {
        let negative = value.negative;
        let (bin, exact) = to_double_down(value);
        let signed = if negative { -bin } else { bin };
        let up = || normalized(of_double(bin, DIGITS, Round::Up));
        let base = if exact {
            return self.double(signed, Marker::Equal);
        } else if bin < f64::MIN_POSITIVE {
            return self.tiny(value, bin);
        } else if bin >= f64::MAX {
            // The top bit, which no double has, puts it above all of them; infinity stays above it.
            let (high, low) = halves(normalized(value));
            self.large(high | 1 << 63, negative);
            return self.put_magnitude(&low.to_be_bytes(), negative);
        } else if bin >= TWO_TO_63 {
            self.large_double(signed, Marker::AboveFifteen);
            up()
        } else if bin < TWO_TO_MINUS_255 {
            self.small_double(signed, Marker::AboveFifteen);
            up()
        } else if bin >= TWO_TO_53 {
            match self.long_integer(value) {
                Some(base) => base,
                None => return,
            }
        } else {
            let fifteen = of_double(bin, 15, Round::Up);
            let marker = match (FiniteDecimal { negative: false, ..value }).compare(fifteen) {
                std::cmp::Ordering::Less => Marker::BelowFifteen,
                std::cmp::Ordering::Equal => Marker::EqualToFifteen,
                std::cmp::Ordering::Greater => Marker::AboveFifteen,
            };
            self.double(signed, marker);
            if marker == Marker::EqualToFifteen {
                return;
            }
            up()
        };
        let units = units_between(base, value);
        self.put_magnitude(&units.to_be_bytes(), negative);
    }

    /// From 2^53 to 2^63, writes the integer part itself, which a double may not hold. Returns the rest to write after it, or
    /// `None` if there is none.
    fn long_integer(&mut self, value: FiniteDecimal) -> Option<FiniteDecimal> {
        let ten = 10u128.pow(value.exponent.unsigned_abs().min(DIGITS));
        let (integer, fraction) = if value.exponent >= 0 {
            (value.coefficient * ten, 0)
        } else {
            (value.coefficient / ten, value.coefficient % ten)
        };
        let integer = integer as u64;
        self.doubled(integer << 1 | u64::from(fraction != 0), value.negative);
        if fraction == 0 {
            return None;
        }
        if integer < 1 << 55 {
            // Seven bytes hold the integer part; the eighth has only the marker.
            self.put_magnitude(&[Marker::AboveFifteen as u8], value.negative);
        }
        Some(normalized(FiniteDecimal { negative: false, coefficient: u128::from(integer), exponent: 0 }))
    }

    /// Writes a magnitude below the normal doubles, which would give too few digits: it is scaled as a decimal, always rounded
    /// down. `bin` is the double below the magnitude; if even that is zero, the decimal's own bits are written.
    fn tiny(&mut self, value: FiniteDecimal, bin: f64) {
        let negative = value.negative;
        if bin == 0.0 {
            let (high, low) = halves(normalized(value));
            self.small(high, negative);
            return self.put_magnitude(&low.to_be_bytes(), negative);
        }
        let up = of_double(TWO_TO_256, DIGITS, Round::Down);
        let (scaled, _) = to_double_down(multiply_down(value, up));
        let scaled = scaled.max(bin * TWO_TO_256);
        self.small(tiny_bits(scaled, true), negative);
        let units = units_between(tiny_base(scaled), value);
        self.put_magnitude(&units.to_be_bytes(), negative);
    }
}

/// The base of a decimal below the normal doubles: the scaled double, as a decimal scaled back, always down.
pub(super) fn tiny_base(scaled: f64) -> FiniteDecimal {
    let down = of_double(1.0 / TWO_TO_256, DIGITS, Round::Down);
    normalized(multiply_down(of_double(scaled, DIGITS, Round::Down), down))
}
