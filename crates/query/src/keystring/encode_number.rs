//! Integers and doubles into key bytes: class and length from sign and magnitude, then the magnitude, inverted if negative.
use super::class;
use super::encode::Writer;
use super::type_bits::{NumberType, ZeroType};

/// The first double beyond all 64-bit integers.
pub(super) const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
/// Doubles below it, and not subnormal ones only, leave room for one bit of marker; from it on for two.
pub(super) const TWO_TO_MINUS_255: f64 = f64::from_bits((1023 - 255) << 52);
/// What tiny doubles are multiplied with, so that none is subnormal.
pub(super) const TWO_TO_256: f64 = f64::from_bits((1023 + 256) << 52);
/// How a decimal stands to the double that is written for it, and to that double rounded up to 15 digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Equal = 0,
    BelowFifteen = 1,
    EqualToFifteen = 2,
    AboveFifteen = 3,
}

impl Writer<'_> {
    pub(super) fn integer(&mut self, value: i64, kind: NumberType, zero: ZeroType) {
        if value == 0 {
            self.type_bits.zero(zero);
            return self.put(class::ZERO);
        }
        self.type_bits.number(kind);
        if value == i64::MIN {
            // The one magnitude that leaves no room for the fraction bit; a double holds it exactly.
            self.large_double(-TWO_TO_63, Marker::Equal);
        } else {
            self.doubled(value.unsigned_abs() << 1, value < 0);
        }
    }

    /// An integer part, doubled, with the fraction bit: as many bytes as it needs.
    pub(super) fn doubled(&mut self, doubled: u64, negative: bool) {
        let skip = (doubled.leading_zeros() / 8).min(7) as u8;
        let length = 7 - skip;
        self.put(if negative { class::NEGATIVE_1_BYTE - length } else { class::POSITIVE_1_BYTE + length });
        let bytes = doubled.to_be_bytes();
        self.put_magnitude(bytes.get(usize::from(skip)..).unwrap_or_default(), negative);
    }

    /// A double, or the double that stands for a decimal. With a marker it is neither zero, infinite nor NaN, and has the
    /// magnitude for which that marker is allowed.
    pub(super) fn double(&mut self, value: f64, marker: Marker) {
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
    pub(super) fn small_double(&mut self, value: f64, marker: Marker) {
        let magnitude = value.abs();
        let encoded = if magnitude >= TWO_TO_MINUS_255 {
            magnitude.to_bits() << 2 | marker as u64
        } else {
            tiny_bits(magnitude * TWO_TO_256, marker != Marker::Equal)
        };
        self.small(encoded, value < 0.0);
    }

    /// The 8 bytes of a magnitude below 1.
    pub(super) fn small(&mut self, encoded: u64, negative: bool) {
        self.put(if negative { class::NEGATIVE_SMALL } else { class::POSITIVE_SMALL });
        self.put_magnitude(&encoded.to_be_bytes(), negative);
    }

    /// From 2^63 on: the double's bits without the top one of the exponent, which is always set; infinity is all ones.
    pub(super) fn large_double(&mut self, value: f64, marker: Marker) {
        let encoded = if value.is_infinite() {
            u64::MAX
        } else {
            (value.to_bits() << 1) & !(1 << 63) | u64::from(marker != Marker::Equal)
        };
        self.large(encoded, value < 0.0);
    }

    /// The 8 bytes of a magnitude from 2^63 on.
    pub(super) fn large(&mut self, encoded: u64, negative: bool) {
        self.put(if negative { class::NEGATIVE_LARGE } else { class::POSITIVE_LARGE });
        self.put_magnitude(&encoded.to_be_bytes(), negative);
    }
}

/// The bits of a tiny magnitude that has been multiplied with 2^256, and whether a decimal's rest follows.
pub(super) fn tiny_bits(scaled: f64, continued: bool) -> u64 {
    (scaled.to_bits() << 1 | u64::from(continued)) + (1 << 62)
}
