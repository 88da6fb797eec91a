//! String operators: `$concat`, `$split`, `$strLenBytes`, `$strLenCP`, `$strcasecmp`, `$toLower`, `$toUpper`,
//! `$replaceOne`, `$replaceAll`, `$binarySize`, `$substrBytes` (alias `$substr`), `$substrCP`, `$trim`, `$ltrim`, `$rtrim`.
//!
//! `$toLower`, `$toUpper` and `$strcasecmp` know the case of ASCII letters only, as MongoDB's do.

use bson::{Bson, RawBsonRef};

use super::number::Number;
use super::show::show;
use super::value::{OperatorSignature, Value, bounded};
use crate::{Code, Failure, Result};

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

/// The operators `$strLenBytes` and `$strLenCP`.
pub(super) fn length<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    let in_bytes = name == "$strLenBytes";
    let Some(text) = value.as_str() else {
        let message = format!("{name} requires a string argument, found: {}", value.type_name());
        return Err(Failure::new(Code(if in_bytes { 34473 } else { 34471 }), message));
    };
    let length = if in_bytes { text.len() } else { text.chars().count() };
    Ok(Value::Own(Bson::Int32(i32::try_from(length).unwrap_or(i32::MAX))))
}

/// A value converted to a string: numbers and dates are written out, null is empty; other types are refused (16007).
fn coerced(value: &Value<'_>) -> Result<String> {
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

/// The operators `$toLower` and `$toUpper`.
pub(super) fn change_case<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    let mut text = coerced(&value)?;
    if name == "$toLower" {
        text.make_ascii_lowercase();
    } else {
        text.make_ascii_uppercase();
    }
    Ok(Value::Own(Bson::String(text)))
}

/// Compares without regard to case, for `$strcasecmp`.
pub(super) fn compare_ignoring_case<'e>(
    _: &'static str,
    left: Value<'e>,
    right: Value<'e>,
) -> Result<Value<'e>> {
    let left = coerced(&left)?.to_ascii_uppercase();
    let right = coerced(&right)?.to_ascii_uppercase();
    Ok(Value::Own(Bson::Int32(left.cmp(&right) as i32)))
}

/// The arguments of `$replaceOne` and `$replaceAll`.
pub(super) static REPLACE: OperatorSignature = OperatorSignature {
    not_object: 51751,
    unknown: 51750,
    members: &[("input", Some(51749)), ("find", Some(51748)), ("replacement", Some(51747))],
};

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
    // The size of the result is known before it is created.
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

/// `$substrBytes: [text, start, length]`; a negative length means to the end. Both ends must lie between characters.
pub(super) fn substring_bytes<'e>(name: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let [text, start, length] = values.as_slice() else { return Ok(Value::NULL) };
    let text = coerced(text)?;
    let number = |value: &Value<'_>, what: &str, code: i32| {
        Number::from_value(value).ok_or_else(|| {
            let found = value.type_name();
            Failure::new(Code(code), format!("{name}:  {what} must be a numeric type (is BSON type {found})"))
        })
    };
    // Fractions are cut off, as MongoDB does here and not in $substrCP.
    let start = number(start, "starting index", 16034)?.double() as i64;
    let length = number(length, "length", 16035)?.double() as i64;
    let Ok(start) = usize::try_from(start) else {
        let message = format!("{name}:  starting index must be non-negative (got: {start})");
        return Err(Failure::new(Code(50752), message));
    };
    if start >= text.len() {
        return Ok(Value::Own(Bson::String(String::new())));
    }
    let end =
        usize::try_from(length).map_or(text.len(), |length| start.saturating_add(length).min(text.len()));
    if !text.is_char_boundary(start) {
        let message = format!("{name}:  Invalid range, starting index is a UTF-8 continuation byte.");
        return Err(Failure::new(Code(28656), message));
    }
    match text.get(start..end) {
        Some(part) => Ok(Value::Own(Bson::String(part.to_owned()))),
        None => {
            let message =
                format!("{name}:  Invalid range, ending index is in the middle of a UTF-8 character.");
            Err(Failure::new(Code(28657), message))
        }
    }
}

/// `$substrCP: [text, start, length]`, counted in code points.
pub(super) fn substring_code_points<'e>(name: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let [text, start, length] = values.as_slice() else { return Ok(Value::NULL) };
    let text = coerced(text)?;
    let whole = |value: &Value<'_>, what: &str, code: i32| {
        let Some(number) = Number::from_value(value) else {
            let found = value.type_name();
            let message = format!("{name}: {what} must be a numeric type (is BSON type {found})");
            return Err(Failure::new(Code(code), message));
        };
        number.exact_int().ok_or_else(|| {
            let shown = show(value);
            let message = format!("{name}: {what} cannot be represented as a 32-bit integral value: {shown}");
            Failure::new(Code(code + 1), message)
        })
    };
    let start = whole(start, "starting index", 34450)?;
    let length = whole(length, "length", 34452)?;
    let Ok(length) = usize::try_from(length) else {
        return Err(Failure::new(Code(34454), format!("{name}: length must be a nonnegative integer.")));
    };
    let Ok(start) = usize::try_from(start) else {
        let message = format!("{name}: the starting index must be nonnegative integer.");
        return Err(Failure::new(Code(34455), message));
    };
    Ok(Value::Own(Bson::String(text.chars().skip(start).take(length).collect())))
}

/// The arguments of `$trim`, `$ltrim` and `$rtrim`.
pub(super) static TRIM: OperatorSignature = OperatorSignature {
    not_object: 50696,
    unknown: 50694,
    members: &[("input", Some(50695)), ("chars", None)],
};

/// The characters that are trimmed by default (mongodb/mongo:src/mongo/db/pipeline/expression_trim.cpp).
const WHITESPACE: &[char] = &[
    '\0', ' ', '\t', '\n', '\x0B', '\x0C', '\r', '\u{A0}', '\u{1680}', '\u{2000}', '\u{2001}', '\u{2002}',
    '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}', '\u{200A}',
];

/// `$trim`, `$ltrim` or `$rtrim`, by its name.
pub(super) fn trim<'e>(name: &'static str, values: Vec<Option<Value<'e>>>) -> Result<Value<'e>> {
    let mut values = values.into_iter();
    let input = values.next().flatten().unwrap_or(Value::Missing);
    let characters = values.next().flatten();
    if input.is_nullish() || characters.as_ref().is_some_and(Value::is_nullish) {
        return Ok(Value::NULL);
    }
    let string = |value: &Value<'_>, what: &str, code: i32| {
        let (shown, kind) = (show(value), value.type_name());
        Failure::new(
            Code(code),
            format!("{name} requires {what} to be a string, got {shown} (of type {kind}) instead."),
        )
    };
    let text = input.as_str().ok_or_else(|| string(&input, "its input", 50699))?;
    let chosen: Vec<char>;
    let set = match &characters {
        None => WHITESPACE,
        Some(value) => {
            chosen = value.as_str().ok_or_else(|| string(value, "'chars'", 50700))?.chars().collect();
            &chosen
        }
    };
    let trimmed = match name {
        "$ltrim" => text.trim_start_matches(set),
        "$rtrim" => text.trim_end_matches(set),
        _ => text.trim_matches(set),
    };
    Ok(Value::Own(Bson::String(trimmed.to_owned())))
}
