//! Reads fields of documents by name and type, and fails with MongoDB's codes (mongodb/mongo:src/mongo/bson/util/bson_extract.cpp).
//!
//! An absent field is `None`; a field of another type fails with TypeMismatch. Numbers of any type count as integers if they are whole.

use bson::oid::ObjectId;
use bson::{Bson, Document};
use fathom_wire::{Code, Failure};

/// The failure for a required field that is absent.
pub(crate) fn missing(name: &str) -> Failure {
    Failure::new(Code::NoSuchKey, format!("Missing expected field \"{name}\""))
}

/// The failure for a field of an unexpected type.
pub(crate) fn mismatch(name: &str, expected: &str, found: &Bson) -> Failure {
    let found = type_name(found);
    Failure::new(
        Code::TypeMismatch,
        format!("\"{name}\" had the wrong type. Expected {expected}, found {found}"),
    )
}

/// MongoDB's name of the type of a value.
pub(crate) fn type_name(value: &Bson) -> &'static str {
    match value {
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Array(_) => "array",
        Bson::Document(_) => "object",
        Bson::Boolean(_) => "bool",
        Bson::Null => "null",
        Bson::RegularExpression(_) => "regex",
        Bson::Int32(_) => "int",
        Bson::Int64(_) => "long",
        Bson::Timestamp(_) => "timestamp",
        Bson::Binary(_) => "binData",
        Bson::ObjectId(_) => "objectId",
        Bson::DateTime(_) => "date",
        Bson::Decimal128(_) => "decimal",
        _ => "another type",
    }
}

/// The value as a whole number, if it is one.
#[expect(
    clippy::cast_possible_truncation,
    reason = "checked to be whole and within the range of doubles that are exact"
)]
pub(crate) fn whole(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(value) => Some(i64::from(*value)),
        Bson::Int64(value) => Some(*value),
        Bson::Double(value) if value.fract() == 0.0 && value.abs() < 9e15 => Some(*value as i64),
        _ => None,
    }
}

/// The value as a number, if it is one.
#[expect(clippy::cast_precision_loss, reason = "priorities are at most 1000")]
pub(crate) fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(value) => Some(f64::from(*value)),
        Bson::Int64(value) => Some(*value as f64),
        Bson::Double(value) => Some(*value),
        _ => None,
    }
}

pub(crate) fn integer(document: &Document, name: &str) -> Result<Option<i64>, Failure> {
    let Some(value) = document.get(name) else { return Ok(None) };
    match (whole(value), number(value)) {
        (Some(whole), _) => Ok(Some(whole)),
        (None, Some(number)) => Err(Failure::new(
            Code::BadValue,
            format!(
                "Expected field \"{name}\" to have a value exactly representable as a 64-bit integer, but found {number}"
            ),
        )),
        _ => Err(mismatch(name, "a number", value)),
    }
}

pub(crate) fn decimal(document: &Document, name: &str) -> Result<Option<f64>, Failure> {
    let Some(value) = document.get(name) else { return Ok(None) };
    number(value).map(Some).ok_or_else(|| mismatch(name, "a number", value))
}

pub(crate) fn string<'d>(document: &'d Document, name: &str) -> Result<Option<&'d str>, Failure> {
    match document.get(name) {
        None => Ok(None),
        Some(Bson::String(text)) => Ok(Some(text)),
        Some(value) => Err(mismatch(name, "string", value)),
    }
}

/// A boolean; numbers are accepted, as in MongoDB.
pub(crate) fn boolean(document: &Document, name: &str) -> Result<Option<bool>, Failure> {
    match document.get(name) {
        None => Ok(None),
        Some(Bson::Boolean(value)) => Ok(Some(*value)),
        Some(value) => match number(value) {
            Some(number) => Ok(Some(number != 0.0)),
            None => Err(mismatch(name, "boolean or number", value)),
        },
    }
}

pub(crate) fn document<'d>(document: &'d Document, name: &str) -> Result<Option<&'d Document>, Failure> {
    match document.get(name) {
        None => Ok(None),
        Some(Bson::Document(value)) => Ok(Some(value)),
        Some(value) => Err(mismatch(name, "object", value)),
    }
}

pub(crate) fn array<'d>(document: &'d Document, name: &str) -> Result<Option<&'d [Bson]>, Failure> {
    match document.get(name) {
        None => Ok(None),
        Some(Bson::Array(value)) => Ok(Some(value)),
        Some(value) => Err(mismatch(name, "array", value)),
    }
}

pub(crate) fn object_id(document: &Document, name: &str) -> Result<Option<ObjectId>, Failure> {
    match document.get(name) {
        None => Ok(None),
        Some(Bson::ObjectId(value)) => Ok(Some(*value)),
        Some(value) => Err(mismatch(name, "objectId", value)),
    }
}

/// Refuses fields that `legal` does not list.
pub(crate) fn only(what: &str, document: &Document, legal: &[&str]) -> Result<(), Failure> {
    match document.keys().find(|name| !legal.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Failure::new(Code::BadValue, format!("Unexpected field {name} in {what}"))),
    }
}

/// A number as MongoDB appends it: 32 bits if it fits, otherwise 64.
pub(crate) fn int_or_long(value: i64) -> Bson {
    i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)
}

/// The milliseconds of a span as a whole number.
pub(crate) fn millis(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// The whole seconds of a span.
pub(crate) fn seconds(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_secs()).unwrap_or(i64::MAX)
}
