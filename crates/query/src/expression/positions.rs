//! Operators on positions: `$slice`, `$indexOfArray`, `$indexOfBytes`, `$indexOfCP`.

use bson::Bson;

use super::number::Number;
use super::show::show;
use super::value::Value;
use crate::{Code, Failure, Result};

/// `$slice: [array, count]` or `[array, position, count]`.
pub(super) fn slice<'e>(_: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    if values.iter().any(Value::is_nullish) {
        return Ok(Value::NULL);
    }
    let mut values = values.into_iter();
    let array = values.next().unwrap_or(Value::Missing);
    let found = array.type_name();
    let Some(items) = array.into_array()? else {
        let message = format!("First argument to $slice must be an array, but is of type: {found}");
        return Err(Failure::new(Code(28724), message));
    };
    let second = whole("Second", 28725, &values.next().unwrap_or(Value::Missing))?;
    let length = items.len();
    let from_end = |back: i64| length.saturating_sub(usize::try_from(back.unsigned_abs()).unwrap_or(length));
    let (start, count) = match values.next() {
        None if second >= 0 => (0, usize::try_from(second).unwrap_or(0)),
        None => (from_end(second), length),
        Some(third) => {
            let count = whole("Third", 28727, &third)?;
            if count <= 0 {
                let message = format!("Third argument to $slice must be positive: {count}");
                return Err(Failure::new(Code(28729), message));
            }
            let start =
                if second >= 0 { usize::try_from(second).unwrap_or(length) } else { from_end(second) };
            (start, usize::try_from(count).unwrap_or(length))
        }
    };
    Ok(Value::Own(Bson::Array(items.into_iter().skip(start).take(count).collect())))
}

/// A 32-bit argument of `$slice`; the code after `code` is for a number that is not a 32-bit integer.
fn whole(which: &str, code: i32, value: &Value<'_>) -> Result<i64> {
    let Some(number) = Number::from_value(value) else {
        let found = value.type_name();
        let message = format!("{which} argument to $slice must be a numeric value, but is of type: {found}");
        return Err(Failure::new(Code(code), message));
    };
    number.exact_int().map(i64::from).ok_or_else(|| {
        let message =
            format!("{which} argument to $slice can't be represented as a 32-bit integer: {}", show(value));
        Failure::new(Code(code + 1), message)
    })
}

/// The first place where something is found, or -1.
fn found<'e>(place: Option<usize>) -> Result<Value<'e>> {
    Ok(Value::Own(Bson::Int32(place.map_or(-1, |place| i32::try_from(place).unwrap_or(i32::MAX)))))
}

/// The range to search: from the third argument to before the fourth, or to `length`.
fn window(name: &str, values: &[Value<'_>], length: usize) -> Result<(usize, usize)> {
    let bound = |place: usize, what: &str| match values.get(place) {
        None => Ok(None),
        Some(value) => index(name, what, value).map(Some),
    };
    let start = bound(2, "starting")?.unwrap_or(0);
    let end = bound(3, "ending")?.unwrap_or(length).min(length);
    Ok((start, end))
}

fn index(name: &str, what: &str, value: &Value<'_>) -> Result<usize> {
    let Some(number) = Number::from_value(value).and_then(Number::exact_int) else {
        let (kind, shown) = (value.type_name(), show(value));
        let message = format!(
            "{name} requires an integral {what} index, found a value of type: {kind}, with value: \"{shown}\""
        );
        return Err(Failure::new(Code(40096), message));
    };
    usize::try_from(number).map_err(|_| {
        Failure::new(Code(40097), format!("{name} requires a nonnegative {what} index, found: {number}"))
    })
}

/// `$indexOfArray: [array, value, start, end]`.
pub(super) fn index_of_array<'e>(name: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let [array, wanted, ..] = values.as_slice() else { return Ok(Value::NULL) };
    if array.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(items) = array.items()? else {
        let message = format!("{name} requires an array as a first argument, found: {}", array.type_name());
        return Err(Failure::new(Code(40090), message));
    };
    let (start, end) = window(name, &values, items.len())?;
    for (place, item) in items.iter().enumerate().take(end).skip(start) {
        if item.compare(wanted).is_eq() {
            return found(Some(place));
        }
    }
    found(None)
}

/// The two strings of an index operator; `None` if the first is null.
fn strings<'v>(name: &str, values: &'v [Value<'_>], code: i32) -> Result<Option<(&'v str, &'v str)>> {
    let [text, wanted, ..] = values else { return Ok(None) };
    if text.is_nullish() {
        return Ok(None);
    }
    let string = |value: &'v Value<'_>, which: &str, code: i32| {
        value.as_str().ok_or_else(|| {
            let message =
                format!("{name} requires a string as the {which} argument, found: {}", value.type_name());
            Failure::new(Code(code), message)
        })
    };
    Ok(Some((string(text, "first", code)?, string(wanted, "second", code + 1)?)))
}

/// `$indexOfBytes: [text, wanted, start, end]`.
pub(super) fn index_of_bytes<'e>(name: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let Some((text, wanted)) = strings(name, &values, 40091)? else { return Ok(Value::NULL) };
    let (start, end) = window(name, &values, text.len())?;
    let window = text.as_bytes().get(start..end);
    found(window.and_then(|window| find_bytes(window, wanted.as_bytes())).map(|place| place + start))
}

fn find_bytes(window: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return Some(0);
    }
    window.windows(wanted.len()).position(|part| part == wanted)
}

/// `$indexOfCP: [text, wanted, start, end]`, counted in code points.
pub(super) fn index_of_code_points<'e>(name: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let Some((text, wanted)) = strings(name, &values, 40093)? else { return Ok(Value::NULL) };
    let length = text.chars().count();
    let (start, end) = window(name, &values, length)?;
    if start > end {
        return found(None);
    }
    let offset = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(offset, _)| offset);
    let window = text.get(offset(start)..offset(end)).unwrap_or_default();
    let place =
        window.find(wanted).and_then(|bytes| window.get(..bytes)).map(|before| before.chars().count());
    found(place.map(|place| place + start))
}
