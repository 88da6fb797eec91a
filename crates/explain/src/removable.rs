//! The parts of the mean operation that could go: each layer's time less the time of one access on storage of its class.
//!
//! An operation's own processor time, an idle round trip and one access to an idle device are not caused by anything, so they are subtracted first.
//! The rest of a layer is the time that a limit, a queue, a shortage, a neighbour or a slow device adds.

use fathom_record::budget::Budget;
use fathom_record::verdict::MIN_COST_SHARE;

use crate::Evidence;
use crate::cost::BudgetLoad;
use crate::guard::{MAX_SHORT_IDLE_PCT, followers_under_quota, is_under_quota};
use crate::memory::ServerMemory;
use crate::path::is_over_loopback;
use crate::storage_class::{
    CACHED_READ_US, READ_US, ROUND_TRIP_US, SEND_US, SYNC_US, WAKE_US, WAKES_OF_REPLICATION, WAKES_OF_SYNC,
};

/// The place in which an operation waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For a connection of its client, before it is sent.
    Connection,
    /// To be sent, although connections are free most of the time: behind something that stops at times.
    Stop,
    /// For the way to the server and back.
    RoundTrip,
    /// For the client's own processors, or for a proxy on the load's path.
    Client,
    /// For a processor, at the server.
    Processor,
    Ticket,
    Lock,
    /// For another write of the same document, before the next try.
    Conflict,
    FlowControl,
    Replication,
    /// For pages to be read, more than one access each to an idle device.
    PageRead,
    /// For pages that the engine's cache would hold if it had the memory that is free.
    CacheMiss,
    /// To make room in the cache.
    Eviction,
    Journal,
}

impl Wait {
    /// All of them, from the client down.
    pub(crate) const ALL: [Wait; 14] = [
        Wait::Connection,
        Wait::Stop,
        Wait::RoundTrip,
        Wait::Client,
        Wait::Processor,
        Wait::Ticket,
        Wait::Lock,
        Wait::Conflict,
        Wait::FlowControl,
        Wait::Replication,
        Wait::PageRead,
        Wait::CacheMiss,
        Wait::Eviction,
        Wait::Journal,
    ];

    /// The object of "waits for".
    pub(crate) fn words(self) -> &'static str {
        match self {
            Wait::Connection => "a free connection",
            Wait::Stop => "the end of stops",
            Wait::RoundTrip => "the network",
            Wait::Client => "its client",
            Wait::Processor => "a processor",
            Wait::Ticket => "a ticket",
            Wait::Lock => "a lock",
            Wait::Conflict => "other writes of the same documents",
            Wait::FlowControl => "flow control",
            Wait::Replication => "other members",
            Wait::PageRead => "pages to be read",
            Wait::CacheMiss => "pages that a larger cache would hold",
            Wait::Eviction => "room in the cache",
            Wait::Journal => "the journal",
        }
    }

    /// The layer of the budget that contains it. Servers that count it do so as `wait.{layer}_us`.
    pub(crate) fn layer(self) -> &'static str {
        match self {
            Wait::Connection | Wait::Stop => "schedule",
            Wait::RoundTrip | Wait::Client => "network",
            Wait::Processor => "engine",
            Wait::Ticket => "ticket",
            Wait::Lock => "lock",
            Wait::Conflict => "write_conflict",
            Wait::FlowControl => "flow_control",
            Wait::Replication => "replication",
            Wait::PageRead | Wait::CacheMiss => "page_read",
            Wait::Eviction => "evict",
            Wait::Journal => "journal",
        }
    }
}

/// A part of the mean operation that could go, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RemovableTime {
    pub(crate) wait: Wait,
    pub(crate) us: f64,
    pub(crate) interval_us: (f64, f64),
    /// The device's own time, which remains without a wait above the device. `None` if the device was not read.
    pub(crate) device_us: Option<f64>,
    /// The measured time in which threads wait for a processor around a sync, beyond their class. It remains without a wait above the device.
    pub(crate) wakes_us: f64,
    /// The time that threads wait for a processor while processors are short. `None` if the device's time is unknown.
    pub(crate) processor_us: Option<f64>,
}

/// The parts of a budget that could go, from the client down. `budgets` are all budgets of the run; the one of the server's writes gives the share
/// of all operations that write.
pub(crate) fn removable(
    evidence: &Evidence,
    budgets: &[Budget],
    budget: &Budget,
    load: &BudgetLoad,
) -> Vec<RemovableTime> {
    let written = budgets.iter().find(|one| one.member == budget.member && one.operations == "writes");
    let writes = match budget.operations.as_str() {
        "reads" => 0.0,
        "writes" => 1.0,
        _ => written.map_or(0.0, |one| (one.count / budget.count.max(1.0)).min(1.0)),
    };
    Wait::ALL.into_iter().filter_map(|wait| part(evidence, budget, load, writes, wait)).collect()
}

/// The removable part of one wait. `writes` is the share of the operations that write.
fn part(
    evidence: &Evidence,
    budget: &Budget,
    load: &BudgetLoad,
    writes: f64,
    wait: Wait,
) -> Option<RemovableTime> {
    let layer = budget.layers.iter().find(|layer| layer.name == wait.layer())?;
    let within = |name: &str| layer.within.iter().find(|part| part.name == name).map(|part| part.mean_us);
    let (whole_us, off_us) = match wait {
        // The time of a ping over the loopback interface is the time in which threads wake up.
        Wait::RoundTrip if is_over_loopback(evidence, &budget.member) => return None,
        Wait::RoundTrip => (within("ping")?, ROUND_TRIP_US),
        Wait::Client => (within("client and parse")?, 0.0),
        // The process's counter includes the waits of replication threads.
        Wait::Processor if is_in_set(evidence, &budget.member) && !are_processors_short(evidence, budget) => {
            return None;
        }
        Wait::Processor => (waited_for_processor_us(evidence, budget)?.min(layer.mean_us), WAKE_US),
        Wait::PageRead => (layer.mean_us, one_access_each_us(evidence, budget)),
        Wait::CacheMiss => {
            ServerMemory::from_evidence(evidence, &budget.member).filter(ServerMemory::holds_data)?;
            let access_us = one_access_each_us(evidence, budget);
            // A device that is slower than its class comes first; for a faster one the reads are no second cause.
            let is_slow = layer.mean_us - access_us >= MIN_COST_SHARE * load.whole_us;
            (layer.mean_us, if is_slow { access_us } else { 0.0 })
        }
        Wait::Journal => (layer.mean_us, (SYNC_US + WAKES_OF_SYNC * WAKE_US) * writes),
        Wait::Replication => {
            (layer.mean_us, (SYNC_US + ROUND_TRIP_US + wakes_of_replication_us(evidence, budget)) * writes)
        }
        Wait::Connection => (load.queue_us(), WAKE_US),
        Wait::Stop => (load.stop_us(), SEND_US),
        Wait::Ticket | Wait::Lock | Wait::Conflict | Wait::FlowControl | Wait::Eviction => {
            (layer.mean_us, 0.0)
        }
    };
    let us = whole_us - off_us;
    // The interval is the layer's, scaled to the part of it.
    let scale = if layer.mean_us > 0.0 { whole_us / layer.mean_us } else { 0.0 };
    let (low_us, high_us) = layer.interval_us.unwrap_or((0.0, layer.mean_us));
    let bound = |bound_us: f64| (bound_us * scale - off_us).max(0.0);
    let device_us = match wait {
        Wait::PageRead | Wait::CacheMiss => within("device"),
        Wait::Journal => device_share_of_sync(evidence, budget).map(|share| share * whole_us),
        _ => None,
    };
    // Threads wake up above the device.
    let device_off_us = if wait == Wait::Journal { SYNC_US * writes } else { off_us };
    let device_us = device_us.map(|device_us| (device_us - device_off_us).clamp(0.0, us.max(0.0)));
    let of_processor =
        |device_us: f64| us - device_us + waits_within_device_us(evidence, budget).min(device_us);
    (us > 0.0).then(|| RemovableTime {
        wait,
        us,
        interval_us: (bound(low_us), bound(high_us)),
        device_us,
        wakes_us: if wait == Wait::Journal { late_wakes_of_sync_us(evidence, budget) * writes } else { 0.0 },
        processor_us: device_us.filter(|_| wait == Wait::Journal).map(of_processor),
    })
}

/// The share of the time of a sync of the journal that the device spends on writes and flushes. It is an upper bound, since other writes are
/// included. `None` if syncs or the device were not read.
fn device_share_of_sync(evidence: &Evidence, budget: &Budget) -> Option<f64> {
    let member = &budget.member;
    let sync_us =
        evidence.sum_within(&format!("server.{member}.journal.sync_us"), budget.window_ns).unwrap_or(0.0);
    let device_ms: Vec<f64> = crate::server_devices::leaves(evidence, member)
        .iter()
        .flat_map(|device| ["write_ms", "flush_ms"].map(|time| format!("device.{device}.{time}")))
        .filter_map(|name| evidence.sum_within(&name, budget.window_ns))
        .collect();
    let device_us = 1000.0 * device_ms.iter().sum::<f64>();
    (sync_us > 0.0 && !device_ms.is_empty()).then(|| (device_us / sync_us).min(1.0))
}

/// The time to read an operation's pages one by one from an idle device of its class. They are read from the file system's cache instead if that
/// holds them, or would hold them without a limit.
fn one_access_each_us(evidence: &Evidence, budget: &Budget) -> f64 {
    let sum = |name: &str| evidence.sum_within(name, budget.window_ns);
    let member = &budget.member;
    let Some(pages) = sum(&format!("server.{member}.pages.read")) else { return 0.0 };
    let devices = crate::server_devices::leaves(evidence, member);
    let reads: f64 = devices.iter().filter_map(|device| sum(&format!("device.{device}.reads"))).sum();
    let from_device = match ServerMemory::from_evidence(evidence, member) {
        Some(memory) if memory.is_held_back_by_limit() => 0.0,
        _ if devices.is_empty() => pages,
        _ => reads.min(pages),
    };
    (from_device * READ_US + (pages - from_device) * CACHED_READ_US) / served(evidence, budget).max(1.0)
}

/// The operations that the server served for all clients; its sums of waits are over these operations.
fn served(evidence: &Evidence, budget: &Budget) -> f64 {
    let count =
        |kind| evidence.sum_within(&format!("server.{}.{kind}.operations", budget.member), budget.window_ns);
    ["reads", "writes"].into_iter().filter_map(count).sum::<f64>().max(budget.count)
}

/// The measured time in which a write's threads wait for a processor around a sync, beyond their class. 0 while processors are short.
fn late_wakes_of_sync_us(evidence: &Evidence, budget: &Budget) -> f64 {
    let waited_us =
        waited_for_processor_us(evidence, budget).filter(|_| !are_processors_short(evidence, budget));
    waited_us.map_or(0.0, |us| (us - WAKES_OF_SYNC * WAKE_US).max(0.0))
}

/// The time that the threads of an entry wait for a processor on its way to a member and back: that of their class, or the measured time if that is
/// longer. It is measured for an operation at the primary (its reply to the member) and for an entry at the member.
fn wakes_of_replication_us(evidence: &Evidence, budget: &Budget) -> f64 {
    let class_us = WAKES_OF_REPLICATION * WAKE_US;
    if are_processors_short(evidence, budget) {
        return class_us;
    }
    let sum =
        |member: &str, tail: &str| evidence.sum_within(&format!("server.{member}.{tail}"), budget.window_ns);
    let per_entry_us = |member: String| {
        let entries = sum(&member, "replication.applied").filter(|entries| *entries > 0.0)?;
        Some(sum(&member, "process.run_wait_us")? / entries)
    };
    let members = evidence.members().into_iter().filter(|member| *member != budget.member);
    let Some(member_us) = members.filter_map(per_entry_us).min_by(f64::total_cmp) else { return class_us };
    let operations: f64 = ["reads", "writes", "commands"]
        .into_iter()
        .filter_map(|kind| sum(&budget.member, &format!("{kind}.operations")))
        .sum();
    let primary_us = sum(&budget.member, "process.run_wait_us").unwrap_or(0.0) / operations.max(1.0);
    (primary_us + member_us).max(class_us)
}

/// Whether waits for a processor could go: processors are busy, or a quota holds back this server or one that follows it.
fn are_processors_short(evidence: &Evidence, budget: &Budget) -> bool {
    evidence.idle_pct().is_none_or(|idle_pct| idle_pct <= MAX_SHORT_IDLE_PCT)
        || is_under_quota(evidence, &budget.member)
        || !followers_under_quota(evidence).is_empty()
}

fn is_in_set(evidence: &Evidence, member: &str) -> bool {
    evidence.series.get(&format!("server.{member}.replication.state")).is_some()
}

/// The time that the requests of a write may wait for a processor within the device. Threads of the kernel serve a loop device
/// (torvalds/linux:drivers/block/loop.c), and they wait at least as long as the server's threads.
fn waits_within_device_us(evidence: &Evidence, budget: &Budget) -> f64 {
    let devices = crate::server_devices::leaves(evidence, &budget.member);
    let is_loop = !devices.is_empty() && devices.iter().all(|device| device.starts_with("loop"));
    let waited_us = waited_for_processor_us(evidence, budget).filter(|_| is_loop);
    waited_us.unwrap_or(0.0)
}

/// The time that the server's threads waited for a processor, for each operation that it served.
fn waited_for_processor_us(evidence: &Evidence, budget: &Budget) -> Option<f64> {
    let name = format!("server.{}.process.run_wait_us", budget.member);
    let waited_us = evidence.sum_within(&name, budget.window_ns)?;
    let served = served(evidence, budget);
    (served > 0.0).then(|| waited_us / served)
}
