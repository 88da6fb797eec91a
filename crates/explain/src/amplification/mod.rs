//! The bytes written and read for each byte of a user, level by level, and a comparison of the servers of a run
//! (docs/methods.md#amplification).
//!
//! Only the devices at the bottom count: adding those above them would count everything twice. Their counters include the I/O of all
//! programs. If the server's process asked for less than nine tenths, its own count is the last level, and the devices' totals are a note.

mod levels;

use fathom_record::members::MemberRow;

use self::levels::{sum, sums};
use crate::member::follows;
use crate::server_devices::leaves;
use crate::{Evidence, Judgement};

/// The series that amplification is computed from.
pub(crate) const NEEDS: &[&str] = &[
    "client.user_bytes",
    "server.{member}.network.in_bytes",
    "server.{member}.journal.written_bytes",
    "server.{member}.engine.written_bytes",
    "server.{member}.checkpoint.count",
    "device.{device}.written_bytes",
    "device.{device}.read_bytes",
    "server.{member}.process.written_bytes",
    "server.{member}.process.read_bytes",
    "server.{member}.storage.allocated_bytes",
];

/// Adds the amplification of each server, and a row for each server if there are several.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    let members = writers(evidence);
    judgement
        .amplifications
        .extend(members.iter().filter_map(|member| levels::amplification(evidence, member)));
    if members.len() > 1 {
        judgement.members.extend(member_rows(evidence));
    }
}

/// The requests of each server to its devices, also if there is only one server.
pub fn member_rows(evidence: &Evidence) -> Vec<MemberRow> {
    rows(evidence, &writers(evidence))
}

/// The servers with data: a router writes nothing.
fn writers(evidence: &Evidence) -> Vec<String> {
    let mut members = evidence.members();
    members.retain(|member| !crate::member::is_router(evidence, member));
    members
}

/// A member whose own operations are less than this share of the busiest member's mostly replicates: what it has are heartbeats and monitoring.
const MIN_OWN_OPERATIONS_SHARE: f64 = 0.01;

/// A row for each server.
fn rows(evidence: &Evidence, members: &[String]) -> Vec<MemberRow> {
    let busiest = members.iter().filter_map(|member| operations(evidence, member)).fold(0.0, f64::max);
    members.iter().map(|member| row(evidence, member, members, busiest)).collect()
}

/// Reads and writes that a server did for clients.
fn operations(evidence: &Evidence, member: &str) -> Option<f64> {
    let names = ["reads", "writes"].map(|kind| format!("server.{member}.{kind}.operations"));
    sums(evidence, &names, evidence.window_ns)
}

fn row(evidence: &Evidence, member: &str, members: &[String], busiest: f64) -> MemberRow {
    let window_ns = evidence.window_ns;
    let seconds = window_ns.1.saturating_sub(window_ns.0) as f64 / 1e9;
    let devices = leaves(evidence, member);
    let total = |counter: &str| {
        let names: Vec<String> = devices.iter().map(|device| format!("device.{device}.{counter}")).collect();
        sums(evidence, &names, window_ns)
    };
    let fact = |what: &str| evidence.environment.get(&format!("server.{member}.{what}")).cloned();
    let own = operations(evidence, member);
    let replicates = evidence.series.get(&format!("server.{member}.replication.state")).is_some();
    // A secondary writes what the primary did, so its bytes are compared with the primary's operations.
    let served = own
        .filter(|own| *own > MIN_OWN_OPERATIONS_SHARE * busiest || !replicates)
        .or(Some(busiest))
        .filter(|served| *served > 0.0);
    let positive = |value: Option<f64>| value.filter(|value| *value > 0.0);
    let over = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
    let per_s = |value: Option<f64>| value.filter(|_| seconds > 0.0).map(|value| value / seconds);
    let mean_us =
        |time: &str, requests: &str| over(total(time).map(|ms| ms * 1e3), positive(total(requests)));
    let shared = |device: &&String| {
        members.iter().any(|other| other != member && leaves(evidence, other).contains(device))
    };
    MemberRow {
        member: member.to_owned(),
        engine: fact("engine"),
        role: role(evidence, member),
        part_of: fact("shard").or_else(|| fact("set")),
        lag_ms: evidence.mean(&format!("server.{member}.replication.lag_ms")),
        oplog_s: evidence.mean(&format!("server.{member}.replication.oplog_s")),
        chunks: evidence.mean(&format!("server.{member}.sharding.chunks")),
        // A primary applies nothing.
        applied_per_s: per_s(sum(evidence, &format!("server.{member}.replication.applied"), window_ns))
            .filter(|_| follows(evidence, member)),
        operations_per_s: per_s(own),
        device_read_us: mean_us("read_ms", "reads"),
        device_write_us: mean_us("write_ms", "writes"),
        device_reads_per_s: per_s(total("reads")),
        device_writes_per_s: per_s(total("writes")),
        read_per_operation_bytes: over(total("read_bytes"), served),
        written_per_operation_bytes: over(total("written_bytes"), served),
        engine_written_per_operation_bytes: over(
            sum(evidence, &format!("server.{member}.engine.written_bytes"), window_ns),
            served,
        ),
        shared_devices: devices.iter().filter(shared).cloned().collect(),
    }
}

/// Its role; both roles of a member whose state changed.
fn role(evidence: &Evidence, member: &str) -> Option<String> {
    let first = evidence.environment.get(&format!("server.{member}.role")).cloned();
    let leads = evidence.series.get(&format!("server.{member}.replication.state")).map(|series| {
        let points = series.within(evidence.window_ns.0, evidence.window_ns.1);
        let leads = points.iter().filter(|point| point.value == crate::member::PRIMARY).count();
        (leads, points.len())
    });
    match leads {
        Some((leads, all)) if leads > 0 && leads < all => Some("both".to_owned()),
        Some((0, all)) if all > 0 => Some("secondary".to_owned()),
        Some((leads, _)) if leads > 0 => Some("primary".to_owned()),
        _ => first,
    }
}

#[cfg(test)]
mod tests;
