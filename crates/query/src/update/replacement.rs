//! Whole new documents: replacements, and what a pipeline makes of the old one.
use super::storage::{check_id, check_size, check_value, dollar_prefixed};
use super::text::element_text;
use super::{Applied, UpdateMoment};
use crate::raw::{Builder, Elements, Value, find, kind};
use crate::{Code, Failure, Result, compare};
use bson::{RawDocument, RawDocumentBuf, Timestamp};
use std::cmp::Ordering;

/// Checks the names in a document that is to be stored.
pub(super) fn check(document: &RawDocument) -> Result<()> {
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
pub(super) fn apply(before: &RawDocument, after: &RawDocument) -> Result<Applied> {
    if before.as_bytes() == after.as_bytes() {
        return Ok(Applied::Unchanged);
    }
    let old = find(before.as_bytes(), b"_id")?;
    let new = find(after.as_bytes(), b"_id")?;
    if let (Some(old), Some(new)) = (&old, &new)
        && (old.kind, old.value) != (new.kind, new.value)
        && compare(Value::of(old)?.view()?, Value::of(new)?.view()?) != Ordering::Equal
    {
        let message = format!(
            "After applying the update, the (immutable) field '_id' was found to have been altered to {}",
            element_text(new)?
        );
        return Err(Failure::new(Code::ImmutableField, message));
    }
    let document = id_first(after, old.filter(|_| new.is_none()).map(|old| old.whole))?;
    check_size(document.as_bytes().len(), false)?;
    Ok(Applied::Changed(document))
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

/// A replacement as it is stored: a top-level timestamp of zero stands for now. None if there is no such.
pub(super) fn stamped(replacement: &RawDocument, stamp: Timestamp) -> Result<Option<RawDocumentBuf>> {
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

/// [`stamped`] and [`apply`].
pub(super) fn replace(
    before: &RawDocument,
    replacement: &RawDocument,
    moment: &UpdateMoment<'_>,
) -> Result<Applied> {
    match stamped(replacement, moment.timestamp)? {
        Some(stamped) => apply(before, &stamped),
        None => apply(before, replacement),
    }
}
