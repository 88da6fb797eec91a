//! Helpers for what stages hold: objects of options, names of fields.

use bson::{RawBsonRef, RawDocument};

use crate::expression::value::{malformed, type_name};
use crate::{Code, Failure, Result};

/// The name of a value's type.
pub(super) fn kind(value: RawBsonRef<'_>) -> &'static str {
    type_name(value.element_type())
}

/// A refusal.
pub(super) fn refused<T>(code: i32, message: impl Into<std::borrow::Cow<'static, str>>) -> Result<T> {
    Err(Failure::new(Code(code), message))
}

/// The object that a stage must hold.
pub(super) fn object<'v>(value: RawBsonRef<'v>, code: i32, message: &str) -> Result<&'v RawDocument> {
    match value {
        RawBsonRef::Document(document) => Ok(document),
        other => refused(code, format!("{message}, got {}", kind(other))),
    }
}

/// The members of an object of options, one for each of `names`; others are refused with `unknown` and what it says.
pub(super) fn members<'v, const N: usize>(
    document: &'v RawDocument,
    names: [&str; N],
    unknown: (i32, &str),
) -> Result<[Option<RawBsonRef<'v>>; N]> {
    let mut found = [None; N];
    for element in document.iter() {
        let (name, value) = element.map_err(malformed)?;
        let place = names.iter().position(|known| *known == name.as_str());
        match place.and_then(|place| found.get_mut(place)) {
            Some(member) => *member = Some(value),
            None => return refused(unknown.0, format!("{}: {name}", unknown.1)),
        }
    }
    Ok(found)
}

/// A number of an option, whole and of 64 bits.
pub(super) fn whole(value: RawBsonRef<'_>) -> Option<i64> {
    use crate::expression::number::Number;
    use crate::expression::value::Value;
    Number::of(&Value::Raw(value)).and_then(Number::exact_long)
}
