//! Statistics of one collection: `collStats` and the stages that show parts of it.
//!
//! Sizes of tables are the engine's own: WiredTiger's file size, RocksDB's estimate of what its files hold.

use fathom_engine::{Engine, Table};
use fathom_wire::DocumentWriter;

use super::{Collection, CollectionState};
use crate::Result;
use crate::request::OperationClass;
use crate::stats::output::{length, number, signed, statistics};
use crate::stats::{LatencyHistogram, Usage};

/// `size`, `count`, the engine's section, the indexes, and so on. Sizes are divided by `scale`.
pub(crate) fn write(
    engine: &dyn Engine,
    collection: &Collection,
    scale: i64,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let state = collection.lock();
    let table = collection.records_table()?;
    let (records, bytes) = (collection.records(), collection.bytes());
    let storage = signed(engine.size_on_disk(table)?);
    number(writer, "size", bytes / scale);
    number(writer, "count", records);
    if let Some(average) = bytes.checked_div(records) {
        number(writer, "avgObjSize", average);
    }
    number(writer, "storageSize", storage / scale);
    number(writer, "freeStorageSize", signed(engine.free_bytes(table)?) / scale);
    write_capped(writer, &state, scale);
    let mut section = writer.begin_document(engine.name());
    write_table(engine, table, None, &mut section)?;
    section.end();
    write_indexes(engine, &state, scale, storage, writer)
}

/// `collStats` of a collection that does not exist, as mongod 4.0 answers it.
pub(crate) fn write_missing(writer: &mut DocumentWriter<'_>, scale: i64) {
    for name in ["size", "count", "storageSize", "totalSize", "nindexes", "totalIndexSize"] {
        number(writer, name, 0);
    }
    writer.begin_document("indexDetails").end();
    writer.begin_document("indexSizes").end();
    number(writer, "scaleFactor", scale);
}

fn write_capped(writer: &mut DocumentWriter<'_>, state: &CollectionState, scale: i64) {
    let options = &state.options;
    writer.bool("capped", options.is_capped());
    if options.is_capped() {
        // mongod gives -1 if the number of documents is not limited.
        number(writer, "max", options.capped_documents().unwrap_or(-1));
        number(writer, "maxSize", options.capped_bytes().unwrap_or(0) / scale);
    }
}

fn write_indexes(
    engine: &dyn Engine,
    state: &CollectionState,
    scale: i64,
    storage: i64,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    number(writer, "nindexes", length(state.indexes.len()));
    let mut details = writer.begin_document("indexDetails");
    for index in &state.indexes {
        let mut one = details.begin_document(index.name());
        let about = index.spec().document().to_string();
        write_table(engine, index.table(), Some(&about), &mut one)?;
    }
    details.end();
    writer.begin_array("indexBuilds").end();
    let mut total = 0;
    let mut sizes = Vec::with_capacity(state.indexes.len());
    for index in &state.indexes {
        let bytes = signed(engine.size_on_disk(index.table())?);
        total += bytes;
        sizes.push((index.name(), bytes));
    }
    number(writer, "totalIndexSize", total / scale);
    number(writer, "totalSize", (storage + total) / scale);
    let mut each = writer.begin_document("indexSizes");
    sizes.iter().for_each(|(name, bytes)| number(&mut each, name, bytes / scale));
    each.end();
    number(writer, "scaleFactor", scale);
    Ok(())
}

/// One table: its creation options, and the engine's counters.
fn write_table(
    engine: &dyn Engine,
    table: &Table,
    about: Option<&str>,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let metadata = engine.table_metadata(table)?;
    let mut own = writer.begin_document("metadata");
    for (name, value) in app_metadata(&metadata.creation) {
        match value.parse() {
            Ok(value) => number(&mut own, name, value),
            Err(_) => own.string(name, value),
        }
    }
    if let Some(about) = about {
        own.string("infoObj", about);
    }
    own.end();
    writer.string("creationString", &metadata.creation);
    if let Some(kind) = setting(&metadata.creation, "type") {
        writer.string("type", kind);
    }
    writer.string("uri", &format!("statistics:{}", metadata.uri));
    statistics(writer, &engine.table_statistics(table)?);
    Ok(())
}

/// The pairs within `app_metadata=(...)` of a creation string.
fn app_metadata(creation: &str) -> impl Iterator<Item = (&str, &str)> {
    let inner = creation.split_once("app_metadata=(").and_then(|(_, rest)| rest.split_once(')'));
    inner.map_or("", |(inner, _)| inner).split(',').filter_map(|pair| pair.split_once('='))
}

/// A top-level setting of a creation string.
fn setting<'c>(creation: &'c str, name: &str) -> Option<&'c str> {
    let mut depth = 0;
    let outer = creation.split(move |byte: char| {
        match byte {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        byte == ',' && depth == 0
    });
    outer.filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// `latencyStats`: reads, writes, commands, and the transactions that this server does not have.
pub(crate) fn write_latencies(usage: &Usage, histograms: bool, writer: &mut DocumentWriter<'_>) {
    write_latency(usage.latency(OperationClass::Read), "reads", histograms, writer);
    write_latency(usage.latency(OperationClass::Write), "writes", histograms, writer);
    write_latency(usage.latency(OperationClass::Command), "commands", histograms, writer);
    write_latency(&LatencyHistogram::default(), "transactions", histograms, writer);
}

/// One kind of latency: the buckets if wanted, the sum in microseconds, the number of operations.
pub(crate) fn write_latency(
    latency: &LatencyHistogram,
    name: &str,
    histogram: bool,
    writer: &mut DocumentWriter<'_>,
) {
    let mut own = writer.begin_document(name);
    if histogram {
        let mut buckets = own.begin_array("histogram");
        for (micros, count) in latency.buckets() {
            let mut bucket = buckets.begin_document();
            bucket.i64("micros", signed(micros));
            bucket.i64("count", signed(count));
        }
    }
    let (sum, operations) = latency.totals();
    own.i64("latency", signed(sum));
    own.i64("ops", signed(operations));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creation_strings_are_read() {
        let creation = "access_pattern_hint=none,app_metadata=(formatVersion=8,infoObj=x),log=(enabled=true,type=no),type=file,uri=";
        assert_eq!(app_metadata(creation).collect::<Vec<_>>(), [("formatVersion", "8"), ("infoObj", "x")]);
        assert_eq!(setting(creation, "type"), Some("file"));
        assert_eq!(setting(creation, "enabled"), None);
        assert_eq!(app_metadata("").count(), 0);
    }
}
