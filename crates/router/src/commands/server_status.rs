//! The command `serverStatus` of a router (mongos-serverStatus.json).

use std::sync::atomic::Ordering;

use bson::{DateTime, doc};
use fathom_service::{Counter, ProcessFigures};
use fathom_wire::Compressor;

use super::Reply;
use crate::Result;
use crate::instance::{Instance, RouterOperation};
use crate::request::{Request, SendKind};

const MIB: u64 = 1 << 20;
/// The size above which a chunk is moved in parts, the default in `config.settings`.
const CHUNK_BYTES: i64 = 64 << 20;

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn counted(reply: &mut Reply<'_>, name: &str, counter: &Counter) {
    reply.i64(name, whole(counter.get()));
}

#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn run(op: RouterOperation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let instance = op.instance;
    let process = ProcessFigures::read();
    head(instance, reply);
    let asserts = doc! {
        "regular": 0, "warning": 0, "msg": 0, "user": whole(instance.counters.user_asserts.get()), "rollovers": 0,
    };
    reply.bson("asserts", &asserts.into());
    let (current, created, rejected) = instance.clients.counts();
    let mut connections = reply.begin_document("connections");
    connections.i64("current", whole(current as u64));
    connections.i64("available", whole(instance.config.max_connections.saturating_sub(current) as u64));
    connections.i64("totalCreated", whole(created));
    connections.i64("rejected", whole(rejected));
    connections.end();
    let mut extra = reply.begin_document("extra_info");
    extra.string("note", "fields vary by platform");
    extra.i64("user_time_us", whole(process.user_micros));
    extra.i64("system_time_us", whole(process.system_micros));
    extra.i64("page_faults", whole(process.major_faults));
    extra.end();
    network(instance, reply);
    let counters = &instance.counters;
    let mut operations = reply.begin_document("opcounters");
    counted(&mut operations, "insert", &counters.inserts);
    counted(&mut operations, "query", &counters.queries);
    counted(&mut operations, "update", &counters.updates);
    counted(&mut operations, "delete", &counters.deletes);
    counted(&mut operations, "getmore", &counters.getmores);
    counted(&mut operations, "command", &counters.commands);
    operations.end();
    sharding(instance, reply);
    let mut memory = reply.begin_document("mem");
    memory.i32("bits", 64);
    memory.i64("resident", whole(process.resident_bytes / MIB));
    memory.i64("virtual", whole(process.virtual_bytes / MIB));
    memory.bool("supported", true);
    memory.end();
    metrics(instance, reply);
    own(instance, reply);
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "seconds that a process lives are exact as a double")]
fn head(instance: &Instance, reply: &mut Reply<'_>) {
    let uptime = instance.started.elapsed();
    reply.string("host", &instance.name());
    reply.string("version", &instance.config.claimed_version);
    // Tools read this field to tell a mongod from a mongos.
    reply.string("process", "mongos");
    reply.i64("pid", i64::from(std::process::id()));
    reply.f64("uptime", uptime.as_secs() as f64);
    reply.i64("uptimeMillis", i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX));
    reply.i64("uptimeEstimate", whole(uptime.as_secs()));
    reply.date_time("localTime", DateTime::now());
}

fn network(instance: &Instance, reply: &mut Reply<'_>) {
    let traffic = &instance.counters.traffic;
    let mut section = reply.begin_document("network");
    counted(&mut section, "bytesIn", &traffic.bytes_in);
    counted(&mut section, "bytesOut", &traffic.bytes_out);
    counted(&mut section, "physicalBytesIn", &traffic.physical_in);
    counted(&mut section, "physicalBytesOut", &traffic.physical_out);
    counted(&mut section, "numRequests", &traffic.requests);
    let mut compression = section.begin_document("compression");
    for (name, compressor) in
        [("snappy", Compressor::Snappy), ("zstd", Compressor::Zstd), ("zlib", Compressor::Zlib)]
    {
        if !instance.config.compressors.iter().any(|one| one == name) {
            continue;
        }
        let of = traffic.for_compressor(compressor);
        let mut one = compression.begin_document(name);
        for (way, bytes_in, bytes_out) in [
            ("compressor", &of.compressor_in, &of.compressor_out),
            ("decompressor", &of.decompressor_in, &of.decompressor_out),
        ] {
            let mut both = one.begin_document(way);
            counted(&mut both, "bytesIn", bytes_in);
            counted(&mut both, "bytesOut", bytes_out);
        }
    }
}

fn sharding(instance: &Instance, reply: &mut Reply<'_>) {
    let mut section = reply.begin_document("sharding");
    section.string("configsvrConnectionString", &instance.config.config_db.to_string());
    section.i64("maxChunkSizeInBytes", CHUNK_BYTES);
    section.end();
    let counters = &instance.catalog.counters;
    let (databases, collections) = instance.catalog.counts();
    let mut statistics = reply.begin_document("shardingStatistics");
    let mut cache = statistics.begin_document("catalogCache");
    cache.i64("numDatabaseEntries", whole(databases as u64));
    cache.i64("numCollectionEntries", whole(collections as u64));
    for (name, counter) in [
        ("countStaleConfigErrors", &counters.stale_errors),
        ("totalRefreshWaitTimeMicros", &counters.refresh_micros),
        ("countFullRefreshesStarted", &counters.refreshes),
        ("countFailedRefreshes", &counters.failed),
    ] {
        cache.i64(name, whole(counter.load(Ordering::Relaxed)));
    }
}

/// The section that only this router has: how long operations took here, how much of that time they waited for shards, and how many
/// of them asked one shard or several. Times in microseconds. Relayed queries are those that needed no thread of their own.
fn own(instance: &Instance, reply: &mut Reply<'_>) {
    let mut section = reply.begin_document("fathom");
    section.string("version", env!("CARGO_PKG_VERSION"));
    let mut latencies = section.begin_document("opLatencies");
    for (name, kind) in
        [("reads", SendKind::Read), ("writes", SendKind::Write), ("commands", SendKind::Admin)]
    {
        let times = instance.counters.times(kind);
        let mut one = latencies.begin_document(name);
        counted(&mut one, "latency", &times.took_us);
        counted(&mut one, "ops", &times.operations);
        counted(&mut one, "waitedForShards", &times.waited_us);
        counted(&mut one, "oneShard", &times.one_shard);
        counted(&mut one, "manyShards", &times.several_shards);
    }
    latencies.end();
    counted(&mut section, "relayedQueries", &instance.counters.relayed);
}

fn metrics(instance: &Instance, reply: &mut Reply<'_>) {
    let (single, multi, pinned) = instance.cursors.counts();
    let mut metrics = reply.begin_document("metrics");
    let mut commands = metrics.begin_document("commands");
    instance.counters.each.write(instance.commands, &mut commands);
    commands.end();
    let mut cursor = metrics.begin_document("cursor");
    let mut open = cursor.begin_document("open");
    open.i64("multiTarget", whole(multi as u64));
    open.i64("singleTarget", whole(single as u64));
    open.i64("pinned", whole(pinned as u64));
    open.i64("total", whole((single + multi) as u64));
}
