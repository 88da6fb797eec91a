//! The sections of `serverStatus` on storage: the engine's statistics (its own section, `storageEngine`) and this server's own (`fathom`). Also the
//! sections on a shard's cluster and the cost of moving chunks (`sharding`, `shardingStatistics`; shard-serverStatus-sharding.json), which a server
//! that is not a shard lacks.

use fathom_wire::DocumentWriter;

use super::process::SectionSources;
use crate::Result;
use crate::stats::output::{counter, number, statistics};
use crate::storage::{TicketHistory, Tickets};

/// The size above which a chunk should be split, the default of `config.settings`.
const CHUNK_BYTES: i64 = 64 << 20;

/// `wiredTiger`, `rocksdb`: the engine's counters, and the tickets; the section of another engine is empty.
pub(super) fn engine(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
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

#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn storage_engine(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let engine = &context.instance.engine;
    let persistent = context.instance.directory.is_some();
    let mut section = writer.begin_document(name);
    section.string("name", engine.name());
    // On a standalone server a commit here is a majority commit.
    section.bool("supportsCommittedReads", true);
    section.bool("supportsSnapshotReadConcern", false);
    section.bool("readOnly", false);
    section.bool("persistent", persistent);
    Ok(())
}

/// `fathom`: the number of journal syncs, the time that operations waited for them, for locks and for tickets, and the duration of
/// checkpoints. Times in milliseconds.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn fathom(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let instance = context.instance;
    let mut section = writer.begin_document(name);
    section.string("version", env!("CARGO_PKG_VERSION"));
    section.string("engineVersion", &instance.engine.version());
    let counts = instance.journal.counts();
    let mut journal = section.begin_document("journal");
    counter(&mut journal, "syncs", counts.syncs);
    counter(&mut journal, "waits", counts.waits);
    counter(&mut journal, "totalWaitMicros", counts.waited_us);
    journal.end();
    let waited = instance.catalog.lock_waits().total();
    let tickets = [instance.read_tickets.history(), instance.write_tickets.history()];
    let of_tickets = |figure: fn(&TicketHistory) -> u64| tickets.iter().map(figure).sum();
    for (name, waits, waited_us) in [
        ("locks", waited.count, waited.total_us),
        ("tickets", of_tickets(|one| one.waited), of_tickets(|one| one.waited_micros)),
    ] {
        let mut one = section.begin_document(name);
        counter(&mut one, "waits", waits);
        counter(&mut one, "totalWaitMicros", waited_us);
    }
    let figures = instance.checkpoint_figures();
    let mut checkpoints = section.begin_document("checkpoints");
    counter(&mut checkpoints, "count", figures.count);
    counter(&mut checkpoints, "lastMillis", figures.last_ms);
    counter(&mut checkpoints, "totalMillis", figures.total_ms);
    Ok(())
}

pub(super) fn sharding(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let Some(identity) = context.instance.sharding.identity(context.instance)? else { return Ok(()) };
    let mut section = writer.begin_document(name);
    section.string("configsvrConnectionString", &identity.config.hosts().to_string());
    section.i64("maxChunkSizeInBytes", CHUNK_BYTES);
    Ok(())
}

pub(super) fn sharding_statistics(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    if context.instance.sharding.identity(context.instance)?.is_none() {
        return Ok(());
    }
    let figures = &context.instance.sharding.figures;
    let mut section = writer.begin_document(name);
    for (name, value) in [
        ("countStaleConfigErrors", &figures.stale),
        ("countDonorMoveChunkStarted", &figures.moves),
        ("totalDonorChunkCloneTimeMillis", &figures.copying_ms),
        ("totalCriticalSectionCommitTimeMillis", &figures.committing_ms),
        ("totalCriticalSectionTimeMillis", &figures.shut_ms),
    ] {
        counter(&mut section, name, value.get());
    }
    Ok(())
}
