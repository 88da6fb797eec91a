//! Conversions between doubles and decimals for keys, with rounding in a given direction to a given number of digits.
use crate::decimal::{
    BIAS, COEFFICIENT_END, DIGITS, Decimal, FiniteDecimal, MAX_BIASED_EXPONENT, split_double,
};
use bigdecimal::num_bigint::BigUint;
use std::cmp::Ordering;

/// The rounding of a magnitude that has too many digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    /// Rounds a number towards zero.
    Down,
    /// Rounds away from zero.
    Up,
}

/// A positive double as a decimal of at most `digits` digits; exact if it has no more.
pub(super) fn of_double(value: f64, digits: u32, round: Round) -> FiniteDecimal {
    let (mantissa, power) = split_double(value);
    // m * 2^-k is m * 5^k / 10^k.
    let (number, exponent) = if power >= 0 {
        (BigUint::from(mantissa) << power.unsigned_abs(), 0)
    } else {
        (BigUint::from(mantissa) * BigUint::from(5u32).pow(power.unsigned_abs()), power)
    };
    cut(number, exponent, digits, round)
}

/// The product of two magnitudes to 34 digits, rounded down.
pub(super) fn multiply_down(left: FiniteDecimal, right: FiniteDecimal) -> FiniteDecimal {
    let product = BigUint::from(left.coefficient) * BigUint::from(right.coefficient);
    cut(product, left.exponent + right.exponent, DIGITS, Round::Down)
}

fn cut(number: BigUint, exponent: i32, digits: u32, round: Round) -> FiniteDecimal {
    let excess = digits_of(&number).saturating_sub(digits);
    let divisor = BigUint::from(10u32).pow(excess);
    let quotient = &number / &divisor;
    let inexact = excess > 0 && &quotient * &divisor != number;
    let mut coefficient = u128::try_from(quotient).unwrap_or(0);
    let mut exponent = exponent + excess as i32;
    if inexact && round == Round::Up {
        coefficient += 1;
        if coefficient == 10u128.pow(digits) {
            coefficient /= 10;
            exponent += 1;
        }
    }
    FiniteDecimal { negative: false, coefficient, exponent }
}

fn digits_of(number: &BigUint) -> u32 {
    // The estimate from the highest bit is at most one digit too low.
    let estimate = (number.bits().saturating_sub(1) as f64 * std::f64::consts::LOG10_2) as u32 + 1;
    estimate + u32::from(*number >= BigUint::from(10u32).pow(estimate))
}

/// The largest double that is not above the magnitude, and whether it equals it.
pub(super) fn to_double_down(magnitude: FiniteDecimal) -> (f64, bool) {
    let magnitude = FiniteDecimal { negative: false, ..magnitude };
    // Parsing gives the nearest double, which is at most one step too far up.
    let text = format!("{}e{}", magnitude.coefficient, magnitude.exponent);
    let nearest = text.parse::<f64>().unwrap_or(f64::INFINITY).min(f64::MAX);
    match magnitude.compare_double(nearest) {
        Ordering::Equal => (nearest, true),
        Ordering::Less => (nearest.next_down(), false),
        Ordering::Greater => (nearest, false),
    }
}

/// The same value with as many digits as fit, so that all values of one magnitude have the same exponent.
pub(super) fn normalized(magnitude: FiniteDecimal) -> FiniteDecimal {
    let digits = magnitude.coefficient.checked_ilog10().map_or(DIGITS, |log| log + 1);
    let room = u32::try_from(magnitude.exponent + BIAS).unwrap_or(0);
    let shift = DIGITS.saturating_sub(digits).min(room);
    FiniteDecimal {
        coefficient: magnitude.coefficient * 10u128.pow(shift),
        exponent: magnitude.exponent - shift as i32,
        ..magnitude
    }
}

/// The sum of a normalized magnitude and `units` of its last digit; `None` if that has more digits than fit.
pub(super) fn add_units(magnitude: FiniteDecimal, units: u64) -> Option<FiniteDecimal> {
    let sum = magnitude.coefficient + u128::from(units);
    if sum < COEFFICIENT_END {
        Some(FiniteDecimal { coefficient: sum, ..magnitude })
    } else {
        let tenth = FiniteDecimal { coefficient: sum / 10, exponent: magnitude.exponent + 1, ..magnitude };
        sum.is_multiple_of(10).then_some(tenth)
    }
}

/// How many units of the last digit of `base`, which is normalized, lie between it and the larger magnitude `value`.
pub(super) fn units_between(base: FiniteDecimal, value: FiniteDecimal) -> u64 {
    let value = normalized(value);
    // `value` may begin one digit further left, never further right, and then its last digits are zeros.
    let shift = 10u128.pow(value.exponent.abs_diff(base.exponent).min(3));
    u64::try_from((value.coefficient * shift).saturating_sub(base.coefficient)).unwrap_or(u64::MAX)
}

/// The same value with the exponent that has these low 6 bits; `None` if it cannot have that exponent.
pub(super) fn with_exponent(value: FiniteDecimal, low_bits: i32) -> Option<FiniteDecimal> {
    if value.coefficient == 0 {
        return None;
    }
    let shortest = normalized(value);
    let mut coefficient = shortest.coefficient;
    // From most digits to fewest there are at most 34 exponents, so the low 6 bits identify one.
    for exponent in shortest.exponent..=MAX_BIASED_EXPONENT - BIAS {
        if (exponent + BIAS) & 0x3f == low_bits {
            return Some(FiniteDecimal { coefficient, exponent, ..value });
        }
        if !coefficient.is_multiple_of(10) {
            return None;
        }
        coefficient /= 10;
    }
    None
}

/// The two halves of a magnitude's Decimal128, the higher first.
pub(super) fn halves(magnitude: FiniteDecimal) -> (u64, u64) {
    let bits =
        u128::from_le_bytes(Decimal::Finite(FiniteDecimal { negative: false, ..magnitude }).pack().bytes());
    ((bits >> 64) as u64, bits as u64)
}

/// The magnitude in two halves; `None` if they hold no number.
pub(super) fn of_halves(high: u64, low: u64) -> Option<FiniteDecimal> {
    let bits = u128::from(high) << 64 | u128::from(low);
    match Decimal::from_value(bson::Decimal128::from_bytes(bits.to_le_bytes())) {
        Decimal::Finite(finite) => Some(finite),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finite(text: &str) -> FiniteDecimal {
        match Decimal::from_value(text.parse().unwrap()) {
            Decimal::Finite(finite) => finite,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_double_becomes_the_decimal_that_its_bits_mean() {
        assert_eq!(of_double(0.1, 34, Round::Down), finite("0.1000000000000000055511151231257827"));
        assert_eq!(of_double(0.1, 34, Round::Up), finite("0.1000000000000000055511151231257828"));
        assert_eq!(of_double(0.1, 15, Round::Up), finite("0.100000000000001"));
        assert_eq!(of_double(0.5, 15, Round::Up).compare(finite("0.5")), Ordering::Equal);
        assert_eq!(of_double(1e22, 34, Round::Up), finite("10000000000000000000000"));
        let power = of_double(2f64.powi(256), 34, Round::Down);
        assert_eq!(power.coefficient, 1_157_920_892_373_161_954_235_709_850_086_879);
    }

    #[test]
    fn a_decimal_falls_to_the_double_below_it() {
        assert_eq!(to_double_down(finite("0.5")), (0.5, true));
        assert_eq!(to_double_down(finite("0.1")), (0.1f64.next_down(), false));
        assert_eq!(to_double_down(finite("1E+6000")), (f64::MAX, false));
        assert_eq!(to_double_down(finite("4E-324")), (0.0, false));
        assert_eq!(to_double_down(finite("1E-6000")), (0.0, false));
    }

    #[test]
    fn exponents_come_back_from_six_bits() {
        for text in ["1", "1.000000000000000000000000000000000", "1E+33", "1.50E-6000", "7E+6111", "1E-6176"]
        {
            let value = finite(text);
            let low = (value.exponent + BIAS) & 0x3f;
            assert_eq!(with_exponent(normalized(value), low), Some(value), "{text}");
        }
        assert_eq!(with_exponent(finite("1.5"), (BIAS + 1) & 0x3f), None);
    }

    #[test]
    fn units_bridge_a_power_of_ten() {
        let base = normalized(finite("9.999999999999999999999999999999990"));
        let value = finite("10.00000000000000000000000000000001");
        let units = units_between(base, value);
        assert_eq!(units, 20);
        assert_eq!(add_units(base, units).map(|sum| sum.compare(value)), Some(Ordering::Equal));
        assert_eq!(add_units(base, 11), None);
    }
}
