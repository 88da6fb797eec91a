//! Computes the change of an update as an oplog entry that may be applied twice: `$set` and `$unset`, or the whole document if
//! these would not produce the same one.
//!
//! mongod derives the entry from the operators that ran. Here it is derived from the documents before and after, which gives
//! the same bytes on every member regardless of the operators. Arrays are set as a whole when they change.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use fathom_wire::DocumentWriter;

use crate::Result;

/// With more fields than this, a whole document is cheaper.
const MAX_FIELDS: usize = 64;

/// The `o` of an update's entry: `{$v: 1, $set: {...}, $unset: {...}}`, or `after`.
pub(crate) fn difference(before: &RawDocument, after: &RawDocument) -> Result<RawDocumentBuf> {
    let mut found = FieldChanges::default();
    if !compare(before, after, &mut String::new(), &mut found) {
        return Ok(after.to_owned());
    }
    let mut bytes = Vec::with_capacity(64);
    let mut writer = DocumentWriter::new(&mut bytes);
    writer.i32("$v", 1);
    if !found.unset.is_empty() {
        let mut unset = writer.begin_document("$unset");
        found.unset.iter().for_each(|path| unset.bool(path, true));
    }
    if !found.set.is_empty() {
        let mut set = writer.begin_document("$set");
        found.set.iter().for_each(|(path, value)| set.value(path, *value));
    }
    writer.end();
    if bytes.len() >= after.as_bytes().len() {
        return Ok(after.to_owned());
    }
    RawDocumentBuf::from_bytes(bytes).map_err(|error| crate::parse::malformed(&error))
}

#[derive(Debug, Default)]
struct FieldChanges<'a> {
    set: Vec<(String, RawBsonRef<'a>)>,
    unset: Vec<String>,
}

/// Collects the differences below `path`; false if operators cannot express them.
fn compare<'a>(
    before: &RawDocument,
    after: &'a RawDocument,
    path: &mut String,
    found: &mut FieldChanges<'a>,
) -> bool {
    let mut old = before.iter();
    let mut pending = old.next();
    for element in after {
        let Ok((name, value)) = element else { return false };
        let name = name.as_str();
        if !can_be_a_path(name) {
            return false;
        }
        // An earlier field that is no longer at its position was removed, or the order changed.
        loop {
            match &pending {
                None => {
                    // A new field at the end, where $set puts it. It must not have existed elsewhere before.
                    if matches!(before.get(name), Ok(Some(_)) | Err(_)) {
                        return false;
                    }
                    found.set.push((joined(path, name), value));
                    break;
                }
                Some(Err(_)) => return false,
                Some(Ok((known, was))) if known.as_str() == name => {
                    if !same_or_deeper(*was, value, path, name, found) {
                        return false;
                    }
                    pending = old.next();
                    break;
                }
                Some(Ok((known, _))) => {
                    if !can_be_a_path(known.as_str())
                        || matches!(after.get(known.as_str()), Ok(Some(_)) | Err(_))
                    {
                        return false;
                    }
                    found.unset.push(joined(path, known.as_str()));
                    pending = old.next();
                }
            }
        }
        if found.set.len() + found.unset.len() > MAX_FIELDS {
            return false;
        }
    }
    while let Some(element) = pending {
        let Ok((known, _)) = element else { return false };
        if !can_be_a_path(known.as_str()) {
            return false;
        }
        found.unset.push(joined(path, known.as_str()));
        pending = old.next();
    }
    found.set.len() + found.unset.len() <= MAX_FIELDS
}

fn same_or_deeper<'a>(
    was: RawBsonRef<'_>,
    value: RawBsonRef<'a>,
    path: &mut String,
    name: &str,
    found: &mut FieldChanges<'a>,
) -> bool {
    match (was, value) {
        (RawBsonRef::Document(was), RawBsonRef::Document(value)) => {
            if was.as_bytes() == value.as_bytes() {
                return true;
            }
            // An empty document could be made by removing all fields of one, but setting it is shorter.
            if was.is_empty() || value.is_empty() {
                found.set.push((joined(path, name), RawBsonRef::Document(value)));
                return true;
            }
            let length = path.len();
            *path = joined(path, name);
            let fine = compare(was, value, path, found);
            path.truncate(length);
            fine
        }
        (was, value) => {
            if !same_bytes(was, value) {
                found.set.push((joined(path, name), value));
            }
            true
        }
    }
}

/// Whether two values have the same type and bytes: -0.0 differs from 0.0 here, and one NaN from another.
fn same_bytes(one: RawBsonRef<'_>, other: RawBsonRef<'_>) -> bool {
    let bytes = |value| {
        let mut bytes = Vec::new();
        let mut writer = DocumentWriter::new(&mut bytes);
        writer.value("", value);
        writer.end();
        bytes
    };
    match (one, other) {
        (RawBsonRef::String(one), RawBsonRef::String(other)) => one == other,
        (RawBsonRef::Int32(one), RawBsonRef::Int32(other)) => one == other,
        (RawBsonRef::Int64(one), RawBsonRef::Int64(other)) => one == other,
        (RawBsonRef::Binary(one), RawBsonRef::Binary(other)) => {
            one.subtype == other.subtype && one.bytes == other.bytes
        }
        (RawBsonRef::Array(one), RawBsonRef::Array(other)) => one.as_bytes() == other.as_bytes(),
        (one, other) => one.element_type() == other.element_type() && bytes(one) == bytes(other),
    }
}

/// Whether a field's name can be part of a path and still mean the field.
fn can_be_a_path(name: &str) -> bool {
    !name.is_empty() && !name.contains('.') && !name.starts_with('$')
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn between(before: &RawDocument, after: &RawDocument) -> bson::Document {
        bson::Document::try_from(difference(before, after).unwrap()).unwrap()
    }

    fn padded(mut document: RawDocumentBuf) -> RawDocumentBuf {
        document.append(bson::raw::CString::try_from("z").unwrap(), "x".repeat(200));
        document
    }

    #[test]
    fn changed_new_and_gone_fields_are_set_and_unset() {
        let before = padded(rawdoc! { "_id": 1, "a": 1, "b": { "c": 1, "d": 2 }, "e": [1] });
        let after = {
            let mut document = padded(rawdoc! { "_id": 1, "a": 2, "b": { "c": 1, "d": 3 } });
            document.append(bson::raw::CString::try_from("f").unwrap(), 5);
            document
        };
        let expected = bson::doc! { "$v": 1, "$unset": { "e": true }, "$set": { "a": 2, "b.d": 3, "f": 5 } };
        assert_eq!(between(&before, &after), expected);
    }

    #[test]
    fn another_order_or_a_strange_name_takes_the_whole_document() {
        let before = padded(rawdoc! { "_id": 1, "a": 1, "b": 2 });
        let swapped = padded(rawdoc! { "_id": 1, "b": 2, "a": 1 });
        assert_eq!(difference(&before, &swapped).unwrap(), swapped);
        let dotted = padded(rawdoc! { "_id": 1, "a": 1, "b": 2, "c.d": 1 });
        assert_eq!(difference(&before, &dotted).unwrap(), dotted);
    }

    #[test]
    fn another_type_of_the_same_number_is_a_change() {
        let before = padded(rawdoc! { "_id": 1, "a": 1, "n": 0.0 });
        let after = padded(rawdoc! { "_id": 1, "a": 1_i64, "n": -0.0 });
        let set = between(&before, &after);
        assert_eq!(set.get_document("$set").unwrap().len(), 2);
    }
}
