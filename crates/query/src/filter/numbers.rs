//! Reads whole numbers from BSON values of any numeric type, exactly or truncated, as operators do.
//! Returns `None` for numbers that a signed 64-bit integer cannot hold.

use bson::{Decimal128, RawBsonRef};

use crate::decimal::{Decimal, FiniteDecimal};

/// Two to the 63rd: the first double beyond a signed 64-bit integer.
const BEYOND_I64: f64 = 9_223_372_036_854_775_808.0;

/// Whether it is a number of any type.
pub(crate) fn is_number(value: RawBsonRef<'_>) -> bool {
    matches!(
        value,
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) | RawBsonRef::Decimal128(_)
    )
}

/// Whether it is NaN, as a double or a decimal.
pub(crate) fn is_nan(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Double(number) => number.is_nan(),
        RawBsonRef::Decimal128(number) => Decimal::from_value(number) == Decimal::NaN,
        _ => false,
    }
}

/// The value as a whole number; `None` if it has a fraction, is too large, or is not a number.
pub(crate) fn exact(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(number) => Some(number.into()),
        RawBsonRef::Int64(number) => Some(number),
        RawBsonRef::Double(number) => (number.trunc() == number).then(|| double(number)).flatten(),
        RawBsonRef::Decimal128(number) => {
            let (whole, remains) = whole_decimal(number)?;
            (!remains).then_some(whole)
        }
        _ => None,
    }
}

/// The number without its fraction; `None` if it is too large, infinite or not a number.
pub(crate) fn truncated(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Double(number) => double(number.trunc()),
        RawBsonRef::Decimal128(number) => whole_decimal(number).map(|(whole, _)| whole),
        other => exact(other),
    }
}

fn double(number: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked, and NaN fails the check")]
    (-BEYOND_I64..BEYOND_I64).contains(&number).then_some(number as i64)
}

/// The whole part, and whether a fraction was cut off.
fn whole_decimal(number: Decimal128) -> Option<(i64, bool)> {
    let Decimal::Finite(FiniteDecimal { negative, mut coefficient, exponent }) = Decimal::from_value(number)
    else {
        return None;
    };
    let mut remains = false;
    for _ in 0..exponent.unsigned_abs() {
        if coefficient == 0 {
            break;
        }
        if exponent > 0 {
            coefficient = coefficient.checked_mul(10)?;
        } else {
            remains |= !coefficient.is_multiple_of(10);
            coefficient /= 10;
        }
    }
    let magnitude = i128::try_from(coefficient).ok()?;
    let whole = i64::try_from(if negative { -magnitude } else { magnitude }).ok()?;
    Some((whole, remains))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> RawBsonRef<'static> {
        RawBsonRef::Decimal128(text.parse().unwrap())
    }

    #[test]
    fn whole_numbers_are_read_from_every_type() {
        assert_eq!(exact(RawBsonRef::Int32(-3)), Some(-3));
        assert_eq!(exact(RawBsonRef::Double(4.0)), Some(4));
        assert_eq!(exact(RawBsonRef::Double(4.5)), None);
        assert_eq!(exact(RawBsonRef::Double(f64::NAN)), None);
        assert_eq!(exact(RawBsonRef::Double(1e19)), None);
        assert_eq!(exact(of("12E+2")), Some(1200));
        assert_eq!(exact(of("12.00")), Some(12));
        assert_eq!(exact(of("12.5")), None);
        assert_eq!(exact(of("1E+6000")), None);
        assert_eq!(exact(RawBsonRef::String("1")), None);
    }

    #[test]
    fn fractions_are_cut_off_toward_zero() {
        assert_eq!(truncated(RawBsonRef::Double(-4.7)), Some(-4));
        assert_eq!(truncated(of("-4.7")), Some(-4));
        assert_eq!(truncated(of("1E-6000")), Some(0));
        assert_eq!(truncated(RawBsonRef::Double(f64::INFINITY)), None);
        assert_eq!(truncated(of("Infinity")), None);
    }

    #[test]
    fn nan_is_known_in_both_types() {
        assert!(is_nan(RawBsonRef::Double(f64::NAN)));
        assert!(is_nan(of("NaN")));
        assert!(!is_nan(of("Infinity")));
        assert!(!is_nan(RawBsonRef::Int32(0)));
    }
}
