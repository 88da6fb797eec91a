//! Names the entries of an index that do not agree with the records.

use bson::{Bson, Document, doc};
use fathom_engine::Key;
use fathom_query::{IndexKeys, KeyString};

use super::Report;
use super::walk::walk;
use crate::Result;
use crate::operation::Operation;
use crate::storage::{Collection, Index};

/// Entries of each kind that are named for an index.
pub(super) const MOST: usize = 100;

/// Entries that no record has.
pub(super) fn extra_entries(
    op: &Operation<'_>,
    collection: &Collection,
    index: &Index,
    report: &mut Report,
) -> Result<()> {
    let table = collection.records_table()?;
    let session = op.session();
    let mut buffer = Vec::new();
    let mut keys = IndexKeys::default();
    let mut named = 0;
    walk(op, index.table(), &mut |key, value| {
        if named >= MOST {
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

/// Keys of records that the index has not.
pub(super) fn missing_entries(
    op: &Operation<'_>,
    collection: &Collection,
    index: &Index,
    report: &mut Report,
) -> Result<()> {
    let session = op.session();
    let mut held = Vec::new();
    let mut keys = IndexKeys::default();
    let mut named = 0;
    walk(op, collection.records_table()?, &mut |key, value| {
        let record = key.number().unwrap_or_default();
        let Ok(document) = fathom_wire::validate_document(value) else { return Ok(()) };
        if named >= MOST || index.keys(document, &mut keys).is_err() {
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
