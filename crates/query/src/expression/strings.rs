//! Operators of strings: `$concat`, `$split`, `$strLenBytes`, `$strLenCP`, `$strcasecmp`, `$toLower`, `$toUpper`,
//! `$replaceOne`, `$replaceAll`, `$binarySize`.
//!
//! `$toLower`, `$toUpper` and `$strcasecmp` know the case of ASCII letters only, as MongoDB's do.

use bson::{Bson, RawBsonRef};

use super::operators::Signature;
use super::show::show;
use super::value::{Value, bounded};
use crate::{Code, Failure, Result};

/// `$concat`.
pub(super) fn concat<'e>(_: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let mut text = String::new();
    for value in &values {
        if value.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(part) = value.as_str() else {
            let message = format!("$concat only supports strings, not {}", value.type_name());
            return Err(Failure::new(Code(16702), message));
        };
        bounded(text.len() + part.len())?;
        text.push_str(part);
    }
    Ok(Value::Own(Bson::String(text)))
}

/// `$split: [text, separator]`.
pub(super) fn split<'e>(_: &'static str, text: Value<'e>, separator: Value<'e>) -> Result<Value<'e>> {
    if text.is_nullish() || separator.is_nullish() {
        return Ok(Value::NULL);
    }
    let string = |value: &Value<'_>, which: &str, code: i32| {
        let message = format!(
            "$split requires an expression that evaluates to a string as a {which} argument, found: {}",
            value.type_name()
        );
        Failure::new(Code(code), message)
    };
    let parts = text.as_str().ok_or_else(|| string(&text, "first", 40085))?;
    let between = separator.as_str().ok_or_else(|| string(&separator, "second", 40086))?;
    if between.is_empty() {
        return Err(Failure::new(Code(40087), "$split requires a non-empty separator"));
    }
    let parts = parts.split(between).map(|part| Bson::String(part.to_owned()));
    Ok(Value::Own(Bson::Array(parts.collect())))
}

/// `$strLenBytes` and `$strLenCP`.
pub(super) fn length<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    let in_bytes = name == "$strLenBytes";
    let Some(text) = value.as_str() else {
        let message = format!("{name} requires a string argument, found: {}", value.type_name());
        return Err(Failure::new(Code(if in_bytes { 34473 } else { 34471 }), message));
    };
    let length = if in_bytes { text.len() } else { text.chars().count() };
    Ok(Value::Own(Bson::Int32(i32::try_from(length).unwrap_or(i32::MAX))))
}

/// A value where a string is meant: numbers and dates are written out, null is empty; the rest is refused (16007).
pub(super) fn coerced(value: &Value<'_>) -> Result<String> {
    if value.is_nullish() {
        return Ok(String::new());
    }
    Ok(match value.as_raw() {
        Some(RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text)) => {
            text.to_owned()
        }
        Some(
            RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::Decimal128(_)
            | RawBsonRef::DateTime(_)
            | RawBsonRef::Timestamp(_),
        ) => show(value),
        _ => {
            let message = format!("can't convert from BSON type {} to String", value.type_name());
            return Err(Failure::new(Code(16007), message));
        }
    })
}

/// `$toLower` and `$toUpper`.
pub(super) fn change_case<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    let mut text = coerced(&value)?;
    if name == "$toLower" {
        text.make_ascii_lowercase();
    } else {
        text.make_ascii_uppercase();
    }
    Ok(Value::Own(Bson::String(text)))
}

/// `$strcasecmp`.
pub(super) fn compare_ignoring_case<'e>(
    _: &'static str,
    left: Value<'e>,
    right: Value<'e>,
) -> Result<Value<'e>> {
    let left = coerced(&left)?.to_ascii_uppercase();
    let right = coerced(&right)?.to_ascii_uppercase();
    Ok(Value::Own(Bson::Int32(left.cmp(&right) as i32)))
}

/// What `$replaceOne` and `$replaceAll` take.
pub(super) static REPLACE: Signature = Signature {
    not_object: 51751,
    unknown: 51750,
    members: &[("input", Some(51749)), ("find", Some(51748)), ("replacement", Some(51747))],
};

/// `$replaceOne` and `$replaceAll`.
pub(super) fn replace<'e>(name: &'static str, values: Vec<Option<Value<'e>>>) -> Result<Value<'e>> {
    let values: Vec<Value<'e>> = values.into_iter().flatten().collect();
    let [input, find, replacement] = values.as_slice() else { return Ok(Value::NULL) };
    let mut null = false;
    for (value, what, code) in
        [(input, "input", 51746), (find, "find", 51745), (replacement, "replacement", 51744)]
    {
        if value.is_nullish() {
            null = true;
        } else if value.as_str().is_none() {
            let message = format!("{name} requires that '{what}' be a string, found: {}", show(value));
            return Err(Failure::new(Code(code), message));
        }
    }
    let (Some(text), Some(find), Some(with), false) =
        (input.as_str(), find.as_str(), replacement.as_str(), null)
    else {
        return Ok(Value::NULL);
    };
    if name == "$replaceOne" {
        return Ok(Value::Own(Bson::String(text.replacen(find, with, 1))));
    }
    // How large it becomes is known before it is made.
    let places = text.matches(find).count();
    bounded(places.saturating_mul(with.len()).saturating_add(text.len()))?;
    Ok(Value::Own(Bson::String(text.replace(find, with))))
}

/// `$binarySize`: of a string or of binary data.
pub(super) fn binary_size<'e>(_: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let bytes = match value.as_raw() {
        Some(RawBsonRef::String(text)) => text.len(),
        Some(RawBsonRef::Binary(binary)) => binary.bytes.len(),
        _ => {
            let message =
                format!("$binarySize requires a string or BinData argument, found: {}", value.type_name());
            return Err(Failure::new(Code(51276), message));
        }
    };
    Ok(Value::Own(Bson::Int32(i32::try_from(bytes).unwrap_or(i32::MAX))))
}
