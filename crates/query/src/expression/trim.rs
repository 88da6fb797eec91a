//! `$trim`, `$ltrim`, `$rtrim`: `{input, chars}`.

use bson::Bson;

use super::operators::Signature;
use super::show::show;
use super::value::Value;
use crate::{Code, Failure, Result};

/// What they take.
pub(super) static SIGNATURE: Signature =
    Signature { not_object: 50696, unknown: 50694, members: &[("input", Some(50695)), ("chars", None)] };

/// What is trimmed if nothing is said (mongodb/mongo:src/mongo/db/pipeline/expression_trim.cpp).
const WHITESPACE: &[char] = &[
    '\0', ' ', '\t', '\n', '\x0B', '\x0C', '\r', '\u{A0}', '\u{1680}', '\u{2000}', '\u{2001}', '\u{2002}',
    '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}', '\u{200A}',
];

/// Any of the three, by its name.
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
