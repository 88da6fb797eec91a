//! The command `serverStatus`: one table of sections, each written straight from the counters into the reply.
//!
//! Sections have mongod 4.0's names, fields and nesting. Features that this server lacks (tcmalloc, free monitoring,
//! shards; a set if it is not a member) have no section, rather than one of invented numbers.

mod engine;
mod operations;
mod process;

use std::cell::OnceCell;

use bson::{RawBsonRef, RawDocument};
use fathom_wire::DocumentWriter;

use crate::Result;
use crate::instance::Instance;
use process::SectionSources;

/// A row of the table.
struct Section {
    name: &'static str,
    /// Whether the section is present without being requested.
    usual: bool,
    /// Writes it under its name, or nothing if this server lacks the feature.
    write: fn(&SectionSources<'_>, &str, &mut DocumentWriter<'_>) -> Result<()>,
}

const fn section(
    name: &'static str,
    write: fn(&SectionSources<'_>, &str, &mut DocumentWriter<'_>) -> Result<()>,
) -> Section {
    Section { name, usual: true, write }
}

/// The sections in the order of mongod's reply: by name, then `mem` and `metrics`.
static SECTIONS: &[Section] = &[
    section("asserts", operations::asserts),
    section("connections", process::connections),
    section("extra_info", process::extra_info),
    section("fathom", engine::fathom),
    section("globalLock", operations::global_lock),
    section("locks", operations::locks),
    section("logicalSessionRecordCache", process::sessions),
    section("network", process::network),
    section("opLatencies", operations::latencies),
    section("opcounters", operations::counters),
    section("opcountersRepl", operations::replicated),
    Section { name: "oplog", usual: false, write: operations::oplog },
    section("repl", operations::set),
    section("rocksdb", engine::engine),
    section("ephemeralForTest", engine::engine),
    section("sharding", engine::sharding),
    section("shardingStatistics", engine::sharding_statistics),
    section("storageEngine", engine::storage_engine),
    section("transactions", operations::transactions),
    section("wiredTiger", engine::engine),
    section("mem", process::memory),
    section("metrics", operations::metrics),
];

/// Writes the whole reply. A field of `options` with a section's name excludes it (0, false) or includes it (anything else).
pub(crate) fn write(
    instance: &Instance,
    options: &RawDocument,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let context = SectionSources { instance, options, process: OnceCell::new() };
    process::head(&context, writer);
    for section in SECTIONS {
        let wanted = match crate::parse::field(options, section.name) {
            None => section.usual,
            Some(RawBsonRef::Document(_)) => true,
            Some(value) => crate::parse::truth_of(value),
        };
        if wanted {
            (section.write)(&context, section.name, writer)?;
        }
    }
    Ok(())
}
