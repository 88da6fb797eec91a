//! Whole documents that an update stores: replacements, results of a pipeline, and the document with the filter's values to
//! which an upsert applies the update.

use super::operator::{Operator, UpdateMoment};
use super::path;
use super::rewrite::Rewrite;
use super::storage::{MAX_DEPTH, check_id, check_size, check_value, dollar_prefixed, too_deep};
use super::target::{TargetAction, UpdateTarget};
use super::text::element_text;
use crate::raw::{Builder, Elements, Value, find, kind};
use crate::{Code, Failure, Filter, Result, compare};
use bson::{Bson, RawDocument, RawDocumentBuf, Timestamp};
use std::borrow::Cow;
use std::cmp::Ordering;

/// The outcome for one document.
#[derive(Clone, Debug, PartialEq)]
pub enum DocumentUpdate {
    /// The document does not change (`nModified` does not count it).
    Unchanged,
    Changed(RawDocumentBuf),
}

/// Checks the names in a document that is to be stored.
pub(super) fn check_replacement(document: &RawDocument) -> Result<()> {
    for element in Elements::new(document.as_bytes())? {
        let element = element?;
        if element.name.first() == Some(&b'$') {
            let name = element.name_text()?;
            return Err(dollar_prefixed(name, name));
        }
        if element.kind == kind::DOCUMENT || element.kind == kind::ARRAY {
            check_value(element.kind, element.value, element.name_text()?, 1)?;
        }
        if element.name == b"_id" {
            check_id(&element)?;
        }
    }
    Ok(())
}

/// The document `after` in place of `before`, with the `_id` of `before` first.
pub(super) fn apply(before: &RawDocument, after: &RawDocument) -> Result<DocumentUpdate> {
    if before.as_bytes() == after.as_bytes() {
        return Ok(DocumentUpdate::Unchanged);
    }
    let old = find(before.as_bytes(), b"_id")?;
    let new = find(after.as_bytes(), b"_id")?;
    if let (Some(old), Some(new)) = (&old, &new)
        && (old.kind, old.value) != (new.kind, new.value)
        && compare(Value::from_element(old)?.view()?, Value::from_element(new)?.view()?) != Ordering::Equal
    {
        let message = format!(
            "After applying the update, the (immutable) field '_id' was found to have been altered to {}",
            element_text(new)?
        );
        return Err(Failure::new(Code::ImmutableField, message));
    }
    let document = id_first(after, old.filter(|_| new.is_none()).map(|old| old.whole))?;
    check_size(document.as_bytes().len(), false)?;
    Ok(DocumentUpdate::Changed(document))
}

/// The document with its `_id` first; `missing` is the element to put there if it has none.
pub(super) fn id_first(document: &RawDocument, missing: Option<&[u8]>) -> Result<RawDocumentBuf> {
    let bytes = document.as_bytes();
    let mut builder = Builder::with_capacity(bytes.len() + missing.map_or(0, <[u8]>::len));
    let body = |from: usize, to: usize| bytes.get(from..to).unwrap_or_default();
    let end = bytes.len().saturating_sub(1);
    match find(bytes, b"_id")? {
        Some(id) => {
            builder.copy(id.whole);
            builder.copy(body(4, id.start));
            builder.copy(body(id.end(), end));
        }
        None => {
            builder.copy(missing.unwrap_or_default());
            builder.copy(body(4, end));
        }
    }
    builder.document()
}

/// A replacement as it is stored: top-level timestamps of zero become the current time. `None` if it has none.
fn stamped(replacement: &RawDocument, stamp: Timestamp) -> Result<Option<RawDocumentBuf>> {
    let mut patched: Option<Vec<u8>> = None;
    for element in Elements::new(replacement.as_bytes())? {
        let element = element?;
        if element.kind != kind::TIMESTAMP || element.name == b"_id" || element.value != [0; 8] {
            continue;
        }
        let now = (u64::from(stamp.time) << 32 | u64::from(stamp.increment)).to_le_bytes();
        let bytes = patched.get_or_insert_with(|| replacement.as_bytes().to_vec());
        if let Some(value) = bytes.get_mut(element.end() - now.len()..element.end()) {
            value.copy_from_slice(&now);
        }
    }
    patched
        .map(|bytes| RawDocumentBuf::from_bytes(bytes).map_err(|_| crate::raw::malformed("a replacement")))
        .transpose()
}

pub(super) fn replace(
    before: &RawDocument,
    replacement: &RawDocument,
    moment: &UpdateMoment<'_>,
) -> Result<DocumentUpdate> {
    match stamped(replacement, moment.timestamp)? {
        Some(stamped) => apply(before, &stamped),
        None => apply(before, replacement),
    }
}

/// A document of the filter's equalities, dotted ones nested, in the order of their paths.
pub(super) fn upsert_seed(filter: &Filter, moment: &UpdateMoment<'_>) -> Result<RawDocumentBuf> {
    let mut operators: Vec<(String, Operator)> = Vec::new();
    for (path, value) in filter.equalities() {
        check_matched_once(&operators, &path)?;
        let value = Value::from_bson(&value)?;
        if path.split('.').count() > MAX_DEPTH {
            return Err(too_deep());
        }
        check_value(value.kind(), value.bytes(), &path, path.split('.').count())?;
        operators.push((path, Operator::Set(value)));
    }
    operators.sort_by(|(left, _), (right, _)| path::order(left, right));
    let targets: Vec<UpdateTarget<'_>> = operators
        .iter()
        .map(|(path, operator)| UpdateTarget {
            path: Cow::Borrowed(path),
            action: TargetAction::Operator(operator),
        })
        .collect();
    let empty = RawDocumentBuf::new();
    let rewrite = Rewrite { root: empty.as_bytes(), moment };
    match rewrite.run(&targets)? {
        Some(bytes) => RawDocumentBuf::from_bytes(bytes).map_err(|_| crate::raw::malformed("a filter")),
        None => Ok(empty),
    }
}

fn check_matched_once(seen: &[(String, Operator)], path: &str) -> Result<()> {
    for (other, _) in seen {
        let message = if other == path {
            format!("cannot infer query fields to set, path '{path}' is matched twice")
        } else if path::leads_to(other, path) || path::leads_to(path, other) {
            format!("cannot infer query fields to set, both paths '{path}' and '{other}' are matched")
        } else {
            continue;
        };
        return Err(Failure::new(Code::NotSingleValueField, message));
    }
    Ok(())
}

/// The `_id` that a filter requires, which is all that a replacement takes from it.
pub(super) fn upsert_id(filter: &Filter) -> Result<Option<Bson>> {
    let mut id = None;
    for (path, value) in filter.equalities() {
        if path == "_id" {
            if id.is_some() {
                let message = "cannot infer query fields to set, path '_id' is matched twice";
                return Err(Failure::new(Code::NotSingleValueField, message));
            }
            id = Some(value);
        } else if path::leads_to("_id", &path) {
            let message =
                format!("field at '_id' must be exactly specified, field at sub-path '{path}'found");
            return Err(Failure::new(Code::NotExactValueField, message));
        }
    }
    Ok(id)
}

/// Checks the `_id` of a document that is about to be inserted.
pub(super) fn check_inserted_id(document: &RawDocumentBuf) -> Result<()> {
    find(document.as_bytes(), b"_id")?.map_or(Ok(()), |id| check_id(&id))
}
