//! Type operators: `$convert` and its short forms `$toInt` ... `$toString`, `$type`, `$isNumber`.
//!
//! A value that cannot be converted fails with code 241, unless `onError` gives a replacement.

use bson::{Bson, DateTime, RawBsonRef};

use super::number::{Number, double_text};
use super::show::show;
use super::value::{OperatorSignature, Value};
use super::{calendar, date_text};
use crate::{Code, Decimal, Failure, Result, f64_to_i64_exact};

pub(super) static SIGNATURE: OperatorSignature = OperatorSignature {
    not_object: 9,
    unknown: 9,
    members: &[("input", Some(9)), ("to", Some(9)), ("onError", None), ("onNull", None)],
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConversionTarget {
    Double,
    String,
    ObjectId,
    Bool,
    Date,
    Int,
    Long,
    Decimal,
}

impl ConversionTarget {
    /// Names and numbers of types, and the operators that are short for them.
    const ALL: [(ConversionTarget, &'static str, i64, &'static str); 8] = [
        (ConversionTarget::Double, "double", 1, "$toDouble"),
        (ConversionTarget::String, "string", 2, "$toString"),
        (ConversionTarget::ObjectId, "objectId", 7, "$toObjectId"),
        (ConversionTarget::Bool, "bool", 8, "$toBool"),
        (ConversionTarget::Date, "date", 9, "$toDate"),
        (ConversionTarget::Int, "int", 16, "$toInt"),
        (ConversionTarget::Long, "long", 18, "$toLong"),
        (ConversionTarget::Decimal, "decimal", 19, "$toDecimal"),
    ];

    fn name(self) -> &'static str {
        ConversionTarget::ALL.iter().find(|(target, ..)| *target == self).map_or("", |(_, name, ..)| name)
    }

    fn parse(to: &Value<'_>) -> Result<ConversionTarget> {
        let wanted = to.as_str();
        let number = Number::from_value(to).and_then(Number::exact_long);
        let found = ConversionTarget::ALL
            .iter()
            .find(|(_, name, code, _)| Some(*name) == wanted || Some(*code) == number);
        if let Some((target, ..)) = found {
            return Ok(*target);
        }
        match (wanted, Number::from_value(to)) {
            (Some(name), _) => Err(Failure::new(Code::BadValue, format!("Unknown type name: {name}"))),
            (None, Some(_)) if number.is_none() => {
                let message = "In $convert, numeric 'to' argument is not an integer";
                Err(Failure::new(Code::FailedToParse, message))
            }
            (None, Some(_)) => {
                let message = format!(
                    "In $convert, numeric value for 'to' does not correspond to a BSON type: {}",
                    show(to)
                );
                Err(Failure::new(Code::FailedToParse, message))
            }
            _ => {
                let message =
                    format!("$convert's 'to' argument must be a string or number, but is {}", to.type_name());
                Err(Failure::new(Code::FailedToParse, message))
            }
        }
    }
}

/// `$convert: {input, to, onError, onNull}`.
pub(super) fn convert<'e>(_: &'static str, values: Vec<Option<Value<'e>>>) -> Result<Value<'e>> {
    let Ok([input, to, on_error, on_null]) = <[Option<Value<'e>>; 4]>::try_from(values) else {
        return Ok(Value::NULL);
    };
    let (input, to) = (input.unwrap_or(Value::Missing), to.unwrap_or(Value::Missing));
    if input.is_nullish() {
        return Ok(on_null.unwrap_or(Value::NULL));
    }
    if to.is_nullish() {
        return Ok(Value::NULL);
    }
    match (convert_to(&input, ConversionTarget::parse(&to)?), on_error) {
        (Err(failure), Some(instead)) if failure.code() == Code::ConversionFailure => Ok(instead),
        (result, _) => result.map(Value::Own),
    }
}

/// `$toInt` and the others, by name.
pub(super) fn shorthand<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    match ConversionTarget::ALL.iter().find(|(.., short)| *short == name) {
        Some((target, ..)) => convert_to(&value, *target).map(Value::Own),
        None => Ok(Value::NULL),
    }
}

fn failed(message: impl std::fmt::Display) -> Failure {
    Failure::new(Code::ConversionFailure, message.to_string())
}

fn convert_to(value: &Value<'_>, target: ConversionTarget) -> Result<Bson> {
    let converted = match target {
        ConversionTarget::Bool => to_bool(value),
        ConversionTarget::String => to_string(value),
        ConversionTarget::Double => to_double(value)?,
        ConversionTarget::Decimal => to_decimal(value)?,
        ConversionTarget::Int => to_integer(value, target)?
            .map(|long| i32::try_from(long).map(Bson::Int32).map_err(|_| overflow(value)))
            .transpose()?,
        ConversionTarget::Long => to_integer(value, target)?.map(Bson::Int64),
        ConversionTarget::Date => to_date(value)?,
        ConversionTarget::ObjectId => to_object_id(value)?,
    };
    converted.ok_or_else(|| {
        let (from, to) = (value.type_name(), target.name());
        failed(format_args!("Unsupported conversion from {from} to {to} in $convert with no onError value"))
    })
}

fn overflow(value: &Value<'_>) -> Failure {
    failed(format_args!(
        "Conversion would overflow target type in $convert with no onError value: {}",
        show(value)
    ))
}

fn unparsable(text: &str, why: &str) -> Failure {
    failed(format_args!("Failed to parse number '{text}' in $convert with no onError value: {why}"))
}

fn to_bool(value: &Value<'_>) -> Option<Bson> {
    match value.as_raw()? {
        RawBsonRef::Boolean(_)
        | RawBsonRef::Double(_)
        | RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Decimal128(_) => Some(Bson::Boolean(value.is_true())),
        RawBsonRef::String(_) | RawBsonRef::ObjectId(_) | RawBsonRef::DateTime(_) => {
            Some(Bson::Boolean(true))
        }
        _ => None,
    }
}

fn to_string(value: &Value<'_>) -> Option<Bson> {
    Some(Bson::String(match value.as_raw()? {
        RawBsonRef::String(text) => text.to_owned(),
        RawBsonRef::Double(number) => double_text(number),
        RawBsonRef::Boolean(value) => value.to_string(),
        RawBsonRef::Int32(number) => number.to_string(),
        RawBsonRef::Int64(number) => number.to_string(),
        RawBsonRef::Decimal128(number) => number.to_string(),
        RawBsonRef::ObjectId(id) => id.to_hex(),
        RawBsonRef::DateTime(moment) => calendar::iso_text(moment.timestamp_millis()),
        _ => return None,
    }))
}

fn to_double(value: &Value<'_>) -> Result<Option<Bson>> {
    Ok(Some(Bson::Double(match value.as_raw() {
        Some(RawBsonRef::Boolean(value)) => f64::from(u8::from(value)),
        Some(RawBsonRef::DateTime(moment)) => moment.timestamp_millis() as f64,
        Some(RawBsonRef::String(text)) => {
            let plain = !text.is_empty() && text.trim() == text;
            text.parse()
                .ok()
                .filter(|_| plain)
                .ok_or_else(|| unparsable(text, "Did not consume whole string."))?
        }
        _ => match Number::from_value(value) {
            Some(number @ Number::Decimal(_)) if number.double().is_infinite() && !shows_infinity(value) => {
                return Err(overflow(value));
            }
            Some(number) => number.double(),
            None => return Ok(None),
        },
    })))
}

fn shows_infinity(value: &Value<'_>) -> bool {
    show(value).contains("Inf")
}

fn to_decimal(value: &Value<'_>) -> Result<Option<Bson>> {
    let decimal = match value.as_raw() {
        Some(RawBsonRef::Boolean(value)) => Decimal::from_i64(i64::from(value)),
        Some(RawBsonRef::DateTime(moment)) => Decimal::from_i64(moment.timestamp_millis()),
        Some(RawBsonRef::String(text)) => {
            Decimal::parse(text).ok_or_else(|| unparsable(text, "Failed to parse string to decimal"))?
        }
        _ => match Number::from_value(value) {
            Some(number) => return Ok(Some(Bson::Decimal128(number.decimal()))),
            None => return Ok(None),
        },
    };
    Ok(Some(Bson::Decimal128(decimal.pack())))
}

/// The integer of a truncated number, a boolean or a string of digits; for a long also of a date.
fn to_integer(value: &Value<'_>, target: ConversionTarget) -> Result<Option<i64>> {
    Ok(Some(match value.as_raw() {
        Some(RawBsonRef::Boolean(value)) => i64::from(value),
        Some(RawBsonRef::DateTime(moment)) if target == ConversionTarget::Long => moment.timestamp_millis(),
        Some(RawBsonRef::String(text)) => text.parse().map_err(|_| {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            unparsable(text, if all { "Overflow" } else { "Did not consume whole string." })
        })?,
        _ => match Number::from_value(value) {
            Some(number) => whole(number, value)?,
            None => return Ok(None),
        },
    }))
}

fn whole(number: Number, value: &Value<'_>) -> Result<i64> {
    if number.is_nan() {
        return Err(failed("Attempt to convert NaN value to integer type in $convert with no onError value"));
    }
    let whole = match number {
        Number::Int(number) => Some(i64::from(number)),
        Number::Long(number) => Some(number),
        Number::Double(number) if number.is_infinite() => {
            return Err(failed(
                "Attempt to convert infinity value to integer type in $convert with no onError value",
            ));
        }
        Number::Double(number) => f64_to_i64_exact(number.trunc()),
        Number::Decimal(number) => Decimal::unpack(number).truncated_i64(),
    };
    whole.ok_or_else(|| overflow(value))
}

fn to_date(value: &Value<'_>) -> Result<Option<Bson>> {
    let millis = match value.as_raw() {
        Some(RawBsonRef::DateTime(moment)) => moment.timestamp_millis(),
        Some(RawBsonRef::ObjectId(id)) => id.timestamp().timestamp_millis(),
        Some(RawBsonRef::Timestamp(stamp)) => i64::from(stamp.time) * 1000,
        Some(RawBsonRef::String(text)) => date_text::free_form(text, None)?,
        Some(RawBsonRef::Int64(_) | RawBsonRef::Double(_) | RawBsonRef::Decimal128(_)) => {
            to_integer(value, ConversionTarget::Date)?.unwrap_or(0)
        }
        _ => return Ok(None),
    };
    Ok(Some(Bson::DateTime(DateTime::from_millis(millis))))
}

fn to_object_id(value: &Value<'_>) -> Result<Option<Bson>> {
    Ok(match value.as_raw() {
        Some(RawBsonRef::ObjectId(id)) => Some(Bson::ObjectId(id)),
        Some(RawBsonRef::String(text)) => {
            let id = bson::oid::ObjectId::parse_str(text).map_err(|_| {
                let why = if text.len() == 24 {
                    "Invalid character found in hex string".to_owned()
                } else {
                    format!("Invalid string length for parsing to OID, expected 24 but found {}", text.len())
                };
                failed(format_args!(
                    "Failed to parse objectId '{text}' in $convert with no onError value: {why}"
                ))
            })?;
            Some(Bson::ObjectId(id))
        }
        _ => None,
    })
}

pub(super) fn type_of<'e>(_: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    Ok(Value::Own(Bson::String(value.type_name().to_owned())))
}

pub(super) fn is_number<'e>(_: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    Ok(Value::Own(Bson::Boolean(Number::from_value(&value).is_some())))
}
