//! Inserts documents, prepared as mongod prepares them, in groups.

use std::borrow::Cow;
use std::sync::Arc;

use bson::oid::ObjectId;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, Timestamp};
use fathom_engine::Key;
use fathom_query::{Code, Failure};
use fathom_wire::DocumentWriter;

use super::with_collection;
use crate::Result;
use crate::execution::write_transaction;
use crate::operation_context::OperationContext;
use crate::storage::{CappedLimits, Collection, CollectionState, document_of};

/// The maximum documents and bytes of one transaction (`internalInsertMaxBatchSize` and `insertVectorMaxBytes` of 4.0).
const MAX_GROUP_DOCUMENTS: usize = 64;
const MAX_GROUP_BYTES: usize = 256 << 10;
/// The size of the largest document: 16 MiB.
const MAX_DOCUMENT_BYTES: usize = 16 << 20;

/// Inserts documents; returns the number inserted, and the failures. `ordered` stops at the first failure.
pub(crate) fn insert_documents(
    op: &mut OperationContext<'_>,
    namespace: &str,
    documents: &[&RawDocument],
    ordered: bool,
    validate: bool,
) -> Result<(usize, Vec<(usize, Failure)>)> {
    let mut failures = Vec::new();
    let mut inserted = 0;
    let first = op.statement.as_ref().map_or(0, |statement| statement.number);
    with_collection(op, namespace, true, |op, found| {
        let Some((collection, state)) = found else { return Ok(()) };
        let mut at = 0;
        while at < documents.len() && (failures.is_empty() || !ordered) {
            let group = group_at(documents, at);
            if let Some(statement) = &mut op.statement {
                statement.number = statement_of(first, at);
            }
            match insert_group(op, collection, state, group, validate) {
                Ok(()) => inserted += group.len(),
                Err(_) if group.len() > 1 => {
                    for (offset, document) in group.iter().enumerate() {
                        if let Some(statement) = &mut op.statement {
                            statement.number = statement_of(first, at + offset);
                        }
                        match insert_group(op, collection, state, &[document], validate) {
                            Ok(()) => inserted += 1,
                            Err(failure) => {
                                op.stop_if_interrupted(&failure)?;
                                failures.push((at + offset, failure));
                                if ordered {
                                    break;
                                }
                            }
                        }
                    }
                }
                Err(failure) => {
                    op.stop_if_interrupted(&failure)?;
                    failures.push((at, failure));
                }
            }
            at += group.len();
        }
        Ok(())
    })?;
    op.figures.inserted = Some(op.figures.inserted.unwrap_or(0) + inserted as u64);
    Ok((inserted, failures))
}

/// The statement number of the document at a position.
fn statement_of(first: i32, place: usize) -> i32 {
    first.saturating_add(i32::try_from(place).unwrap_or(i32::MAX))
}

fn group_at<'d>(documents: &'d [&'d RawDocument], at: usize) -> &'d [&'d RawDocument] {
    let rest = documents.get(at..).unwrap_or_default();
    let mut bytes = 0;
    let fits = |document: &&&RawDocument| {
        bytes += document.as_bytes().len();
        bytes <= MAX_GROUP_BYTES
    };
    let length = rest.iter().take(MAX_GROUP_DOCUMENTS).take_while(fits).count().max(1);
    rest.get(..length).unwrap_or(rest)
}

fn insert_group(
    op: &mut OperationContext<'_>,
    collection: &Arc<Collection>,
    state: &CollectionState,
    documents: &[&RawDocument],
    validate: bool,
) -> Result<()> {
    let mut ready = Vec::with_capacity(documents.len());
    for document in documents {
        let document = prepare(document)?;
        if let (true, Some(validator)) = (validate, &state.validator) {
            validator.check((&op.instance.log, op.client.id), collection.namespace(), &document, None)?;
        }
        ready.push(document);
    }
    let _in_turn = collection.limits().map(|_| collection.capped().lock());
    let removed = write_transaction(op, |op| {
        for document in &ready {
            let (_, multikey) = collection.insert(op.session(), state, document)?;
            op.note_insert(collection, document);
            if !multikey.is_empty() {
                op.instance.catalog.note_multikey(collection, state, &multikey)?;
            }
        }
        match collection.limits() {
            None => Ok(RemovedRecords::default()),
            Some(limits) => trim(op, collection, state, limits, &ready),
        }
    })?;
    let (records, bytes) = extent(&ready);
    op.figures.keys_inserted += (ready.len() * state.indexes.len()) as u64;
    collection.note(records - removed.records, bytes - removed.bytes);
    if collection.limits().is_some() {
        if let Some(next) = removed.next {
            collection.capped().set_oldest(next);
        }
        collection.capped().announce();
    }
    Ok(())
}

/// Inserts a document that another member inserted into a capped collection, and removes the oldest ones if needed.
pub(crate) fn insert_capped(
    op: &mut OperationContext<'_>,
    collection: &Arc<Collection>,
    state: &CollectionState,
    document: &RawDocument,
) -> Result<()> {
    insert_group(op, collection, state, &[document], false)
}

/// The number and bytes of documents.
fn extent(documents: &[Cow<'_, RawDocument>]) -> (i64, i64) {
    let length = |document: &Cow<'_, RawDocument>| i64::try_from(document.as_bytes().len()).unwrap_or(0);
    (i64::try_from(documents.len()).unwrap_or(i64::MAX), documents.iter().map(length).sum())
}

/// The records removed from a capped collection.
#[derive(Clone, Copy, Debug, Default)]
struct RemovedRecords {
    records: i64,
    bytes: i64,
    /// The record after the last that was inserted, or `None` if none was.
    next: Option<i64>,
}

/// Removes the oldest documents of a capped collection that would exceed its limits, in the transaction of the insert.
fn trim(
    op: &OperationContext<'_>,
    collection: &Collection,
    state: &CollectionState,
    limits: CappedLimits,
    added: &[Cow<'_, RawDocument>],
) -> Result<RemovedRecords> {
    if let Some(large) = added
        .iter()
        .map(|one| one.as_bytes().len())
        .find(|bytes| limits.exceeded(1, i64::try_from(*bytes).unwrap_or(i64::MAX)))
    {
        return Err(Failure::new(
            Code(16328),
            format!("document is larger than capped size {large} > {}", limits.bytes),
        ));
    }
    let (added_records, added_bytes) = extent(added);
    let mut records = collection.records() + added_records;
    let mut bytes = collection.bytes() + added_bytes;
    let mut gone = RemovedRecords::default();
    let mut from = collection.capped().oldest();
    while records > 1 && limits.exceeded(records, bytes) {
        let mut cursor = op.session().cursor(collection.records_table()?)?;
        if !cursor.seek(Key::Number(from))? {
            break;
        }
        let (record, document) = (cursor.key().number().unwrap_or_default(), cursor.value().to_vec());
        drop(cursor);
        collection.remove(op.session(), state, record, document_of(&document)?)?;
        let length = i64::try_from(document.len()).unwrap_or(0);
        from = record + 1;
        gone = RemovedRecords { records: gone.records + 1, bytes: gone.bytes + length, next: Some(from) };
        records -= 1;
        bytes -= length;
    }
    Ok(gone)
}

/// Prepares a document for storage: `_id` first, generated if it is missing; empty timestamps at the top level filled in.
pub(crate) fn prepare(document: &RawDocument) -> Result<Cow<'_, RawDocument>> {
    let mut id = None;
    let mut id_is_first = false;
    let mut change = false;
    for (place, element) in document.iter().enumerate() {
        let (name, value) = element.map_err(|error| crate::parse::malformed(&error))?;
        if name.as_str() == "_id" && id.is_none() {
            check_id(value)?;
            id = Some(value);
            id_is_first = place == 0;
        } else if name.as_str().starts_with('$') {
            return Err(Failure::new(
                Code::DollarPrefixedFieldName,
                format!(
                    "The dollar ($) prefixed field '{name}' in '{name}' is not valid for storage.",
                    name = name.as_str()
                ),
            ));
        }
        change |= matches!(value, RawBsonRef::Timestamp(Timestamp { time: 0, increment: 0 }))
            && name.as_str() != "_id";
    }
    if id_is_first && !change {
        check_size(document.as_bytes().len())?;
        return Ok(Cow::Borrowed(document));
    }
    let mut bytes = Vec::with_capacity(document.as_bytes().len() + 24);
    let mut writer = DocumentWriter::new(&mut bytes);
    match id {
        Some(value) => writer.value("_id", value),
        None => writer.object_id("_id", ObjectId::new()),
    }
    for element in document {
        let (name, value) = element.map_err(|error| crate::parse::malformed(&error))?;
        match value {
            _ if name.as_str() == "_id" => {}
            RawBsonRef::Timestamp(Timestamp { time: 0, increment: 0 }) => {
                writer.timestamp(name.as_str(), now())
            }
            value => writer.value(name.as_str(), value),
        }
    }
    writer.end();
    check_size(bytes.len())?;
    let document = RawDocumentBuf::from_bytes(bytes).map_err(|error| crate::parse::malformed(&error))?;
    Ok(Cow::Owned(document))
}

/// The current time as a timestamp that no other call returns.
pub(crate) fn now() -> Timestamp {
    use std::sync::atomic::{AtomicU64, Ordering};
    static LAST: AtomicU64 = AtomicU64::new(0);
    let second = (bson::DateTime::now().timestamp_millis().unsigned_abs() / 1000) << 32;
    LAST.fetch_max(second, Ordering::Relaxed);
    let value = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the number")]
    Timestamp { time: (value >> 32) as u32, increment: value as u32 }
}

fn check_id(id: RawBsonRef<'_>) -> Result<()> {
    let kind = match id {
        RawBsonRef::Array(_) => "array",
        RawBsonRef::RegularExpression(_) => "regex",
        RawBsonRef::Undefined => "undefined",
        RawBsonRef::Document(inner) => {
            let dollar = inner.iter().flatten().any(|(name, _)| name.as_str().starts_with('$'));
            return if dollar {
                Err(Failure::new(
                    Code::DollarPrefixedFieldName,
                    "_id fields may not contain '$'-prefixed fields",
                ))
            } else {
                Ok(())
            };
        }
        _ => return Ok(()),
    };
    Err(Failure::new(Code::InvalidIdField, format!("The '_id' value cannot be of type {kind}")))
}

/// Refuses a document that is too large to be stored.
pub(crate) fn check_size(bytes: usize) -> Result<()> {
    if bytes <= MAX_DOCUMENT_BYTES {
        return Ok(());
    }
    Err(Failure::new(
        Code::BSONObjectTooLarge,
        format!("object to insert too large. size in bytes: {bytes}, max size: {MAX_DOCUMENT_BYTES}"),
    ))
}
