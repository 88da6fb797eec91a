//! Writes statistics as BSON, with numbers in mongod's types.

use bson::Document;
use fathom_engine::{Statistic, Statistics};
use fathom_query::{Code, Failure};
use fathom_wire::DocumentWriter;

use crate::Result;

/// A whole number as mongod writes its counters: an int if it fits, otherwise a long.
pub(crate) fn number(writer: &mut DocumentWriter<'_>, name: &str, value: i64) {
    match i32::try_from(value) {
        Ok(value) => writer.i32(name, value),
        Err(_) => writer.i64(name, value),
    }
}

/// A counter, always a long, so that its type does not change over time.
pub(crate) fn counter(writer: &mut DocumentWriter<'_>, name: &str, value: u64) {
    writer.i64(name, signed(value));
}

/// A count as a BSON integer.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A count of items in memory as a BSON integer.
pub(crate) fn length(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// One document for each section of an engine's counters, by name. Counters without a section are written directly into `writer`.
pub(crate) fn statistics(writer: &mut DocumentWriter<'_>, statistics: &Statistics) {
    // Costs only one comparison each if they are in order already, as WiredTiger's are.
    let mut all: Vec<Statistic<'_>> = statistics.iter().collect();
    all.sort_by(|one, other| one.section.cmp(other.section));
    let mut rest = all.as_slice();
    while let Some(first) = rest.first() {
        let length = rest.iter().take_while(|one| one.section == first.section).count();
        let (section, after) = rest.split_at(length);
        if first.section.is_empty() {
            section.iter().for_each(|one| number(writer, one.name, one.value));
        } else {
            let mut inner = writer.begin_document(first.section);
            section.iter().for_each(|one| number(&mut inner, one.name, one.value));
        }
        rest = after;
    }
}

/// The output of `write` as a document.
pub(crate) fn document(write: impl FnOnce(&mut DocumentWriter<'_>) -> Result<()>) -> Result<Document> {
    let mut bytes = Vec::with_capacity(4096);
    let mut writer = DocumentWriter::new(&mut bytes);
    write(&mut writer)?;
    writer.end();
    Document::from_reader(bytes.as_slice()).map_err(|error| {
        Failure::new(Code::InternalError, format!("a document of statistics is not BSON: {error}"))
    })
}
