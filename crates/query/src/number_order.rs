//! Numbers of all types in one order, exactly: a 64-bit integer beside a double is not rounded to it.
use crate::decimal::{Decimal, Finite};
use bson::RawBsonRef;
use std::cmp::Ordering;

/// A number of any type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    /// Of 32 or 64 bits.
    Integer(i64),
    /// Of 64 bits.
    Double(f64),
    /// Of 128 bits.
    Decimal(bson::Decimal128),
}

impl Number {
    /// None for what is no number.
    pub(crate) fn of(value: RawBsonRef<'_>) -> Option<Number> {
        match value {
            RawBsonRef::Int32(value) => Some(Number::Integer(i64::from(value))),
            RawBsonRef::Int64(value) => Some(Number::Integer(value)),
            RawBsonRef::Double(value) => Some(Number::Double(value)),
            RawBsonRef::Decimal128(value) => Some(Number::Decimal(value)),
            _ => None,
        }
    }

    /// Compares by value.
    pub(crate) fn compare(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Integer(left), Number::Integer(right)) => left.cmp(&right),
            (Number::Double(left), Number::Double(right)) => compare_doubles(left, right),
            (Number::Integer(left), Number::Double(right)) => compare_integer(left, right),
            (Number::Double(left), Number::Integer(right)) => compare_integer(right, left).reverse(),
            (Number::Decimal(left), Number::Decimal(right)) => Decimal::of(left).compare(Decimal::of(right)),
            (Number::Decimal(left), Number::Double(right)) => Decimal::of(left).compare_double(right),
            (Number::Double(left), Number::Decimal(right)) => {
                Decimal::of(right).compare_double(left).reverse()
            }
            (Number::Decimal(left), Number::Integer(right)) => {
                Decimal::of(left).compare(Decimal::Finite(Finite::of_integer(right)))
            }
            (Number::Integer(left), Number::Decimal(right)) => {
                Decimal::Finite(Finite::of_integer(left)).compare(Decimal::of(right))
            }
        }
    }
}

/// NaN is the least and equals itself; -0 equals 0.
fn compare_doubles(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
}

/// Exact where a double has no room for the integer.
fn compare_integer(left: i64, right: f64) -> Ordering {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if right.is_nan() || right < -TWO_TO_63 {
        Ordering::Greater
    } else if right >= TWO_TO_63 {
        Ordering::Less
    } else {
        let whole = right.trunc();
        left.cmp(&(whole as i64)).then_with(|| compare_doubles(0.0, right - whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_beside_doubles_are_not_rounded() {
        let two_to_53 = 9_007_199_254_740_992.0;
        assert_eq!(compare_integer(9_007_199_254_740_993, two_to_53), Ordering::Greater);
        assert_eq!(compare_integer(i64::MAX, i64::MAX as f64), Ordering::Less);
        assert_eq!(compare_integer(i64::MIN, i64::MIN as f64), Ordering::Equal);
        assert_eq!(compare_integer(-1, -1.5), Ordering::Greater);
        assert_eq!(compare_integer(1, 1.5), Ordering::Less);
        assert_eq!(compare_integer(i64::MIN, f64::NAN), Ordering::Greater);
        assert_eq!(compare_integer(i64::MIN, f64::NEG_INFINITY), Ordering::Greater);
        assert_eq!(compare_integer(i64::MAX, f64::INFINITY), Ordering::Less);
    }
}
