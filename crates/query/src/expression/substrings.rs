//! `$substrBytes` (alias `$substr`) and `$substrCP`.

use bson::Bson;

use super::number::Number;
use super::strings::coerced;
use super::value::Value;
use crate::{Code, Failure, Result};

/// `$substrBytes: [text, start, length]`; a negative length means to the end. Both ends must lie between characters.
pub(super) fn bytes<'e>(name: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let [text, start, length] = values.as_slice() else { return Ok(Value::NULL) };
    let text = coerced(text)?;
    let number = |value: &Value<'_>, what: &str, code: i32| {
        Number::of(value).ok_or_else(|| {
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
pub(super) fn code_points<'e>(name: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let [text, start, length] = values.as_slice() else { return Ok(Value::NULL) };
    let text = coerced(text)?;
    let whole = |value: &Value<'_>, what: &str, code: i32| {
        let Some(number) = Number::of(value) else {
            let found = value.type_name();
            let message = format!("{name}: {what} must be a numeric type (is BSON type {found})");
            return Err(Failure::new(Code(code), message));
        };
        number.exact_int().ok_or_else(|| {
            let shown = super::show::show(value);
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
