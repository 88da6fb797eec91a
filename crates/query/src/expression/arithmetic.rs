//! `$add`, `$subtract`, `$multiply`, `$divide`, `$mod`.
//!
//! The widest type wins; an int that overflows becomes a long, a long that overflows a double. Dates take part in `$add` and
//! `$subtract` with milliseconds.

use bson::{Bson, DateTime, RawBsonRef};

use super::accumulators::Total;
use super::number::Number;
use super::value::Value;
use crate::{Code, Failure, Result};

/// `$add`: numbers, and at most one date.
pub(super) fn add<'e>(_: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let mut total = Total::default();
    let mut date = None;
    for value in &values {
        if let Some(number) = Number::of(value) {
            total.add(number);
        } else if let Some(RawBsonRef::DateTime(moment)) = value.as_raw() {
            if date.replace(moment).is_some() {
                return Err(Failure::new(Code(16612), "only one date allowed in an $add expression"));
            }
        } else if value.is_nullish() {
            return Ok(Value::NULL);
        } else {
            let message = format!("$add only supports numeric or date types, not {}", value.type_name());
            return Err(Failure::new(Code(16554), message));
        }
    }
    match date {
        None => Ok(Value::Own(total.number().bson())),
        Some(moment) => shift(moment, total.number()).map(Value::Own),
    }
}

/// A date so many milliseconds later.
fn shift(moment: DateTime, by: Number) -> Result<Bson> {
    let overflow = || Failure::new(Code::Overflow, "date overflow in $add");
    let by = match by.exact_long() {
        Some(by) => by,
        None => {
            let rounded = by.double().round();
            crate::f64_to_i64_exact(rounded).ok_or_else(overflow)?
        }
    };
    let millis = moment.timestamp_millis().checked_add(by).ok_or_else(overflow)?;
    Ok(Bson::DateTime(DateTime::from_millis(millis)))
}

/// `$subtract`: of numbers, of two dates (milliseconds between), of a date and milliseconds.
pub(super) fn subtract<'e>(_: &'static str, left: Value<'e>, right: Value<'e>) -> Result<Value<'e>> {
    if let (Some(left), Some(right)) = (Number::of(&left), Number::of(&right)) {
        return crate::subtract(&left.bson(), &right.bson()).map(Value::Own);
    }
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::NULL);
    }
    if let Some(RawBsonRef::DateTime(moment)) = left.as_raw() {
        if let Some(RawBsonRef::DateTime(earlier)) = right.as_raw() {
            let between = moment.timestamp_millis().checked_sub(earlier.timestamp_millis());
            let between =
                between.ok_or_else(|| Failure::new(Code::Overflow, "date overflow in $subtract"))?;
            return Ok(Value::Own(Bson::Int64(between)));
        }
        if let Some(by) = Number::of(&right) {
            let by = crate::f64_to_i64_exact(by.double().trunc()).or(by.exact_long());
            let millis = by.and_then(|by| moment.timestamp_millis().checked_sub(by));
            let millis = millis.ok_or_else(|| Failure::new(Code::Overflow, "date overflow in $subtract"))?;
            return Ok(Value::Own(Bson::DateTime(DateTime::from_millis(millis))));
        }
    }
    let message = format!("cant $subtract a{} from a{}", right.type_name(), left.type_name());
    Err(Failure::new(Code(16556), message))
}

/// `$multiply`.
pub(super) fn multiply<'e>(_: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let mut product = Bson::Int32(1);
    for value in &values {
        if let Some(number) = Number::of(value) {
            product = crate::multiply_or_widen(&product, &number.bson())?;
        } else if value.is_nullish() {
            return Ok(Value::NULL);
        } else {
            let message = format!("$multiply only supports numeric types, not {}", value.type_name());
            return Err(Failure::new(Code(16555), message));
        }
    }
    Ok(Value::Own(product))
}

/// `$divide`: a double, or a decimal.
pub(super) fn divide<'e>(name: &'static str, left: Value<'e>, right: Value<'e>) -> Result<Value<'e>> {
    match (Number::of(&left), Number::of(&right)) {
        (Some(left), Some(right)) => crate::divide(&left.bson(), &right.bson()).map(Value::Own),
        _ => two_numbers(name, 16609, &left, &right),
    }
}

/// `$mod`: the sign is that of the dividend.
pub(super) fn modulo<'e>(name: &'static str, left: Value<'e>, right: Value<'e>) -> Result<Value<'e>> {
    match (Number::of(&left), Number::of(&right)) {
        (Some(left), Some(right)) => crate::modulo(&left.bson(), &right.bson()).map(Value::Own),
        _ => two_numbers(name, 16611, &left, &right),
    }
}

/// Null if either side is; otherwise one of them is no number.
fn two_numbers<'e>(name: &str, code: i32, left: &Value<'_>, right: &Value<'_>) -> Result<Value<'e>> {
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::NULL);
    }
    let (left, right) = (left.type_name(), right.type_name());
    Err(Failure::new(Code(code), format!("{name} only supports numeric types, not {left} and {right}")))
}
