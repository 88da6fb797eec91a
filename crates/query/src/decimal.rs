//! Decimal128 as sign, coefficient and exponent, and its comparison with integers and doubles.
//!
//! All steps are exact unless their names say that they round. Big integers are needed only to compare a decimal with a double;
//! integers, doubles and strings are not handled here.
use bigdecimal::num_bigint::BigUint;
use bson::Decimal128;
use std::cmp::Ordering;

/// The offset of the exponent field (IEEE 754-2008, decimal128).
pub(crate) const BIAS: i32 = 6176;
/// The largest value of the exponent field.
pub(crate) const MAX_BIASED_EXPONENT: i32 = 12_287;
/// Digits of the longest coefficient.
pub(crate) const DIGITS: u32 = 34;
/// The first coefficient that is too long.
pub(crate) const COEFFICIENT_END: u128 = 10u128.pow(DIGITS);

/// The value of a Decimal128.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decimal {
    /// Not a number, whatever its sign and payload.
    NaN,
    /// Infinity, of either sign.
    Infinity {
        /// Whether it is negative infinity.
        negative: bool,
    },
    Finite(FiniteDecimal),
}

/// A number: coefficient times ten to the exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FiniteDecimal {
    /// The sign, which zero has too.
    pub(crate) negative: bool,
    /// The coefficient, always below [`COEFFICIENT_END`].
    pub(crate) coefficient: u128,
    /// From -6176 to 6111.
    pub(crate) exponent: i32,
}

impl Decimal {
    /// Decodes the bits. A coefficient that is too long counts as zero, as in IEEE 754.
    pub(crate) fn from_value(value: Decimal128) -> Decimal {
        let bits = u128::from_le_bytes(value.bytes());
        let negative = bits >> 127 == 1;
        match (bits >> 122) & 0x1f {
            0x1f => Decimal::NaN,
            0x1e => Decimal::Infinity { negative },
            combination => {
                // If the top bits are 11, the exponent is two bits lower and the coefficient is beyond the limit.
                let (biased, coefficient) = if combination >> 3 == 3 {
                    ((bits >> 111) & 0x3fff, 0)
                } else {
                    ((bits >> 113) & 0x3fff, bits & ((1 << 113) - 1))
                };
                let coefficient = if coefficient < COEFFICIENT_END { coefficient } else { 0 };
                Decimal::Finite(FiniteDecimal { negative, coefficient, exponent: biased as i32 - BIAS })
            }
        }
    }

    /// Encodes the number; NaN becomes the quiet one without payload.
    pub(crate) fn pack(self) -> Decimal128 {
        let bits = match self {
            Decimal::NaN => 0x1f << 122,
            Decimal::Infinity { negative } => (u128::from(negative) << 127) | (0x1e << 122),
            Decimal::Finite(finite) => {
                let biased = (finite.exponent + BIAS) as u128;
                (u128::from(finite.negative) << 127) | (biased << 113) | finite.coefficient
            }
        };
        Decimal128::from_bytes(bits.to_le_bytes())
    }

    /// Compares; NaN is below everything and equal to itself.
    pub(crate) fn compare(self, other: Decimal) -> Ordering {
        match (self, other) {
            (Decimal::Finite(left), Decimal::Finite(right)) => left.compare(right),
            _ => self.extreme().cmp(&other.extreme()),
        }
    }

    /// Compares with a double.
    pub(crate) fn compare_double(self, other: f64) -> Ordering {
        let right = if other.is_nan() {
            Decimal::NaN
        } else if other.is_infinite() {
            Decimal::Infinity { negative: other < 0.0 }
        } else {
            return match self {
                Decimal::Finite(finite) => finite.compare_double(other),
                _ => self.extreme().cmp(&0),
            };
        };
        self.extreme().cmp(&right.extreme())
    }

    /// The rank of the value among NaN, minus infinity, numbers and infinity, in that order; a number has rank 0.
    fn extreme(self) -> i8 {
        match self {
            Decimal::NaN => -2,
            Decimal::Infinity { negative: true } => -1,
            Decimal::Finite(_) => 0,
            Decimal::Infinity { negative: false } => 1,
        }
    }
}

impl FiniteDecimal {
    pub(crate) fn from_integer(value: i64) -> FiniteDecimal {
        FiniteDecimal { negative: value < 0, coefficient: u128::from(value.unsigned_abs()), exponent: 0 }
    }

    /// -1, 0 or 1.
    fn signum(self) -> i8 {
        match (self.coefficient, self.negative) {
            (0, _) => 0,
            (_, true) => -1,
            (_, false) => 1,
        }
    }

    /// The power of ten of the first digit; the number is not zero.
    pub(crate) fn magnitude(self) -> i32 {
        self.coefficient.checked_ilog10().map_or(0, |digits| digits as i32) + self.exponent
    }

    /// Compares by value: 1.0 equals 1.00.
    pub(crate) fn compare(self, other: FiniteDecimal) -> Ordering {
        let by_sign = self.signum().cmp(&other.signum());
        if by_sign.is_ne() || self.coefficient == 0 {
            return by_sign;
        }
        let by_magnitude = self.magnitude().cmp(&other.magnitude()).then_with(|| {
            // The first digits stand at the same place, so that the exponents differ by less than the digits, and the
            // coefficient with fewer digits grows to at most as many as the other has.
            let shift = 10u128.pow(self.exponent.abs_diff(other.exponent).min(DIGITS));
            if self.exponent > other.exponent {
                (self.coefficient * shift).cmp(&other.coefficient)
            } else {
                self.coefficient.cmp(&(other.coefficient * shift))
            }
        });
        if self.negative { by_magnitude.reverse() } else { by_magnitude }
    }

    /// Compares with a finite double, exactly.
    pub(crate) fn compare_double(self, other: f64) -> Ordering {
        let sign = if other == 0.0 { 0 } else { other.signum() as i8 };
        let by_sign = self.signum().cmp(&sign);
        if by_sign.is_ne() || self.coefficient == 0 {
            return by_sign;
        }
        let by_magnitude = self.compare_magnitude(other.abs());
        if self.negative { by_magnitude.reverse() } else { by_magnitude }
    }

    /// Compares the magnitude with a positive finite double.
    fn compare_magnitude(self, other: f64) -> Ordering {
        // The largest double is below 1e309, the smallest above 1e-324: outside the powers of ten would only be long.
        match self.magnitude() {
            309.. => return Ordering::Greater,
            ..-324 => return Ordering::Less,
            _ => {}
        }
        let (mantissa, power) = split_double(other);
        let mut left = BigUint::from(self.coefficient);
        let mut right = BigUint::from(mantissa);
        let ten = BigUint::from(10u32).pow(self.exponent.unsigned_abs());
        if self.exponent >= 0 {
            left *= ten;
        } else {
            right *= ten;
        }
        if power >= 0 {
            right <<= power.unsigned_abs();
        } else {
            left <<= power.unsigned_abs();
        }
        left.cmp(&right)
    }
}

/// A positive finite double as an integer times a power of two.
pub(crate) fn split_double(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    if exponent == 0 { (fraction, -1074) } else { (fraction | (1 << 52), exponent - 1075) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::from_value(text.parse().unwrap())
    }

    #[test]
    fn bits_come_back() {
        for text in
            ["0", "-0", "1", "-1.50", "9.999999999999999999999999999999999E+6144", "1E-6176", "Infinity"]
        {
            let packed: Decimal128 = text.parse().unwrap();
            assert_eq!(Decimal::from_value(packed).pack(), packed, "{text}");
        }
        assert_eq!(decimal("NaN"), Decimal::NaN);
        assert_eq!(
            decimal("-1.50"),
            Decimal::Finite(FiniteDecimal { negative: true, coefficient: 150, exponent: -2 })
        );
    }

    #[test]
    fn decimals_are_ordered_by_value() {
        let sorted =
            ["NaN", "-Infinity", "-1E+6144", "-2", "-1E-6176", "0", "1E-6176", "0.1", "9", "10", "1E+6111"];
        for (place, left) in sorted.iter().enumerate() {
            for (other, right) in sorted.iter().enumerate() {
                assert_eq!(decimal(left).compare(decimal(right)), place.cmp(&other), "{left} beside {right}");
            }
        }
        assert_eq!(decimal("1.0").compare(decimal("1.0000000000000000000000")), Ordering::Equal);
        assert_eq!(decimal("0E+10").compare(decimal("-0")), Ordering::Equal);
    }

    #[test]
    fn a_double_is_not_the_decimal_it_prints_as() {
        // The double next to 0.1 is a little larger than it.
        assert_eq!(decimal("0.1").compare_double(0.1), Ordering::Less);
        assert_eq!(decimal("0.5").compare_double(0.5), Ordering::Equal);
        assert_eq!(decimal("9007199254740993").compare_double(9_007_199_254_740_992.0), Ordering::Greater);
        assert_eq!(decimal("1E+400").compare_double(f64::MAX), Ordering::Greater);
        assert_eq!(decimal("1E-400").compare_double(5e-324), Ordering::Less);
        assert_eq!(decimal("-1E-400").compare_double(-5e-324), Ordering::Greater);
        assert_eq!(decimal("5E-324").compare_double(5e-324), Ordering::Greater);
        assert_eq!(decimal("NaN").compare_double(f64::NAN), Ordering::Equal);
        assert_eq!(decimal("-Infinity").compare_double(f64::NEG_INFINITY), Ordering::Equal);
        assert_eq!(decimal("1").compare_double(f64::INFINITY), Ordering::Less);
        assert_eq!(decimal("0").compare_double(-0.0), Ordering::Equal);
    }
}
