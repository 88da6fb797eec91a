//! `serverStatus`: one table of sections, each written straight from the counters into the reply.
//!
//! Sections have mongod 4.0's names, fields and nesting. What this server has not (tcmalloc, free monitoring,
//! shards; a set where it is no member) has no section, rather than one of invented numbers.

mod connections;
mod engine;
mod head;
mod metrics;
mod network;
mod operations;
mod own;
mod sharding;

use std::cell::OnceCell;

use bson::{RawBsonRef, RawDocument};
use fathom_wire::DocumentWriter;

use crate::Result;
use crate::instance::Instance;
use fathom_service::ProcessFigures;

/// What a section is written from.
pub(crate) struct Context<'a> {
    instance: &'a Instance,
    /// The command's fields: which sections, and their options.
    options: &'a RawDocument,
    process: OnceCell<ProcessFigures>,
}

impl Context<'_> {
    /// What the kernel says of the process; read once for one reply.
    fn process(&self) -> ProcessFigures {
        *self.process.get_or_init(ProcessFigures::read)
    }
}

/// A row of the table.
struct Section {
    name: &'static str,
    /// Whether it is there when nobody asks for it.
    usual: bool,
    /// Writes it under its name, or nothing if this server has not what it tells of.
    write: fn(&Context<'_>, &str, &mut DocumentWriter<'_>) -> Result<()>,
}

const fn section(
    name: &'static str,
    write: fn(&Context<'_>, &str, &mut DocumentWriter<'_>) -> Result<()>,
) -> Section {
    Section { name, usual: true, write }
}

/// The sections in the order of mongod's reply: by name, then `mem` and `metrics`.
static SECTIONS: &[Section] = &[
    section("asserts", operations::asserts),
    section("connections", connections::connections),
    section("extra_info", head::extra_info),
    section("fathom", own::fathom),
    section("globalLock", operations::global_lock),
    section("locks", operations::locks),
    section("logicalSessionRecordCache", connections::sessions),
    section("network", network::network),
    section("opLatencies", operations::latencies),
    section("opcounters", operations::counters),
    section("opcountersRepl", operations::replicated),
    Section { name: "oplog", usual: false, write: operations::oplog },
    section("repl", operations::set),
    section("rocksdb", engine::engine),
    section("ephemeralForTest", engine::engine),
    section("sharding", sharding::sharding),
    section("shardingStatistics", sharding::statistics),
    section("storageEngine", engine::storage_engine),
    section("transactions", operations::transactions),
    section("wiredTiger", engine::engine),
    section("mem", head::memory),
    section("metrics", metrics::metrics),
];

/// Writes the whole reply. A field of `options` with a section's name leaves it out (0, false) or takes it in (anything else).
pub(crate) fn write(
    instance: &Instance,
    options: &RawDocument,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let context = Context { instance, options, process: OnceCell::new() };
    head::head(&context, writer);
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
