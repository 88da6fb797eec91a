//! Sets and shards: the member that a majority waits for and the reason, members that lag although no write waits for them, and
//! the time that a router adds.
//!
//! The layers of one server are in `layers`; this module needs the series of several. A member, or a shard, is
//! named only if the data support it: an even set and an even spread give no finding.
//!
//! A member that lags does not add latency, but it affects the next failover, reads from it, and its place in the oplog. A
//! finding needs a member that is certainly last and much later than the one that completes the majority. A trend test
//! decides whether the lag grows.

mod router;
mod rows;
mod shards;

use fathom_record::{Confidence, Finding, Severity};
use fathom_stats::mann_kendall;

use crate::client::{ClientLoads, points};
use crate::member::majority_wait::parts;
use crate::member::name_of;
use crate::member::{Set, behind_us};
use crate::{Evidence, Judgement};

/// The series that it is judged by.
pub(crate) const NEEDS: &[&str] = &[
    "server.{member}.replication.state",
    "server.{member}.replication.behind",
    "server.{member}.replication.lag_ms",
    "server.{member}.replication.batches",
    "server.{member}.replication.batch_ms",
    "server.{member}.replication.write_batches",
    "server.{member}.replication.write_batch_ms",
    "server.{member}.replication.voters_down",
    "server.{member}.documents.inserted",
    "server.{member}.targeted.one",
    "server.{member}.targeted.several",
    "server.{member}.reads.shards_us",
    "server.{member}.writes.shards_us",
    "server.{member}.sharding.chunks",
];

/// The whole path through routers, members that lag, and how the shards share the load.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    for finding in lagging_members(evidence) {
        judgement.add_unless_withheld(finding);
    }
    let Some(path) =
        router::RouterPath::from_evidence(evidence, ClientLoads::from_evidence(evidence).as_ref())
    else {
        return;
    };
    let budgets = path.budgets(evidence);
    for finding in shards::findings(evidence, &path, &budgets) {
        judgement.add_unless_withheld(finding);
    }
    // The whole path comes before its parts.
    judgement.budgets.splice(0..0, budgets);
}

/// The fewest moments for a finding.
const MIN_MOMENTS: usize = 10;
/// It must be behind for at least this many times as long as the member that completes the majority, and for at least this long.
const MIN_BEHIND_RATIO: f64 = 3.0;
const MIN_BEHIND_US: f64 = 50_000.0;
/// The least share of the moments at which it must be behind the others.
const MIN_BEHIND_SHARE: f64 = 0.8;
/// A trend upward is significant below this probability; several members are tested.
const MAX_TREND_P: f64 = 0.01;

/// A finding for each member that lags and is not waited for.
fn lagging_members(evidence: &Evidence) -> Vec<Finding> {
    Set::all(evidence).iter().flat_map(|set| of_set(evidence, set)).collect()
}

fn of_set(evidence: &Evidence, set: &Set) -> Vec<Finding> {
    let moments = set.moments(evidence);
    let Some(writes_per_s) = set.writes_per_s(evidence).filter(|_| moments.len() >= MIN_MOMENTS) else {
        return Vec::new();
    };
    let time_us = |member: &str| behind_us(&moments, member, writes_per_s);
    let mut times: Vec<f64> = set.voters.iter().filter_map(|voter| time_us(voter)).collect();
    times.sort_by(f64::total_cmp);
    let Some(enough_us) = set.majority.checked_sub(1).and_then(|at| times.get(at)).copied() else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for member in set.members.iter().filter(|member| **member != set.primary) {
        let Some(own_us) = time_us(member) else { continue };
        // The moments at which it is behind the member that completes the majority.
        let later = moments.iter().filter(|moment| {
            let mut places: Vec<f64> =
                set.voters.iter().filter_map(|voter| moment.get(voter).copied()).collect();
            places.sort_by(f64::total_cmp);
            let place = set.majority.checked_sub(1).and_then(|at| places.get(at)).copied();
            moment.get(member).zip(place).is_some_and(|(own, place)| *own > place)
        });
        let later = later.count() as f64 / moments.len() as f64;
        if own_us < MIN_BEHIND_US || own_us < MIN_BEHIND_RATIO * enough_us || later < MIN_BEHIND_SHARE {
            continue;
        }
        findings.push(finding(evidence, set, member, (own_us, enough_us, later)));
    }
    findings
}

fn finding(
    evidence: &Evidence,
    set: &Set,
    member: &str,
    (own_us, enough_us, later): (f64, f64, f64),
) -> Finding {
    let who = name_of(evidence, member);
    let lag = points(evidence, &format!("server.{member}.replication.lag_ms"));
    let trend = mann_kendall(&lag.iter().map(|one| (one.end_ns as f64 / 1e9, one.value)).collect::<Vec<_>>());
    let grows = trend.filter(|trend| trend.p_upward < MAX_TREND_P && trend.slope > 0.0);
    let claim = match grows {
        Some(_) => format!("{who} falls further and further behind; no write waits for it."),
        None => format!("{who} lags behind the others, but no write waits for it."),
    };
    let severity = if grows.is_some() { Severity::Warning } else { Severity::Note };
    let mut finding = Finding::new("member-lags", severity, upper(&claim))
        .confidence(Confidence::Likely)
        .evidence(format!(
            "A write takes {:.0} ms to get into its journal; the majority of '{}' ({} of {} voters) has it after {:.1} ms.",
            own_us / 1000.0,
            set.name,
            set.majority,
            set.voters.len(),
            enough_us / 1000.0
        ))
        .evidence(format!("It was behind the majority in {:.0} % of the looks at the primary.", 100.0 * later));
    if let Some(trend) = grows {
        finding =
            finding.evidence(format!("Each second it is {:.0} ms later (Theil-Sen slope).", trend.slope));
    }
    if let Some(window_s) = evidence.mean(&format!("server.{}.replication.oplog_s", set.primary)) {
        finding = finding.evidence(format!(
            "The primary's oplog reaches back {window_s:.0} s; a member that is further behind needs a new initial sync."
        ));
    }
    if let Some(parts) = parts(evidence, member, own_us) {
        let journal = parts
            .journal_us
            .map_or_else(String::new, |us| format!(", a sync of its journal {:.1} ms", us / 1000.0));
        finding = finding.evidence(format!(
            "Of that {} takes about {:.1} ms{journal}.",
            parts.batch.words(),
            parts.batch_us / 1000.0
        ));
    }
    finding
        .advice("Find what holds it back before the next failover: until it has caught up, a majority rests on the others alone.")
        .next_look("Compare its device and processor with those of the other members, and its way to the member it copies from.")
        .undo("Nothing is changed.")
        .window(evidence.window_ns)
        .series(["behind", "lag_ms"].map(|name| format!("server.{member}.replication.{name}")))
}

/// A sentence begins with a capital.
fn upper(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
