//! Checks a collection completely: every record is a document, and each index holds the keys of all records and no others.
//!
//! The expected entries and the entries of the index are compared by sums over their hashes, in one pass over each table
//! in its order. Only if the sums differ are entries looked up one by one, to name the errors. The caller holds the
//! collection exclusively, so that all passes see the same data.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use fathom_engine::{Key, KeyKind, Kind, Table};
use fathom_query::{IndexKeys, KeyString};

use crate::Result;
use crate::operation_context::OperationContext;
use crate::storage::{Collection, CollectionState, Index};

/// The lifetime of a snapshot; longer ones keep old versions of other tables in the engine's cache.
const SNAPSHOT_LIFETIME: Duration = Duration::from_millis(100);
/// The number of keys between two checks of the clock and the kill switch.
const KEYS_AT_ONCE: u32 = 128;

/// The maximum number of entries of each kind named for an index.
const MAX_NAMED: usize = 100;

/// The result of a check.
#[derive(Debug, Default)]
pub(crate) struct ValidationReport {
    pub(crate) records: i64,
    /// The BSON bytes of the records.
    pub(crate) bytes: i64,
    /// The number of records that are not documents.
    pub(crate) invalid: i64,
    /// The result for each index, by its name.
    pub(crate) indexes: BTreeMap<String, IndexReport>,
    pub(crate) warnings: Vec<String>,
    pub(crate) errors: Vec<String>,
    /// Entries that point to no record with that key, at most [`MAX_NAMED`] of an index.
    pub(crate) extra: Vec<Document>,
    /// Keys of records that the index lacks.
    pub(crate) missing: Vec<Document>,
}

/// The result for one index.
#[derive(Debug, Default)]
pub(crate) struct IndexReport {
    /// The number of entries of the index.
    pub(crate) keys: i64,
    pub(crate) errors: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl ValidationReport {
    /// Whether no error was found.
    pub(crate) fn is_valid(&self) -> bool {
        self.errors.is_empty() && self.indexes.values().all(|index| index.errors.is_empty())
    }
}

/// A sum over entries that is independent of their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    entries: u64,
    hashes: [u64; 2],
}

impl Sum {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.entries += 1;
        for (seed, sum) in self.hashes.iter_mut().enumerate() {
            let mut hasher = DefaultHasher::new();
            hasher.write_usize(seed);
            hasher.write_usize(key.len());
            hasher.write(key);
            hasher.write(value);
            *sum = sum.wrapping_add(hasher.finish());
        }
    }
}

/// Checks a collection that the caller holds exclusively; with `full` the engine also checks its own structures.
pub(crate) fn check(
    op: &OperationContext<'_>,
    collection: &Collection,
    state: &CollectionState,
    full: bool,
) -> Result<ValidationReport> {
    let mut report = ValidationReport::default();
    if full {
        verify(op, collection, state, &mut report)?;
    }
    let expected = check_records(op, collection, state, &mut report)?;
    for (index, expected) in state.indexes.iter().zip(expected) {
        check_index(op, collection, index, expected, &mut report)?;
    }
    Ok(report)
}

/// Has the engine check its own structures.
fn verify(
    op: &OperationContext<'_>,
    collection: &Collection,
    state: &CollectionState,
    report: &mut ValidationReport,
) -> Result<()> {
    // An open cursor of this session would block the engine.
    op.session().release(None);
    let tables = collection.table().into_iter().chain(state.indexes.iter().map(|index| index.table()));
    for table in tables {
        op.check_interrupt()?;
        match op.instance.engine.verify(table) {
            Ok(()) => {}
            Err(error) if error.kind() == Kind::Busy => report.warnings.push(format!(
                "Could not complete validation of {}. This is a transient issue as the collection was actively in use by other operations.",
                table.ident()
            )),
            Err(error) if error.kind() == Kind::Corruption => {
                report.errors.push(format!("the engine's verify of {} failed: {error}", table.ident()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Checks the records and collects the entries that each index should have.
fn check_records(
    op: &OperationContext<'_>,
    collection: &Collection,
    state: &CollectionState,
    report: &mut ValidationReport,
) -> Result<Vec<Sum>> {
    let mut sums = vec![Sum::default(); state.indexes.len()];
    let mut keys = IndexKeys::default();
    walk(op, collection.records_table()?, &mut |key, value| {
        let record = key.number().unwrap_or_default();
        report.records += 1;
        report.bytes += i64::try_from(value.len()).unwrap_or(i64::MAX);
        let document = match fathom_wire::validate_document(value) {
            Ok(document) => document,
            Err(failure) => {
                report.invalid += 1;
                if report.invalid == 1 {
                    let what = format!("record {record} is not a document: {}", failure.message());
                    report.errors.push(what);
                }
                return Ok(());
            }
        };
        for (index, sum) in state.indexes.iter().zip(&mut sums) {
            if let Err(failure) = index.keys(document, &mut keys) {
                let what = format!("no keys can be made of record {record}: {}", failure.message());
                report.indexes.entry(index.name().to_owned()).or_default().errors.push(what);
                continue;
            }
            if keys.multikey && !index.is_multikey() {
                let what = format!("the index is not marked as multikey, but record {record} has an array");
                report.indexes.entry(index.name().to_owned()).or_default().errors.push(what);
            }
            for key in &keys.keys {
                let (entry, value) = index.entry_bytes(key, record);
                sum.add(&entry, &value);
            }
        }
        Ok(())
    })?;
    if report.invalid > 0 {
        report.errors.push(format!("Detected {} invalid documents.", report.invalid));
    }
    Ok(sums)
}

fn check_index(
    op: &OperationContext<'_>,
    collection: &Collection,
    index: &Index,
    expected: Sum,
    report: &mut ValidationReport,
) -> Result<()> {
    let mut found = Sum::default();
    walk(op, index.table(), &mut |key, value| {
        found.add(key.bytes().unwrap_or_default(), value);
        Ok(())
    })?;
    let (extra, missing) = (report.extra.len(), report.missing.len());
    if found != expected {
        extra_entries(op, collection, index, report)?;
        missing_entries(op, collection, index, report)?;
    }
    let (extra, missing) = (report.extra.len() - extra, report.missing.len() - missing);
    let entry = report.indexes.entry(index.name().to_owned()).or_default();
    entry.keys = i64::try_from(found.entries).unwrap_or(i64::MAX);
    if found != expected {
        entry.errors.push(format!(
            "index '{}' has {} entries, and the records have {} keys",
            index.name(),
            found.entries,
            expected.entries
        ));
        if extra > 0 {
            report.errors.push(format!("Detected {extra} extra index entries."));
        }
        if missing > 0 {
            report.errors.push(format!("Detected {missing} missing index entries."));
        }
    }
    Ok(())
}

/// Finds entries that belong to no record.
fn extra_entries(
    op: &OperationContext<'_>,
    collection: &Collection,
    index: &Index,
    report: &mut ValidationReport,
) -> Result<()> {
    let table = collection.records_table()?;
    let session = op.session();
    let mut buffer = Vec::new();
    let mut keys = IndexKeys::default();
    let mut named = 0;
    walk(op, index.table(), &mut |key, value| {
        if named >= MAX_NAMED {
            return Ok(());
        }
        let key = key.bytes().unwrap_or_default();
        let Ok(entry) = index.read_entry(key, value) else {
            named += 1;
            report.extra.push(doc! { "indexName": index.name(), "entry": binary(key) });
            return Ok(());
        };
        buffer.clear();
        let known = session.get(table, Key::Number(entry.record), &mut buffer)?
            && fathom_wire::validate_document(&buffer).is_ok_and(|document| {
                index.keys(document, &mut keys).is_ok()
                    && keys.keys.iter().any(|one| one.bytes == entry.key && one.type_bits == entry.type_bits)
            });
        if !known {
            named += 1;
            let key = KeyString { bytes: entry.key.to_vec(), type_bits: entry.type_bits.to_vec() };
            report.extra.push(shown(index, &key, entry.record, None));
        }
        Ok(())
    })
}

/// Finds keys of records that the index lacks.
fn missing_entries(
    op: &OperationContext<'_>,
    collection: &Collection,
    index: &Index,
    report: &mut ValidationReport,
) -> Result<()> {
    let session = op.session();
    let mut held = Vec::new();
    let mut keys = IndexKeys::default();
    let mut named = 0;
    walk(op, collection.records_table()?, &mut |key, value| {
        let record = key.number().unwrap_or_default();
        let Ok(document) = fathom_wire::validate_document(value) else { return Ok(()) };
        if named >= MAX_NAMED || index.keys(document, &mut keys).is_err() {
            return Ok(());
        }
        for key in &keys.keys {
            let (entry, value) = index.entry_bytes(key, record);
            held.clear();
            if !session.get(index.table(), Key::Bytes(&entry), &mut held)? || held != value {
                named += 1;
                let id = crate::parse::field(document, "_id").map(crate::parse::owned_value).transpose()?;
                report.missing.push(shown(index, key, record, id));
            }
        }
        Ok(())
    })
}

fn shown(index: &Index, key: &KeyString, record: i64, id: Option<Bson>) -> Document {
    let mut entry = doc! { "indexName": index.name(), "recordId": record };
    if let Some(id) = id {
        entry.insert("idKey", doc! { "_id": id });
    }
    match index.key_document(&key.bytes, &key.type_bits) {
        Ok(values) => entry.insert("indexKey", values),
        Err(_) => entry.insert("entry", binary(&key.bytes)),
    };
    entry
}

fn binary(bytes: &[u8]) -> Bson {
    Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: bytes.to_vec() })
}

/// A function called with each key and value.
type KeyVisitor<'v> = dyn FnMut(Key<'_>, &[u8]) -> Result<()> + 'v;

/// The position at which a pass stopped.
enum ResumePosition {
    Number(i64),
    Bytes(Vec<u8>),
}

/// Passes every key and value to `visit`, in order.
fn walk(op: &OperationContext<'_>, table: &Table, visit: &mut KeyVisitor<'_>) -> Result<()> {
    let mut position = None;
    loop {
        op.check_interrupt()?;
        op.session().begin()?;
        let stopped = slice(op, table, position.as_ref(), visit);
        op.session().rollback();
        position = stopped?;
        if position.is_none() {
            return Ok(());
        }
    }
}

fn slice(
    op: &OperationContext<'_>,
    table: &Table,
    from: Option<&ResumePosition>,
    visit: &mut KeyVisitor<'_>,
) -> Result<Option<ResumePosition>> {
    let until = Instant::now() + SNAPSHOT_LIFETIME;
    let mut cursor = op.session().cursor(table)?;
    let mut more = match from {
        None => cursor.first()?,
        Some(position) => {
            let key = match position {
                ResumePosition::Number(number) => Key::Number(*number),
                ResumePosition::Bytes(bytes) => Key::Bytes(bytes),
            };
            let found = cursor.seek(key)?;
            if found && cursor.key() == key { cursor.next()? } else { found }
        }
    };
    let mut keys: u32 = 0;
    while more {
        visit(cursor.key(), cursor.value())?;
        keys = keys.wrapping_add(1);
        if keys.is_multiple_of(KEYS_AT_ONCE) {
            op.check_interrupt()?;
            if Instant::now() >= until {
                return Ok(Some(match (table.keys(), cursor.key()) {
                    (KeyKind::Bytes, key) => ResumePosition::Bytes(key.bytes().unwrap_or_default().to_vec()),
                    (KeyKind::Number, key) => ResumePosition::Number(key.number().unwrap_or_default()),
                }));
            }
        }
        more = cursor.next()?;
    }
    Ok(None)
}
