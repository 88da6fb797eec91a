//! The head of `serverStatus`, and the sections on the process (`extra_info`, `mem`), its clients (`connections`,
//! `logicalSessionRecordCache`) and its traffic (`network`).

use std::cell::OnceCell;

use bson::{DateTime, RawDocument};
use fathom_service::ProcessFigures;
use fathom_wire::{Compressor, DocumentWriter};

use crate::Result;
use crate::instance::Instance;
use crate::stats::Counter;
use crate::stats::output::{counter, length, number, signed};

const MEBIBYTE: u64 = 1 << 20;

/// The sources of a section.
pub(super) struct SectionSources<'a> {
    pub(super) instance: &'a Instance,
    /// The command's fields: the requested sections, and their options.
    pub(super) options: &'a RawDocument,
    pub(super) process: OnceCell<ProcessFigures>,
}

impl SectionSources<'_> {
    /// The kernel's figures on the process, read once for one reply.
    pub(super) fn process(&self) -> ProcessFigures {
        *self.process.get_or_init(ProcessFigures::read)
    }
}

/// Writes the identity of the server and its uptime.
#[expect(clippy::cast_precision_loss, reason = "seconds that a process lives are exact as a double")]
pub(super) fn head(context: &SectionSources<'_>, writer: &mut DocumentWriter<'_>) {
    let instance = context.instance;
    let uptime = instance.started.elapsed();
    writer.string("host", &instance.host());
    writer.string("version", &instance.config.claimed_version);
    // Tools use this field to tell a mongod from a mongos.
    writer.string("process", "mongod");
    writer.i64("pid", i64::from(std::process::id()));
    writer.f64("uptime", uptime.as_secs() as f64);
    writer.i64("uptimeMillis", i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX));
    writer.i64("uptimeEstimate", signed(uptime.as_secs()));
    writer.date_time("localTime", DateTime::now());
}

/// `extra_info`: page faults and CPU time.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn extra_info(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let process = context.process();
    let mut section = writer.begin_document(name);
    section.string("note", "fields vary by platform");
    counter(&mut section, "user_time_us", process.user_micros);
    counter(&mut section, "system_time_us", process.system_micros);
    counter(&mut section, "page_reclaims", process.minor_faults);
    counter(&mut section, "page_faults", process.major_faults);
    Ok(())
}

/// `mem`, in MiB. Nothing is mapped: the engines read and write files.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn memory(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let process = context.process();
    let mut section = writer.begin_document(name);
    section.i32("bits", i32::try_from(usize::BITS).unwrap_or(0));
    number(&mut section, "resident", signed(process.resident_bytes / MEBIBYTE));
    number(&mut section, "virtual", signed(process.virtual_bytes / MEBIBYTE));
    section.bool("supported", true);
    section.i32("mapped", 0);
    section.i32("mappedWithJournal", 0);
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn connections(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let instance = context.instance;
    let (open, created, rejected) = instance.clients.counts();
    let active = instance.clients.active().len();
    let mut section = writer.begin_document(name);
    number(&mut section, "current", length(open));
    number(&mut section, "available", length(instance.config.net.max_connections.saturating_sub(open)));
    number(&mut section, "totalCreated", signed(created));
    number(&mut section, "rejected", signed(rejected));
    number(&mut section, "active", length(active));
    Ok(())
}

/// `logicalSessionRecordCache`: the recently used sessions. They are kept in memory only, so no jobs write them to
/// disk.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn sessions(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let active = context.instance.sessions.count(std::time::Instant::now());
    number(&mut writer.begin_document(name), "activeSessionsCount", length(active));
    Ok(())
}

/// `network`. A compressor that is not configured is not listed.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn network(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let counters = &context.instance.counters.network;
    let mut section = writer.begin_document(name);
    let totals = [
        ("bytesIn", &counters.bytes_in),
        ("bytesOut", &counters.bytes_out),
        ("physicalBytesIn", &counters.physical_in),
        ("physicalBytesOut", &counters.physical_out),
        ("numRequests", &counters.requests),
    ];
    totals.iter().for_each(|(name, value)| counter(&mut section, name, value.get()));
    let mut compression = section.begin_document("compression");
    for name in &context.instance.config.net.compressors {
        let compressor = match name.as_str() {
            "snappy" => Compressor::Snappy,
            "zlib" => Compressor::Zlib,
            "zstd" => Compressor::Zstd,
            _ => continue,
        };
        let of = counters.for_compressor(compressor);
        let mut one = compression.begin_document(name);
        both_ways(&mut one, "compressor", &of.compressor_in, &of.compressor_out);
        both_ways(&mut one, "decompressor", &of.decompressor_in, &of.decompressor_out);
    }
    compression.end();
    executor(context.instance, &mut section);
    Ok(())
}

/// The executor: threads for connections, threads of event loops, and the loops' counters.
fn executor(instance: &Instance, section: &mut DocumentWriter<'_>) {
    let executor = &instance.executor;
    let (open, ..) = instance.clients.counts();
    let threads = open.saturating_sub(executor.connections()) + executor.busy_loops();
    let mut stats = section.begin_document("serviceExecutorTaskStats");
    stats.string("executor", instance.config.net.service_executor.as_str());
    stats.i32("threadsRunning", i32::try_from(threads).unwrap_or(i32::MAX));
    counter(&mut stats, "connectionsInEventLoops", executor.connections() as u64);
    counter(&mut stats, "operationsInEventLoops", executor.executed.get());
    counter(&mut stats, "eventLoopsDissolved", executor.dissolved.get());
}

fn both_ways(writer: &mut DocumentWriter<'_>, name: &str, bytes_in: &Counter, bytes_out: &Counter) {
    let mut one = writer.begin_document(name);
    counter(&mut one, "bytesIn", bytes_in.get());
    counter(&mut one, "bytesOut", bytes_out.get());
}
