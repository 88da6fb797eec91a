//! Arithmetic on Decimal128, 34 digits, half to even.
//!
//! Infinities and NaN follow the rules of doubles. Functions that have no exact form (logarithms, trigonometry) are computed as
//! doubles and come back with 15 digits; MongoDB computes 34.

use std::num::NonZeroU64;
use std::str::FromStr;

use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, RoundingMode, Zero};
use bson::Decimal128;

const DIGITS: u64 = 34;
const EXPONENT_MAX: i64 = 6111;
const EXPONENT_MIN: i64 = -6176;

/// The exact value; none for infinities and NaN.
pub(crate) fn big(value: Decimal128) -> Option<BigDecimal> {
    let text = value.to_string();
    if text.contains(['N', 'I']) { None } else { BigDecimal::from_str(&text).ok() }
}

/// The nearest decimal of 34 digits.
pub(crate) fn nearest(value: &BigDecimal) -> Decimal128 {
    let rounded = match NonZeroU64::new(DIGITS) {
        Some(digits) if value.digits() > DIGITS => value.with_precision_round(digits, RoundingMode::HalfEven),
        _ => value.clone(),
    };
    let (mut digits, mut exponent) = parts(&rounded);
    if exponent < EXPONENT_MIN {
        (digits, exponent) = parts(&rounded.with_scale_round(-EXPONENT_MIN, RoundingMode::HalfEven));
    }
    if exponent > EXPONENT_MAX {
        // A large exponent is written with zeros in the coefficient, as long as there is room.
        let room = DIGITS.saturating_sub(rounded.digits());
        let extra = exponent - EXPONENT_MAX;
        if digits.is_zero() {
            exponent = EXPONENT_MAX;
        } else if u64::try_from(extra).is_ok_and(|extra| extra <= room) {
            let power = u32::try_from(extra).unwrap_or(0);
            digits *= BigInt::from(10).pow(power);
            exponent = EXPONENT_MAX;
        } else {
            let negative = digits.sign() == bigdecimal::num_bigint::Sign::Minus;
            return from_double(if negative { f64::NEG_INFINITY } else { f64::INFINITY });
        }
    }
    Decimal128::from_str(&format!("{digits}E{exponent}")).unwrap_or_else(|_| from_double(f64::NAN))
}

/// The coefficient and its power of ten.
fn parts(value: &BigDecimal) -> (BigInt, i64) {
    let (digits, scale) = value.as_bigint_and_exponent();
    (digits, scale.saturating_neg())
}

/// As a double.
pub(crate) fn to_double(value: Decimal128) -> f64 {
    value.to_string().parse().unwrap_or(f64::NAN)
}

/// From a double, with the 15 digits that are always right.
pub(crate) fn from_double(value: f64) -> Decimal128 {
    let text = if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else if value == 0.0 {
        if value.is_sign_negative() { "-0".to_owned() } else { "0".to_owned() }
    } else {
        let scientific = format!("{value:.14e}");
        let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i64 = exponent.parse().unwrap_or(0);
        format!("{}E{}", digits.replace('.', ""), exponent - 14)
    };
    Decimal128::from_str(&text).unwrap_or_else(|_| Decimal128::from_bytes([0; 16]))
}

/// From an integer, exactly.
pub(crate) fn from_integer(value: i64) -> Decimal128 {
    Decimal128::from_str(&value.to_string()).unwrap_or_else(|_| Decimal128::from_bytes([0; 16]))
}

/// Whether it is zero of either sign.
pub(crate) fn is_zero(value: Decimal128) -> bool {
    big(value).is_some_and(|value| value.is_zero())
}

/// Whether it is NaN.
pub(crate) fn is_nan(value: Decimal128) -> bool {
    value.to_string().contains("NaN")
}

/// An operation of two decimals: exact where both are finite, that of doubles otherwise.
pub(crate) fn binary(
    left: Decimal128,
    right: Decimal128,
    exact: impl Fn(&BigDecimal, &BigDecimal) -> BigDecimal,
    special: impl Fn(f64, f64) -> f64,
) -> Decimal128 {
    match (big(left), big(right)) {
        (Some(left), Some(right)) => nearest(&exact(&left, &right)),
        _ => from_double(special(to_double(left), to_double(right))),
    }
}

/// The sum.
pub(crate) fn add(left: Decimal128, right: Decimal128) -> Decimal128 {
    binary(left, right, |left, right| left + right, |left, right| left + right)
}

/// Left divided by right, which is not zero.
pub(crate) fn divide(left: Decimal128, right: Decimal128) -> Decimal128 {
    binary(
        left,
        right,
        |left, right| if right.is_zero() { BigDecimal::zero() } else { (left / right).normalized() },
        |left, right| left / right,
    )
}

/// What a function of doubles makes of it.
pub(crate) fn by_double(value: Decimal128, function: impl Fn(f64) -> f64) -> Decimal128 {
    from_double(function(to_double(value)))
}
