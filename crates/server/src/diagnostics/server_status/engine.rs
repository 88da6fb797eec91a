//! The engine's own section, and `storageEngine`.

use fathom_wire::DocumentWriter;

use super::Context;
use crate::Result;
use crate::diagnostics::build::{number, statistics};
use crate::storage::Tickets;

/// `wiredTiger`, `rocksdb`: the engine's counters, and the tickets; nothing under the name of another engine.
pub(super) fn engine(context: &Context<'_>, name: &str, writer: &mut DocumentWriter<'_>) -> Result<()> {
    let instance = context.instance;
    if instance.engine.name() != name {
        return Ok(());
    }
    let all = instance.engine.statistics()?;
    let mut section = writer.begin_document(name);
    if name == "wiredTiger" {
        section.string("uri", "statistics:");
    }
    statistics(&mut section, &all);
    let mut tickets = section.begin_document("concurrentTransactions");
    write_tickets(&mut tickets, "write", &instance.write_tickets);
    write_tickets(&mut tickets, "read", &instance.read_tickets);
    Ok(())
}

fn write_tickets(writer: &mut DocumentWriter<'_>, name: &str, tickets: &Tickets) {
    let counts = tickets.counts();
    let mut one = writer.begin_document(name);
    number(&mut one, "out", counts.out);
    number(&mut one, "available", counts.available);
    number(&mut one, "totalTickets", counts.total);
}

/// `storageEngine`.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn storage_engine(
    context: &Context<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let engine = &context.instance.engine;
    let persistent = context.instance.directory.is_some();
    let mut section = writer.begin_document(name);
    section.string("name", engine.name());
    // Without a set, what is committed here is what the majority has.
    section.bool("supportsCommittedReads", true);
    section.bool("supportsSnapshotReadConcern", false);
    section.bool("readOnly", false);
    section.bool("persistent", persistent);
    Ok(())
}
