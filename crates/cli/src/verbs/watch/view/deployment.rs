//! The watched deployment and its present state: the servers with their roles, lag, commit point and shares of shards, changes to them,
//! and the block devices under their data.

use fathom_monitor::state_name;
use fathom_record::disk::Entry;
use fathom_record::{ServerEvent, ServerEventKind};
use serde::Serialize;

use super::reading::{EvidenceView, MemberCondition, SECOND_NS};

/// The number of changes that are shown, which are the newest.
const MAX_CHANGES: usize = 3;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MemberView {
    pub(crate) number: String,
    pub(crate) address: Option<String>,
    pub(crate) role: Option<String>,
    pub(crate) engine: Option<String>,
    pub(crate) version: Option<String>,
    /// Whether it answered; `None` before the first request, and while the answer is late.
    pub(crate) is_up: Option<bool>,
    /// Whether it answers now; `None` before the first request.
    pub(crate) condition: Option<MemberCondition>,
    pub(crate) lag_ms: Option<f64>,
    /// The set and the shard that it belongs to.
    pub(crate) set: Option<String>,
    pub(crate) shard: Option<String>,
    /// Entries that its journal lacks of the primary's newest write.
    pub(crate) behind: Option<f64>,
    /// For a primary: entries that a majority does not have yet.
    pub(crate) uncommitted: Option<f64>,
    /// The time from the oldest entry of its oplog to the newest.
    pub(crate) oplog_s: Option<f64>,
    /// Reads and writes of clients a second; for a member that follows, entries that it applies.
    pub(crate) operations_per_s: Option<f64>,
    /// For a shard's primary: chunks of the collection watched, and its share of the operations, 0 to 1.
    pub(crate) chunks: Option<f64>,
    pub(crate) operations_share: Option<f64>,
    /// The devices under its data with commas between, and the time of a write at the slowest of them, if it runs on this host.
    pub(crate) device: Option<String>,
    pub(crate) device_write_ms: Option<f64>,
    /// Those of the devices under its data that have figures.
    #[serde(skip)]
    pub(crate) devices: Vec<String>,
}

/// All members; `devices` are those that are watched.
pub(super) fn members(look: EvidenceView<'_>, devices: &[DeviceFigures]) -> Vec<MemberView> {
    let mut members: Vec<MemberView> =
        look.evidence.members().into_iter().map(|number| member(look, number, devices)).collect();
    let of_shards = |one: &MemberView| one.operations_per_s.filter(|_| one.shard.is_some() && !one.follows());
    let all: f64 = members.iter().filter_map(of_shards).sum();
    for one in &mut members {
        one.operations_share = of_shards(one).filter(|_| all > 0.0).map(|own| own / all);
    }
    members
}

/// The newest changes of members' states and of servers' reachability, the last one last.
pub(super) fn changes(look: EvidenceView<'_>) -> Vec<String> {
    let told = look.evidence.results.iter().filter_map(|entry| match entry {
        Entry::ServerEvent(ServerEvent { kind: ServerEventKind::Member, at_ns, line, .. }) => {
            Some(format!("{} s: {line}", at_ns / SECOND_NS))
        }
        _ => None,
    });
    let mut told: Vec<String> = told.collect();
    told.split_off(told.len().saturating_sub(MAX_CHANGES))
}

/// Whether a server currently copies from another and no client reads from it: its operations are then those of monitoring itself, and of
/// other members that copy from it.
pub(super) fn follows(look: EvidenceView<'_>, number: &str) -> bool {
    const MAX_MONITORING_PER_S: f64 = 3.0;
    let state = look.last(&format!("server.{number}.replication.state"));
    let read = look.rate(&format!("server.{number}.collection.reads.operations"));
    state.is_some_and(|state| state_name(state) != "primary")
        && read.is_none_or(|rate| rate <= MAX_MONITORING_PER_S)
}

impl MemberView {
    /// The word for a server that is not read now.
    pub(crate) fn alarm(&self) -> Option<&'static str> {
        self.condition.and_then(MemberCondition::alarm)
    }

    fn follows(&self) -> bool {
        self.set.is_some() && self.role.as_deref() != Some("primary")
    }
}

fn member(look: EvidenceView<'_>, number: String, devices: &[DeviceFigures]) -> MemberView {
    let fact = |what: &str| look.fact(&format!("server.{number}{what}")).map(str::to_owned);
    let series = |what: &str| format!("server.{number}.{what}");
    // The present role takes precedence over that at the start.
    let role = look.last(&series("replication.state")).map(|state| state_name(state).to_owned());
    let rate = |names: [&str; 2]| {
        let rates: Vec<f64> = names.iter().filter_map(|name| look.rate(&series(name))).collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>())
    };
    let operations_per_s = match follows(look, &number) {
        true => look.rate(&series("replication.applied")),
        false => rate(["reads.operations", "writes.operations"]),
    };
    let condition = look.condition(&number);
    let device = fact(".device");
    // A device that the kernel does not count has no figures, but the devices below it do.
    let leaves = fact(".device.leaves");
    let of_devices = [&device, &leaves].map(|names| figures_of(names.as_deref(), devices));
    let of_devices = of_devices.into_iter().flatten().next().unwrap_or_default();
    MemberView {
        address: fact(""),
        role: role.or_else(|| fact(".role")),
        engine: fact(".engine"),
        version: fact(".version"),
        is_up: condition
            .filter(|condition| *condition != MemberCondition::Stalled)
            .map(|condition| condition == MemberCondition::Up),
        condition,
        lag_ms: look.last(&series("replication.lag_ms")),
        set: fact(".set"),
        shard: fact(".shard"),
        behind: look.level(&series("replication.behind")),
        uncommitted: look.level(&series("replication.uncommitted")),
        oplog_s: look.last(&series("replication.oplog_s")),
        operations_per_s,
        chunks: look.last(&series("sharding.chunks")),
        operations_share: None,
        device_write_ms: of_devices.iter().filter_map(|one| one.write_ms).max_by(f64::total_cmp),
        devices: of_devices.iter().map(|one| one.name.clone()).collect(),
        device,
        number,
    }
}

/// The figures of these devices (with commas between); `None` if one of them has none.
fn figures_of<'d>(names: Option<&str>, devices: &'d [DeviceFigures]) -> Option<Vec<&'d DeviceFigures>> {
    names?.split(',').map(|name| devices.iter().find(|one| one.name == name)).collect()
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DeviceFigures {
    pub(crate) name: String,
    /// Mean times of requests, in milliseconds; `None` without requests.
    pub(crate) read_ms: Option<f64>,
    pub(crate) write_ms: Option<f64>,
    pub(crate) flush_ms: Option<f64>,
    pub(crate) per_s: f64,
    pub(crate) read_bytes_per_s: f64,
    pub(crate) written_bytes_per_s: f64,
    pub(crate) in_flight: Option<f64>,
}

/// Every device that is watched.
pub(super) fn devices(look: EvidenceView<'_>) -> Vec<DeviceFigures> {
    let device = |name: String| {
        let of = |what: &str| format!("device.{name}.{what}");
        let rate = |what: &str| look.rate(&of(what));
        let (reads, writes) = (rate("reads")?, rate("writes")?);
        Some(DeviceFigures {
            read_ms: look.mean(&of("read_ms"), &of("reads")),
            write_ms: look.mean(&of("write_ms"), &of("writes")),
            flush_ms: look.mean(&of("flush_ms"), &of("flushes")),
            per_s: reads + writes + rate("flushes").unwrap_or(0.0),
            read_bytes_per_s: rate("read_bytes").unwrap_or(0.0),
            written_bytes_per_s: rate("written_bytes").unwrap_or(0.0),
            in_flight: look.level(&of("in_flight")),
            name,
        })
    };
    look.named("device.", ".reads").into_iter().filter_map(device).collect()
}

/// The share of time in which some task waited for a device; also used for the host's processors.
pub(super) fn pressure_share(look: EvidenceView<'_>, of: &str) -> Option<f64> {
    look.rate(&format!("host.pressure.{of}.some_us")).map(|us| us / 1e6)
}
