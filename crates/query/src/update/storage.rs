//! The limits of stored documents: names, nesting and size, with MongoDB's error codes.
use super::text::type_name;
use crate::raw::{Element, Elements, kind};
use crate::{Code, Failure, Result};

/// The largest document that a user may store.
const MAX_USER_BYTES: usize = 16 * 1024 * 1024;
/// The largest document that can exist inside the server.
const MAX_INTERNAL_BYTES: usize = MAX_USER_BYTES + 16 * 1024;
/// Levels of documents and arrays that may be stored; MongoDB keeps 20 of its 200 for itself.
pub(super) const MAX_DEPTH: usize = 180;

/// The failure for values that are nested too deeply.
pub(super) fn too_deep() -> Failure {
    Failure::new(Code::Overflow, format!("Document exceeds maximum nesting depth of {MAX_DEPTH}"))
}

/// Checks the size of a document after an update, or before the insert of an upsert.
pub(super) fn check_size(bytes: usize, inserting: bool) -> Result<()> {
    if bytes > MAX_INTERNAL_BYTES {
        let message = format!(
            "BSONObj size: {bytes} (0x{bytes:X}) is invalid. Size must be between 0 and {MAX_INTERNAL_BYTES}(16MB)"
        );
        return Err(Failure::new(Code::BSONObjectTooLarge, message));
    }
    match (bytes > MAX_USER_BYTES, inserting) {
        (false, _) => Ok(()),
        (true, false) => Err(Failure::new(
            Code(17419),
            format!("Resulting document after update is larger than {MAX_USER_BYTES}"),
        )),
        (true, true) => {
            Err(Failure::new(Code(17420), format!("Document to upsert is larger than {MAX_USER_BYTES}")))
        }
    }
}

/// Checks that `_id` is of a type that may identify a document.
pub(super) fn check_id(id: &Element<'_>) -> Result<()> {
    match id.kind {
        kind::REGEX | kind::ARRAY | kind::UNDEFINED => Err(Failure::new(
            Code::InvalidIdField,
            format!("The '_id' value cannot be of type {}", type_name(id.kind)),
        )),
        _ => Ok(()),
    }
}

/// Checks the names and the nesting within a value `depth` levels down, at `path`.
pub(super) fn check_value(value_kind: u8, value: &[u8], path: &str, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if value_kind != kind::DOCUMENT && value_kind != kind::ARRAY {
        return Ok(());
    }
    let mut before: [Option<Element<'_>>; 2] = [None, None];
    let mut elements = Elements::new(value)?.peekable();
    while let Some(element) = elements.next() {
        let element = element?;
        let container = element.kind == kind::DOCUMENT || element.kind == kind::ARRAY;
        let dollar = value_kind == kind::DOCUMENT && element.name.first() == Some(&b'$');
        if container || dollar {
            let path = format!("{path}{}{}", if path.is_empty() { "" } else { "." }, element.name_text()?);
            if dollar {
                let next = elements.peek().and_then(|next| next.as_ref().ok());
                check_dollar(&element, before, next, &path)?;
            }
            check_value(element.kind, element.value, &path, depth + 1)?;
        }
        before = [Some(element), before[0]];
    }
    Ok(())
}

/// Allows `$ref`, `$id` and `$db` in this order, as in database references, and no other name with a dollar.
fn check_dollar(
    element: &Element<'_>,
    before: [Option<Element<'_>>; 2],
    next: Option<&Element<'_>>,
    path: &str,
) -> Result<()> {
    let invalid = |message: String| Err(Failure::new(Code::InvalidDBRef, message));
    let named = |element: Option<Element<'_>>, name: &[u8]| element.is_some_and(|found| found.name == name);
    let not_text =
        |name: &str| format!("The DBRef {name} field must be a String, not a {}", type_name(element.kind));
    match element.name {
        b"$ref" if element.kind != kind::STRING => invalid(not_text("$ref")),
        b"$ref" if !named(next.copied(), b"$id") => {
            invalid("The DBRef $ref field must be followed by a $id field".to_string())
        }
        b"$id" if !named(before[0], b"$ref") => {
            invalid("Found $id field without a $ref before it, which is invalid.".to_string())
        }
        b"$db" if element.kind != kind::STRING => invalid(not_text("$db")),
        b"$db" if !named(before[0], b"$id") || !named(before[1], b"$ref") => {
            invalid("Found $db field without a $id before it, which is invalid.".to_string())
        }
        b"$ref" | b"$id" | b"$db" => Ok(()),
        _ => Err(dollar_prefixed(&String::from_utf8_lossy(element.name), path)),
    }
}

/// The failure for a field name that begins with a dollar.
pub(super) fn dollar_prefixed(name: &str, path: &str) -> Failure {
    Failure::new(
        Code::DollarPrefixedFieldName,
        format!("The dollar ($) prefixed field '{name}' in '{path}' is not valid for storage."),
    )
}
