//! Table: the advice for a layer that takes much time: the rules (docs/methods.md#advice) whose first condition is a layer's share.
//!
//! A threshold alone never makes a rule fire. The whole interval of the share must lie above it, the layer must be long enough to
//! matter, and each rule has further conditions. If their series were not read, the finding says so and is no alarm.

use fathom_record::budget::{Budget, Layer};
use fathom_record::{Confidence, Finding, Gain, Severity};

use super::conditions::{
    LOW_TRIGGERS, RuleConditions, RuleInput, conflicts, connections, eviction, flow_control, journal, misses,
    network, replication, small_cache, tickets,
};
use super::frame::ServerFrame;
use crate::client::ClientLoads;
use crate::{Evidence, guard, member};

/// One rule of a layer.
struct Rule {
    id: &'static str,
    /// The layers whose times are added up.
    layers: &'static [&'static str],
    /// The kinds of operations that it applies to; the first that fires is used.
    operations: &'static [&'static str],
    /// The share that the whole interval must lie above.
    above: f64,
    /// The time that it must take at least, in microseconds.
    least_us: f64,
    /// The further conditions of the rule.
    look: fn(&RuleInput<'_>) -> RuleConditions,
    claim: &'static str,
    advice: &'static str,
    /// The basis of the gain.
    basis: &'static str,
    next_look: &'static str,
    undo: &'static str,
}

static RULES: &[Rule] = &[
    Rule {
        id: "network-takes-most",
        layers: &["network"],
        operations: &["all", "reads", "writes"],
        above: 0.2,
        least_us: 1000.0,
        look: network,
        claim: "Most of the time that the client waits passes between it and the server.",
        advice: "Bring client and server closer (same site, no proxy between), or send fewer and larger requests.",
        basis: "a client next to the server has almost no round trip; the rest of the network stays",
        next_look: "Compare the ping from the client's host with one from a host next to the server, and look at host.network.retransmits.",
        undo: "Put the client back where it was.",
    },
    Rule {
        id: "waits-for-connections",
        layers: &["schedule"],
        operations: &["all", "reads", "writes"],
        above: 0.2,
        least_us: 200.0,
        look: connections,
        claim: "Operations wait for a free connection before they are sent.",
        advice: "Give the client more connections (a larger pool), then look at the mean again.",
        basis: "the wait ends if there are enough connections and the server can serve them, and stays if the server is the limit",
        next_look: "Search for the highest rate of the server with twice the connections.",
        undo: "Set the pool to its former size.",
    },
    Rule {
        id: "cache-misses-on-path",
        layers: &["page_read"],
        operations: &["all", "reads", "writes"],
        above: 0.2,
        least_us: 100.0,
        look: misses,
        claim: "Operations wait for pages that are not in the engine's cache and come from the disk.",
        advice: "Enlarge the cache if memory is free, or make the working set smaller; a readahead of 8 to 32 sectors reads less around.",
        basis: "a page that stays in the cache costs no read: all of the layer if the working set fits, nothing if it stays far larger",
        next_look: "Watch pages.read per operation while the cache grows in steps of a tenth.",
        undo: "Set storage.wiredTiger.engineConfig.cacheSizeGB (at run time wiredTigerEngineRuntimeConfig) to its former value.",
    },
    Rule {
        id: "small-cache",
        layers: &["page_read"],
        operations: &["all"],
        above: 0.2,
        least_us: 20.0,
        look: small_cache,
        claim: "Operations wait for pages that the engine's cache would hold if it were larger.",
        advice: "Enlarge the cache until it holds the data, or the part of them that is used.",
        basis: "a page that stays in the cache costs no read, and memory would hold all data",
        next_look: "Watch pages.read per operation while the cache grows (at run time wiredTigerEngineRuntimeConfig).",
        undo: "Set storage.wiredTiger.engineConfig.cacheSizeGB (at run time wiredTigerEngineRuntimeConfig) to its former value.",
    },
    Rule {
        id: "eviction-by-operations",
        layers: &["evict"],
        operations: &["all", "writes", "reads"],
        above: 0.02,
        least_us: 20.0,
        look: eviction,
        claim: "Operations must make room in the cache themselves, because eviction does not keep up.",
        advice: "Let more threads evict (eviction=(threads_max)), or begin earlier (a lower eviction_dirty_target); then write less.",
        basis: "eviction by its own threads is off the path of operations; the layer shrinks as far as they keep up",
        next_look: "Watch cache.dirty_bytes and pages.evicted_by_operations, and whether the disk can serve more writes.",
        undo: "Set wiredTigerEngineRuntimeConfig back to the former eviction settings.",
    },
    Rule {
        id: "journal-on-path",
        layers: &["journal"],
        operations: &["writes", "all"],
        above: 0.3,
        least_us: 500.0,
        look: journal,
        claim: "Writes wait for the journal to reach the disk.",
        advice: "Put the journal on a device of its own or on one with power-loss protection, or send more writes in one batch.",
        basis: "a device whose cache survives a power loss syncs in a tenth of a millisecond; a faster one takes the layer down as far",
        next_look: "Probe the journal's device alone for the time of its flushes: fathom disk --pattern append, in the journal's directory.",
        undo: "Move the journal's directory back while the server is stopped.",
    },
    Rule {
        id: "tickets-or-locks",
        layers: &["ticket", "lock"],
        operations: &["all", "writes", "reads"],
        above: 0.1,
        least_us: 100.0,
        look: tickets,
        claim: "Operations wait for a ticket or a lock within the server.",
        advice: "Look for operations that hold them long (long scans, builds of indexes, few documents updated by many), and let fewer \
                 run at once; do not raise the tickets while a device is saturated.",
        basis: "the wait ends when the holder of the tickets or locks ends; with a saturated device it only moves",
        next_look: "Search the number of connections at which throughput stops growing.",
        undo: "Set the former number of connections or tickets.",
    },
    Rule {
        id: "write-conflicts",
        layers: &["write_conflict"],
        operations: &["writes", "all"],
        above: 0.1,
        least_us: 100.0,
        look: conflicts,
        claim: "Writes of the same documents collide, and the server tries them again.",
        advice: "Spread the updates of a document that many clients update over several documents, or collect them and send one.",
        basis: "a write that meets no other is done at the first try",
        next_look: "Which documents: slow operations with writeConflicts in the log or the profiler.",
        undo: "Nothing is changed on the server.",
    },
    Rule {
        id: "replication-on-path",
        layers: &["replication"],
        operations: &["writes", "all"],
        above: 0.3,
        least_us: 500.0,
        look: replication,
        claim: "Writes wait for other members of the set.",
        advice: "Find the member that the writes wait for (rs.printSecondaryReplicationInfo()) and make it faster. A weaker write concern would hide the wait and lose safety.",
        basis: "the wait is as long as the member that completes the majority takes; it shrinks as far as that member gets faster",
        next_look: "Watch the secondaries too: their own budgets and disks tell which is the slowest and why.",
        undo: "Nothing is changed on the primary.",
    },
    Rule {
        id: "flow-control-on-path",
        layers: &["flow_control"],
        operations: &["writes", "all"],
        above: 0.1,
        least_us: 100.0,
        look: flow_control,
        claim: "The server holds writes back, because members of its majority lag.",
        advice: "Make the members that lag faster: without flow control the lag would grow instead.",
        basis: "writes are held back only as long as the commit point lags by more than flowControlTargetLagSeconds",
        next_look: "Which member lags, and what its device and processor do.",
        undo: "Nothing is changed on the primary.",
    },
];

/// The advice from the budgets of one server.
pub(crate) fn findings(
    evidence: &Evidence,
    client: Option<&ClientLoads>,
    frame: &ServerFrame,
    budgets: &[Budget],
) -> Vec<Finding> {
    let of_rule = |rule: &Rule| {
        rule.operations.iter().find_map(|operations| {
            let budget = budgets.iter().find(|budget| budget.operations == *operations)?;
            let layers: Vec<&Layer> =
                budget.layers.iter().filter(|one| rule.layers.contains(&one.name.as_str())).collect();
            let mut finding = judge(rule, &RuleInput { evidence, client, frame, budget, layers })?;
            if rule.id == "replication-on-path" {
                member::name_it(evidence, &budget.member, &mut finding);
                finding.evidence.extend(guard::followers_under_quota(evidence));
            }
            if finding.evidence.iter().any(|one| one == LOW_TRIGGERS) {
                name_low_triggers(&mut finding, &budget.member);
            }
            if finding.id == "journal-on-path" {
                finding.command = probe_of_journal(evidence, &budget.member);
            }
            if finding.id == "replication-on-path" || finding.id == "flow-control-on-path" {
                member::name_down_voters(evidence, &budget.member, &mut finding);
            }
            Some(finding)
        })
    };
    RULES.iter().filter_map(of_rule).collect()
}

/// Pages that are evicted early are read again, so these reads have the same cause.
fn name_low_triggers(finding: &mut Finding, member: &str) {
    finding.claim = "Operations evict pages, and read them again, long before the cache is full.".to_owned();
    finding.advice =
        Some("Set eviction_trigger and eviction_dirty_trigger back to what they usually are, 95 and 20 % of the cache.".to_owned());
    // The gain of the rule is that of more threads that evict.
    finding.gain = None;
    finding.series.push(format!("server.{member}.pages.read"));
}

/// The command that probes where a server's journal is, if it runs on this host.
fn probe_of_journal(evidence: &Evidence, member: &str) -> Option<String> {
    let fact = |name: &str| evidence.environment.get(&format!("server.{member}.{name}"));
    let is_here = fact("here").is_some_and(|here| here == "true");
    let dbpath = fact("dbpath").filter(|_| is_here)?;
    Some(format!("fathom disk --dir {dbpath}/journal --pattern append"))
}

/// The base of a layer's share: the mean operation from its send. The wait to be sent follows from the layers below it, and would hide them. Its own
/// share is of the whole time.
fn whole_us(budget: &Budget, rule: &Rule) -> f64 {
    let whole_us = budget.whole_us();
    if rule.layers.contains(&"schedule") {
        return whole_us;
    }
    let schedule = budget.layers.iter().find(|layer| layer.name == "schedule");
    whole_us - schedule.map_or(0.0, |layer| layer.mean_us.max(0.0))
}

fn judge(rule: &Rule, place: &RuleInput<'_>) -> Option<Finding> {
    let RuleInput { budget, layers, .. } = place;
    let whole_us = whole_us(budget, rule);
    let mean_us: f64 = layers.iter().map(|layer| layer.mean_us).sum();
    // The sum of the bounds is the worst case.
    let (low_us, high_us) = layers.iter().try_fold((0.0, 0.0), |(low, high), layer| {
        let interval = layer.interval_us?;
        Some((low + interval.0, high + interval.1))
    })?;
    let (share, low, high) = (mean_us / whole_us, low_us / whole_us, high_us / whole_us);
    if whole_us.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater)
        || low <= rule.above
        || mean_us < rule.least_us
    {
        return None;
    }
    let (more, (least, expected, most), known) = match (rule.look)(place) {
        RuleConditions::Holds(more, gain) => (more, gain, true),
        RuleConditions::Unknown(more, gain) => (more, gain, false),
        RuleConditions::Fails => return None,
    };
    let shaky = !budget.closes && budget.unexplained_us.abs() > mean_us;
    let (severity, confidence) = if known && !shaky {
        (Severity::Warning, Confidence::Likely)
    } else {
        (Severity::Note, Confidence::CannotTell)
    };
    let of = match budget.operations.as_str() {
        "all" => "operations",
        kind => kind,
    };
    let is_of_part = whole_us < budget.whole_us();
    let since = if is_of_part { " from the send" } else { "" };
    let names: Vec<String> = layers.iter().map(|layer| layer.name.replace('_', " ")).collect();
    let mut finding = Finding::new(rule.id, severity, rule.claim).confidence(confidence).evidence(format!(
        "Server {}, {of}: {} takes {:.2} ms of {:.2} ms{since}, {:.0} % (95 % interval {:.0} to {:.0} %).",
        budget.member,
        names.join(" and "),
        mean_us / 1000.0,
        whole_us / 1000.0,
        100.0 * share,
        100.0 * low,
        100.0 * high
    ));
    finding.evidence.extend(more);
    if shaky {
        finding.evidence.push(format!(
            "The layers do not add up: {:.2} ms are not explained, more than this layer takes.",
            budget.unexplained_us / 1000.0
        ));
    }
    let gain = Gain {
        of: format!("mean latency of {of}"),
        share: (share * expected).clamp(0.0, 1.0),
        interval: ((low * least).clamp(0.0, 1.0), (high * most).clamp(0.0, 1.0)),
        basis: format!("Measured here: the layer's share. Not tested here: {}.", rule.basis),
    };
    let series = layers.iter().flat_map(|layer| layer.series.iter().cloned());
    Some(
        finding
            .advice(rule.advice)
            .gain(gain)
            .next_look(rule.next_look)
            .undo(rule.undo)
            .window(budget.window_ns)
            .series(series),
    )
}
