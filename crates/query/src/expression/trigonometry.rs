//! The functions of angles: `$sin` ... `$atanh`, `$degreesToRadians`, `$radiansToDegrees`.
//!
//! Decimals are computed as doubles.

use bson::Bson;

use super::logarithms::by_double;
use super::number::Pair;
use super::rounding::numeric;
use super::show::show;
use super::value::Value;
use crate::{Code, Failure, Result};

/// Any of them, by its name.
pub(super) fn apply<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    let Some(number) = numeric(name, &value)? else { return Ok(Value::NULL) };
    let function: fn(f64) -> f64 = match name {
        "$sin" => f64::sin,
        "$cos" => f64::cos,
        "$tan" => f64::tan,
        "$asin" => f64::asin,
        "$acos" => f64::acos,
        "$atan" => f64::atan,
        "$sinh" => f64::sinh,
        "$cosh" => f64::cosh,
        "$tanh" => f64::tanh,
        "$asinh" => f64::asinh,
        "$acosh" => f64::acosh,
        "$atanh" => f64::atanh,
        "$degreesToRadians" => f64::to_radians,
        _ => f64::to_degrees,
    };
    check_range(name, number.double(), &value)?;
    Ok(Value::Own(by_double(number, function)))
}

/// Refuses what the function is not defined for.
fn check_range(name: &str, number: f64, value: &Value<'_>) -> Result<()> {
    let (range, inside) = match name {
        "$sin" | "$cos" | "$tan" => ("(-inf,inf)", !number.is_infinite()),
        "$asin" | "$acos" | "$atanh" => ("[-1,1]", number.is_nan() || (-1.0..=1.0).contains(&number)),
        "$acosh" => ("[1,inf]", number.is_nan() || number >= 1.0),
        _ => return Ok(()),
    };
    if inside {
        return Ok(());
    }
    let message = format!("cannot apply {name} to {}, value must be in {range}", show(value));
    Err(Failure::new(Code(50989), message))
}

/// `$atan2`.
pub(super) fn apply_two<'e>(name: &'static str, left: Value<'e>, right: Value<'e>) -> Result<Value<'e>> {
    let (Some(left), Some(right)) = (numeric(name, &left)?, numeric(name, &right)?) else {
        return Ok(Value::NULL);
    };
    let angle = left.double().atan2(right.double());
    Ok(Value::Own(match left.pair(right) {
        Pair::Decimal(..) => Bson::Decimal128(crate::Decimal::from_f64(angle).pack()),
        _ => Bson::Double(angle),
    }))
}
