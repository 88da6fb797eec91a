//! Checks a collection through and through: every record is a document, and each index holds the keys of all records and no
//! others.
//!
//! The entries that the records should have and those that the index has are compared by sums over their hashes, in one
//! pass over each table in its order. Only where the sums differ are entries looked up one by one, to name what is wrong.
//! The caller holds the collection alone, so that all passes see the same.

mod blame;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use bson::Document;
use fathom_engine::Kind;
use fathom_query::IndexKeys;

use super::{Collection, Index, State};
use crate::Result;
use crate::operation::Operation;
use walk::walk;

/// What a check found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Records.
    pub(crate) records: i64,
    /// Bytes of BSON of the records.
    pub(crate) bytes: i64,
    /// Records that are no documents.
    pub(crate) invalid: i64,
    /// What was found of each index, by its name.
    pub(crate) indexes: BTreeMap<String, IndexReport>,
    pub(crate) warnings: Vec<String>,
    pub(crate) errors: Vec<String>,
    /// Entries that point to no record with that key, at most [`blame::MOST`] of an index.
    pub(crate) extra: Vec<Document>,
    /// Keys of records that the index has not.
    pub(crate) missing: Vec<Document>,
}

/// What was found of one index.
#[derive(Debug, Default)]
pub(crate) struct IndexReport {
    /// Entries.
    pub(crate) keys: i64,
    pub(crate) errors: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl Report {
    /// Whether all is as it should be.
    pub(crate) fn is_valid(&self) -> bool {
        self.errors.is_empty() && self.indexes.values().all(|index| index.errors.is_empty())
    }
}

/// A sum over entries that does not depend on their order.
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

/// Checks a collection that the caller holds alone; with `full` the engine checks its own structures too.
pub(crate) fn check(
    op: &Operation<'_>,
    collection: &Collection,
    state: &State,
    full: bool,
) -> Result<Report> {
    let mut report = Report::default();
    if full {
        verify(op, collection, state, &mut report)?;
    }
    let expected = check_records(op, collection, state, &mut report)?;
    for (index, expected) in state.indexes.iter().zip(expected) {
        check_index(op, collection, index, expected, &mut report)?;
    }
    Ok(report)
}

/// Lets the engine walk its own structures.
fn verify(op: &Operation<'_>, collection: &Collection, state: &State, report: &mut Report) -> Result<()> {
    // A cursor of our own would be in the engine's way.
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

/// Walks the records; what entries each index should have.
fn check_records(
    op: &Operation<'_>,
    collection: &Collection,
    state: &State,
    report: &mut Report,
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
    op: &Operation<'_>,
    collection: &Collection,
    index: &Index,
    expected: Sum,
    report: &mut Report,
) -> Result<()> {
    let mut found = Sum::default();
    walk(op, index.table(), &mut |key, value| {
        found.add(key.bytes().unwrap_or_default(), value);
        Ok(())
    })?;
    let (extra, missing) = (report.extra.len(), report.missing.len());
    if found != expected {
        blame::extra_entries(op, collection, index, report)?;
        blame::missing_entries(op, collection, index, report)?;
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
