//! Reads and replaces the value at one path of a document, as bytes.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::Result;
use crate::expression::value::{MAX_DEPTH, Value, append, malformed, too_deep};

/// The value at a path, through documents only; `None` if it is missing.
pub(super) fn at<'d>(document: &'d RawDocument, path: &[String]) -> Result<Option<RawBsonRef<'d>>> {
    let Some((first, rest)) = path.split_first() else { return Ok(Some(RawBsonRef::Document(document))) };
    match document.get(first).map_err(malformed)? {
        None => Ok(None),
        Some(value) if rest.is_empty() => Ok(Some(value)),
        Some(RawBsonRef::Document(inner)) => at(inner, rest),
        Some(_) => Ok(None),
    }
}

/// The document with `value` at `path`; a missing value removes the field. Values on the path that are not documents become
/// documents.
pub(super) fn with(document: &RawDocument, path: &[String], value: &Value<'_>) -> Result<RawDocumentBuf> {
    let mut result = RawDocumentBuf::new();
    let Some((first, rest)) = path.split_first() else { return Ok(document.to_owned()) };
    if path.len() > MAX_DEPTH {
        return Err(too_deep());
    }
    let mut placed = false;
    for element in document.iter() {
        let (name, old) = element.map_err(malformed)?;
        if placed || name.as_str() != first {
            result.append(name, old);
            continue;
        }
        placed = true;
        place(&mut result, first, rest, Some(old), value)?;
    }
    if !placed {
        place(&mut result, first, rest, None, value)?;
    }
    Ok(result)
}

fn place(
    result: &mut RawDocumentBuf,
    name: &str,
    rest: &[String],
    old: Option<RawBsonRef<'_>>,
    value: &Value<'_>,
) -> Result<()> {
    if rest.is_empty() {
        return append(result, name, value);
    }
    let inner = match old {
        Some(RawBsonRef::Document(inner)) => with(inner, rest, value)?,
        Some(old) if matches!(value, Value::Missing) => return append(result, name, &Value::Raw(old)),
        None if matches!(value, Value::Missing) => return Ok(()),
        _ => with(&RawDocumentBuf::new(), rest, value)?,
    };
    append(result, name, &Value::Raw(RawBsonRef::Document(&inner)))
}
