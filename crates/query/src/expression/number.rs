//! The four types of numbers and their widening: int, long, double, decimal.
//!
//! Conversions that would lose the value return `None`; the caller decides what that means.

use bson::{Bson, Decimal128, RawBsonRef};

use super::value::Value;
use crate::{Decimal, f64_to_i64_exact};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    /// An integer of 32 bits.
    Int(i32),
    /// An integer of 64 bits.
    Long(i64),
    Double(f64),
    Decimal(Decimal128),
}

/// Two numbers, widened to one type.
pub(crate) enum Pair {
    /// Both numbers are `int`.
    Int(i32, i32),
    /// Both are `int` or `long`.
    Long(i64, i64),
    /// At least one double.
    Double(f64, f64),
    /// At least one decimal.
    Decimal(Decimal128, Decimal128),
}

impl Number {
    /// The number that a value is, if it is one.
    pub(crate) fn from_value(value: &Value<'_>) -> Option<Number> {
        match value.as_raw()? {
            RawBsonRef::Int32(value) => Some(Number::Int(value)),
            RawBsonRef::Int64(value) => Some(Number::Long(value)),
            RawBsonRef::Double(value) => Some(Number::Double(value)),
            RawBsonRef::Decimal128(value) => Some(Number::Decimal(value)),
            _ => None,
        }
    }

    /// The value in the smaller of int and long that holds it.
    pub(crate) fn integer(value: i64) -> Number {
        i32::try_from(value).map_or(Number::Long(value), Number::Int)
    }

    pub(crate) fn bson(self) -> Bson {
        match self {
            Number::Int(value) => Bson::Int32(value),
            Number::Long(value) => Bson::Int64(value),
            Number::Double(value) => Bson::Double(value),
            Number::Decimal(value) => Bson::Decimal128(value),
        }
    }

    /// The value as the nearest double.
    pub(crate) fn double(self) -> f64 {
        match self {
            Number::Int(value) => f64::from(value),
            Number::Long(value) => value as f64,
            Number::Double(value) => value,
            Number::Decimal(value) => Decimal::unpack(value).to_f64(),
        }
    }

    pub(crate) fn decimal(self) -> Decimal128 {
        match self {
            Number::Int(value) => Decimal::from_i64(i64::from(value)).pack(),
            Number::Long(value) => Decimal::from_i64(value).pack(),
            Number::Double(value) => Decimal::from_f64(value).pack(),
            Number::Decimal(value) => value,
        }
    }

    /// Whether it is NaN.
    pub(crate) fn is_nan(self) -> bool {
        match self {
            Number::Double(value) => value.is_nan(),
            Number::Decimal(value) => matches!(Decimal::unpack(value), Decimal::NotANumber),
            _ => false,
        }
    }

    /// The integer that it is exactly, if it is one of 64 bits.
    pub(crate) fn exact_long(self) -> Option<i64> {
        match self {
            Number::Int(value) => Some(i64::from(value)),
            Number::Long(value) => Some(value),
            Number::Double(value) => f64_to_i64_exact(value),
            Number::Decimal(value) => Decimal::unpack(value).to_i64_exact(),
        }
    }

    /// The integer that it is exactly, if it is one of 32 bits.
    pub(crate) fn exact_int(self) -> Option<i32> {
        self.exact_long().and_then(|value| i32::try_from(value).ok())
    }

    /// Both in the wider of their types.
    pub(crate) fn pair(self, other: Number) -> Pair {
        match (self, other) {
            (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
                Pair::Decimal(self.decimal(), other.decimal())
            }
            (Number::Double(_), _) | (_, Number::Double(_)) => Pair::Double(self.double(), other.double()),
            (Number::Int(left), Number::Int(right)) => Pair::Int(left, right),
            (Number::Int(left), Number::Long(right)) => Pair::Long(i64::from(left), right),
            (Number::Long(left), Number::Int(right)) => Pair::Long(left, i64::from(right)),
            (Number::Long(left), Number::Long(right)) => Pair::Long(left, right),
        }
    }
}

/// A double as MongoDB writes it: at most 16 significant digits (`%.16g`).
pub(crate) fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:.15e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let places = usize::try_from(15 - exponent).unwrap_or(0);
        let plain = format!("{value:.places$}");
        return if plain.contains('.') { trim_zeros(&plain).to_owned() } else { plain };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim_zeros(digits), exponent.abs())
}

fn trim_zeros(digits: &str) -> &str {
    digits.trim_end_matches('0').trim_end_matches('.')
}
