//! The further conditions, besides a layer's share, under which a rule fires: see docs/methods.md#advice.
//!
//! Each condition reads other series than the layer does. A condition whose series were not read is unknown, which is neither yes nor no.

use fathom_record::budget::{Budget, Layer};

use super::frame::ServerFrame;
use super::shape::waits_outside;
use crate::Evidence;
use crate::client::{ClientLoads, points};
use crate::memory::ServerMemory;
use crate::path::is_over_loopback;
use crate::storage_class::SYNC_US;

/// The evidence that operations evict before the cache is as full as they usually must.
pub(super) const LOW_TRIGGERS: &str = "The usual triggers are far from reached, so that lower ones must be set (eviction_trigger, eviction_dirty_trigger).";

/// The input of a rule.
pub(super) struct RuleInput<'p> {
    pub(super) evidence: &'p Evidence,
    pub(super) client: Option<&'p ClientLoads>,
    pub(super) frame: &'p ServerFrame,
    pub(super) budget: &'p Budget,
    pub(super) layers: Vec<&'p Layer>,
}

/// The result of the other conditions of a rule.
pub(super) enum RuleConditions {
    /// They hold: sentences, and the share of the layer that the change may remove (least, expected, most).
    Holds(Vec<String>, (f64, f64, f64)),
    /// They do not: the rule does not fire.
    Fails,
    /// They were not read, or do not decide: sentences that say so.
    Unknown(Vec<String>, (f64, f64, f64)),
}

impl RuleInput<'_> {
    /// The mean of a gauge of this server over the budget's seconds.
    fn gauge(&self, tail: &str) -> Option<f64> {
        self.mean(&format!("server.{}.{tail}", self.budget.member))
    }

    fn mean(&self, name: &str) -> Option<f64> {
        let (begin_ns, end_ns) = self.budget.window_ns;
        let points = self.evidence.series.get(name)?.within(begin_ns, end_ns);
        (!points.is_empty())
            .then(|| points.iter().map(|point| point.value).sum::<f64>() / points.len() as f64)
    }

    fn sum(&self, name: &str) -> Option<f64> {
        self.evidence.sum_within(name, self.budget.window_ns)
    }

    fn sum_of(&self, tail: &str) -> Option<f64> {
        self.sum(&format!("server.{}.{tail}", self.budget.member))
    }

    /// Time of the layer, in microseconds, and that of a part within it.
    fn part_us(&self, name: &str) -> Option<f64> {
        self.layers
            .iter()
            .flat_map(|layer| &layer.within)
            .find(|part| part.name == name)
            .map(|part| part.mean_us)
    }

    fn layer_us(&self) -> f64 {
        self.layers.iter().map(|layer| layer.mean_us).sum()
    }

    /// Whether the layer is the largest. The wait to be sent follows from the others, and is not compared.
    fn is_largest(&self) -> bool {
        let others = self.budget.layers.iter().filter(|layer| layer.name != "schedule");
        others.map(|layer| layer.mean_us).all(|mean_us| mean_us <= self.layer_us())
    }

    /// Requests in flight at the devices under the data, on average; `None` if one of them was not read.
    fn device_in_flight(&self) -> Option<f64> {
        let means = self.frame.devices.iter().map(|device| self.mean(&format!("device.{device}.in_flight")));
        means.sum::<Option<f64>>().filter(|_| !self.frame.devices.is_empty())
    }
}

/// Holds if a round trip is long enough to matter and no layer is larger. If the ping is short, the time is the client's or a
/// proxy's, which only counts if it is long.
pub(super) fn network(place: &RuleInput<'_>) -> RuleConditions {
    const MIN_LONG_PING_US: f64 = 1000.0;
    const MIN_LONG_NETWORK_US: f64 = 5000.0;
    if !place.is_largest() {
        return RuleConditions::Fails;
    }
    let network_us = place.layer_us();
    if let Some(said) = lost_packets(place) {
        return RuleConditions::Holds(vec![said], (0.5, 0.9, 1.0));
    }
    let over_loopback = is_over_loopback(place.evidence, &place.budget.member);
    let Some(ping_us) = place.part_us("ping") else {
        return RuleConditions::Unknown(
            vec!["No ping was read, so the round trip itself is not known.".to_owned()],
            (0.0, 0.5, 1.0),
        );
    };
    let said = format!(
        "A ping takes {:.2} ms of it; {:.2} ms are the client, parsing, and what lies on the way of the load alone.",
        ping_us / 1000.0,
        (network_us - ping_us) / 1000.0
    );
    let of_ping = (ping_us / network_us).clamp(0.0, 1.0);
    if ping_us >= MIN_LONG_PING_US && !over_loopback {
        RuleConditions::Holds(vec![said], (0.8 * of_ping, of_ping, 1.0))
    } else if network_us >= MIN_LONG_NETWORK_US {
        RuleConditions::Holds(vec![said], (0.0, 1.0 - of_ping, 1.0))
    } else {
        RuleConditions::Fails
    }
}

/// Segments that this host retransmitted, if these make half of the network's time: each waits for at least 200 ms (TCP_RTO_MIN,
/// torvalds/linux:include/net/tcp.h).
fn lost_packets(place: &RuleInput<'_>) -> Option<String> {
    const RETRANSMISSION_TIMEOUT_US: f64 = 200_000.0;
    const MIN_RETRANSMITTED_SHARE: f64 = 0.5;
    let again = place.sum("host.network.retransmits").filter(|_| place.client.is_some())?;
    let each_us = again * RETRANSMISSION_TIMEOUT_US / place.budget.count.max(1.0);
    (each_us >= MIN_RETRANSMITTED_SHARE * place.layer_us()).then(|| {
        format!(
            "This host sent {again:.0} segments again, {:.1} for 1,000 operations: packets are lost, and each waits for 200 ms at least.",
            1000.0 * again / place.budget.count.max(1.0)
        )
    })
}

/// Holds if all connections are in use and the processor is not. A trial has to show whether the server can do more.
pub(super) fn connections(place: &RuleInput<'_>) -> RuleConditions {
    /// A wait of operations shows that all connections are in use at times; a pool that is mostly idle waits for something else.
    const MIN_IN_USE_SHARE: f64 = 0.5;
    const MIN_IDLE_PCT: f64 = 20.0;
    let Some(client) = place.client else { return RuleConditions::Fails };
    let mean = |name: &str| -> f64 {
        client.loads.iter().filter_map(|load| place.mean(&format!("{load}{name}"))).sum()
    };
    let (in_flight, connections) = (mean("in_flight"), mean("connections"));
    let mut said = Vec::new();
    if connections > 0.0 {
        if in_flight < MIN_IN_USE_SHARE * connections {
            return RuleConditions::Fails;
        }
        said.push(format!("Of {connections:.0} connections {in_flight:.1} are in use on average."));
    } else {
        said.push(format!(
            "{in_flight:.1} operations are under way on average; the number of connections was not recorded."
        ));
    }
    let idle = place.mean("host.cpu.idle_pct").zip(Some(place.mean("host.cpu.iowait_pct").unwrap_or(0.0)));
    let gain = (0.0, 0.5, 1.0);
    match idle.map(|(idle, waits)| idle + waits) {
        Some(idle) if idle > MIN_IDLE_PCT && connections > 0.0 => {
            said.push(format!("The server's processors are idle for {idle:.0} % of the time."));
            RuleConditions::Holds(said, gain)
        }
        Some(idle) if idle <= MIN_IDLE_PCT => {
            said.push(format!(
                "The server's processors are idle for {idle:.0} % of the time only: it may be the limit."
            ));
            RuleConditions::Unknown(said, gain)
        }
        // One or two operations under way are a narrow pool for any server.
        _ if in_flight <= 2.5 => RuleConditions::Holds(said, gain),
        _ => RuleConditions::Unknown(said, gain),
    }
}

/// Holds if the device serves the reads, not only the file system's cache.
pub(super) fn misses(place: &RuleInput<'_>) -> RuleConditions {
    let operations =
        place.sum_of("reads.operations").unwrap_or(0.0) + place.sum_of("writes.operations").unwrap_or(0.0);
    let mut said = Vec::new();
    let pages = place.sum_of("pages.read");
    if let Some(pages) = pages.filter(|_| operations > 0.0) {
        said.push(format!("{:.2} pages are read for an operation.", pages / operations));
    }
    if let Some(available) = place.mean("host.memory.available_bytes") {
        said.push(format!("{:.1} GiB of the host's memory are available.", available / f64::from(1 << 30)));
    }
    let memory = ServerMemory::from_evidence(place.evidence, &place.budget.member);
    if let Some(limit_bytes) = memory.and_then(|memory| memory.reached_limit_bytes) {
        said.push(format!(
            "The server's control group uses all of the {:.2} GiB that it may (memory.max, memory.limit_in_bytes), so that the kernel's cache \
             holds no more pages.",
            limit_bytes / f64::from(1 << 30)
        ));
    }
    let gain = (0.0, 0.5, 1.0);
    let devices = &place.frame.devices;
    if devices.is_empty() {
        said.push(
            "The device under the data was not watched, so whether it serves these reads is not known."
                .to_owned(),
        );
        return RuleConditions::Unknown(said, gain);
    }
    let sum = |counter: &str| {
        devices.iter().filter_map(|device| place.sum(&format!("device.{device}.{counter}"))).sum::<f64>()
    };
    let (reads, read_ms) = (sum("reads"), sum("read_ms"));
    if reads < 0.1 * pages.unwrap_or(reads) || reads <= 0.0 {
        // The file system's cache serves them.
        return RuleConditions::Fails;
    }
    let names = devices.join(" and ");
    said.push(format!("{names} served {reads:.0} reads in {:.2} ms each.", read_ms / reads));
    RuleConditions::Holds(said, gain)
}

/// Holds if memory would hold the pages that operations wait for.
pub(super) fn small_cache(place: &RuleInput<'_>) -> RuleConditions {
    let memory = ServerMemory::from_evidence(place.evidence, &place.budget.member);
    let Some(memory) = memory.filter(ServerMemory::holds_data) else { return RuleConditions::Fails };
    let gib = |bytes: f64| bytes / f64::from(1 << 30);
    let mut said = vec![format!(
        "The data of the namespace take {:.2} GiB; the host has {:.1} GiB of memory free.",
        gib(memory.data_bytes),
        gib(memory.free_bytes)
    )];
    if let Some(cache_bytes) = place.gauge("cache.most_bytes") {
        said.push(format!("The engine's cache may hold {:.2} GiB.", gib(cache_bytes)));
    }
    RuleConditions::Holds(said, (0.5, 0.9, 1.0))
}

/// Holds if the cache is full, or its dirty part is.
pub(super) fn eviction(place: &RuleInput<'_>) -> RuleConditions {
    // WiredTiger lets operations evict at 20 % dirty and 95 % full (eviction_dirty_trigger, eviction_trigger).
    const MIN_DIRTY_SHARE: f64 = 0.15;
    const MIN_FULL_SHARE: f64 = 0.93;
    let gain = (0.0, 0.5, 1.0);
    let (used, dirty) = (place.gauge("cache.used_bytes"), place.gauge("cache.dirty_bytes"));
    let (Some(used), Some(dirty), Some(most)) = (used, dirty, place.gauge("cache.most_bytes")) else {
        return RuleConditions::Unknown(vec!["How full the cache is was not read.".to_owned()], gain);
    };
    let mut said = vec![format!(
        "The cache is {:.0} % full on average, and {:.0} % of it are dirty (operations must evict at 95 and 20 %).",
        100.0 * used / most,
        100.0 * dirty / most
    )];
    // Operations evict although not even half of the usual limits is reached.
    if used < 0.5 * MIN_FULL_SHARE * most && dirty < 0.5 * MIN_DIRTY_SHARE * most {
        said.push(LOW_TRIGGERS.to_owned());
        return RuleConditions::Holds(said, gain);
    }
    let busy = place.mean("host.cpu.idle_pct").is_some_and(|idle| idle < 15.0);
    if busy {
        said.push(
            "The processors are nearly always busy, so more threads of eviction have nowhere to run."
                .to_owned(),
        );
    }
    if busy || (used < MIN_FULL_SHARE * most && dirty < MIN_DIRTY_SHARE * most) {
        RuleConditions::Unknown(said, gain)
    } else {
        RuleConditions::Holds(said, gain)
    }
}

/// Holds if the journal's syncs are slow.
pub(super) fn journal(place: &RuleInput<'_>) -> RuleConditions {
    /// A device with power-loss protection takes less.
    const MIN_SLOW_SYNC_US: f64 = 1000.0;
    /// An estimate of at least this many syncs for each write was not cut short by the time that the server has for it.
    const MIN_WHOLE_SYNCS: f64 = 0.8;
    let counted = place.frame.is_alone
        || waits_outside(place.frame.of_namespace, &place.frame.total())
        || !points(place.evidence, &format!("server.{}.wait.journal_us", place.budget.member)).is_empty();
    let syncs = place.sum_of("journal.syncs").filter(|syncs| *syncs > 0.0);
    let mean_us = syncs.and_then(|syncs| Some(place.sum_of("journal.sync_us")? / syncs));
    let mut said = Vec::new();
    if !counted {
        said.push(
            "The server does not count these waits; they are estimated from the journal's syncs.".to_owned(),
        );
    }
    match mean_us {
        Some(mean_us) => {
            said.push(format!("A sync of the journal takes {:.2} ms on average.", mean_us / 1000.0));
            let part = (1.0 - SYNC_US / mean_us).clamp(0.0, 1.0);
            // The estimate is limited to the part of a write's time that other waits and the processor do not explain. If that part is
            // as long as a sync, each write waited for one; if it is shorter, only some writes did.
            let shown = counted
                || place.budget.operations == "writes" && place.layer_us() >= MIN_WHOLE_SYNCS * mean_us;
            if shown && mean_us >= MIN_SLOW_SYNC_US {
                RuleConditions::Holds(said, (0.3 * part, part, 1.0))
            } else {
                // Writes then wait for the start of the next sync rather than for the disk.
                RuleConditions::Unknown(said, (0.0, 0.5 * part, 1.0))
            }
        }
        None => {
            said.push("How long the journal's syncs take was not read.".to_owned());
            // The waits themselves are known where the server counts them.
            let is_slow = counted && place.layer_us() >= MIN_SLOW_SYNC_US;
            if is_slow {
                RuleConditions::Holds(said, (0.3, 0.9, 1.0))
            } else {
                RuleConditions::Unknown(said, (0.0, 0.5, 1.0))
            }
        }
    }
}

/// Judges whether all tickets are in use, and whether their holders wait for the device.
pub(super) fn tickets(place: &RuleInput<'_>) -> RuleConditions {
    let mut said = Vec::new();
    for kind in ["read", "write"] {
        let (out, total) =
            (place.gauge(&format!("tickets.{kind}.out")), place.gauge(&format!("tickets.{kind}.total")));
        if let (Some(out), Some(total)) = (out, total) {
            said.push(format!("Of {total:.0} {kind} tickets {out:.1} are out on average."));
        }
    }
    let gain = (0.0, 0.5, 1.0);
    match place.device_in_flight() {
        Some(busy) if busy < 1.0 => {
            said.push(format!("The device is mostly idle: {busy:.2} requests are in flight on average."));
            RuleConditions::Holds(said, gain)
        }
        Some(busy) => {
            said.push(format!(
                "The device has {busy:.1} requests in flight on average: what holds the tickets may be waiting for it."
            ));
            RuleConditions::Unknown(said, gain)
        }
        None => {
            said.push(
                "The device under the data was not watched, so whether it holds the tickets is not known."
                    .to_owned(),
            );
            RuleConditions::Unknown(said, gain)
        }
    }
}

/// How often writes collide.
pub(super) fn conflicts(place: &RuleInput<'_>) -> RuleConditions {
    let (conflicts, writes) = (place.sum_of("write_conflicts"), place.sum_of("writes.operations"));
    let said = conflicts.zip(writes).filter(|(_, writes)| *writes > 0.0).map(|(conflicts, writes)| {
        format!(
            "A write was tried {:.1} times on average: {conflicts:.0} write conflicts in {writes:.0} writes.",
            1.0 + conflicts / writes
        )
    });
    RuleConditions::Holds(said.into_iter().collect(), (0.3, 0.8, 1.0))
}

/// The finding names the member that is waited for. The gain depends on how much faster that member gets.
pub(super) fn replication(place: &RuleInput<'_>) -> RuleConditions {
    let waits = place.sum_of("replication.waits").filter(|waits| *waits > 0.0);
    let mean = waits.and_then(|waits| Some(place.sum_of("wait.replication_us")? / waits));
    let said = mean.map(|us| format!("A write that waits for members waits {:.2} ms.", us / 1000.0));
    RuleConditions::Holds(said.into_iter().collect(), (0.0, 0.5, 1.0))
}

/// Writes are held back while members lag: the server reports it, or the readings show the lag.
pub(super) fn flow_control(place: &RuleInput<'_>) -> RuleConditions {
    let gain = (0.5, 0.9, 1.0);
    let mut said = Vec::new();
    let lagged = place.gauge("flow_control.lagged");
    if let Some(share) = lagged {
        said.push(format!("It held writes back in {:.0} % of the looks at it.", 100.0 * share));
    }
    for member in
        place.evidence.members().iter().filter(|member| crate::member::follows(place.evidence, member))
    {
        if let Some(lag_ms) = place.mean(&format!("server.{member}.replication.lag_ms")) {
            said.push(format!("Server {member} lags by {:.1} s on average.", lag_ms / 1000.0));
        }
    }
    match lagged {
        Some(share) if share > 0.0 => RuleConditions::Holds(said, gain),
        _ => RuleConditions::Unknown(said, gain),
    }
}
