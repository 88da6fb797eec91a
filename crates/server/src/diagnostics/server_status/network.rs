//! `network`: bytes and requests, plain and as they went over the wire.

use fathom_wire::{Compressor, DocumentWriter};

use super::Context;
use crate::Result;
use crate::diagnostics::build::counter;
use crate::diagnostics::counters::Counter;
use crate::instance::Instance;

/// `network`. A compressor that is not configured is not listed.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn network(context: &Context<'_>, name: &str, writer: &mut DocumentWriter<'_>) -> Result<()> {
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
        let of = counters.of(compressor);
        let mut one = compression.begin_document(name);
        both_ways(&mut one, "compressor", &of.compressor_in, &of.compressor_out);
        both_ways(&mut one, "decompressor", &of.decompressor_in, &of.decompressor_out);
    }
    compression.end();
    executor(context.instance, &mut section);
    Ok(())
}

/// Who runs operations: threads for connections and those of event loops, and what the loops have done.
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
