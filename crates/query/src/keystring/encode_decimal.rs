//! Decimals into key bytes: the double at or below the magnitude, a marker, and where that says too little, how many units of
//! the 34th digit the decimal lies above the double.
//!
//! So a decimal sorts among doubles and integers, and costs no more than a double as long as 15 digits say all of it.
use super::class;
use super::encode::Writer;
use super::encode_number::{Marker, TWO_TO_63, TWO_TO_256, TWO_TO_MINUS_255, tiny_bits};
use super::rounding::{Round, halves, multiply_down, normalized, of_double, to_double_down, units_between};
use super::type_bits::{NumberType, ZeroType};
use crate::decimal::{BIAS, DIGITS, Decimal, Finite};
use bson::Decimal128;

/// Integers from here on may be no doubles.
const TWO_TO_53: f64 = 9_007_199_254_740_992.0;

impl Writer<'_> {
    pub(super) fn decimal(&mut self, value: Decimal128) {
        match Decimal::of(value) {
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

    fn finite(&mut self, value: Finite) {
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
            let marker = match (Finite { negative: false, ..value }).compare(fifteen) {
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

    /// From 2^53 to 2^63 the integer part itself is written, which a double may not hold; the rest follows it. None when there
    /// is no rest.
    fn long_integer(&mut self, value: Finite) -> Option<Finite> {
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
        Some(normalized(Finite { negative: false, coefficient: u128::from(integer), exponent: 0 }))
    }

    /// Below the normal doubles, which would give too few digits: scaled as a decimal, always down. `bin` is the double below
    /// the magnitude; where even that is zero, the decimal's own bits are written.
    fn tiny(&mut self, value: Finite, bin: f64) {
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

/// What a decimal below the normal doubles is counted from: the scaled double, as a decimal scaled back, always down.
pub(super) fn tiny_base(scaled: f64) -> Finite {
    let down = of_double(1.0 / TWO_TO_256, DIGITS, Round::Down);
    normalized(multiply_down(of_double(scaled, DIGITS, Round::Down), down))
}
