//! The distribution of the load over the shards, and the time that the router itself takes.
//!
//! A share above the fair one is a finding only if the shard is also slower for it; otherwise it is a note. Operations
//! of several shards are counted both by the router and by the shards, and both counts must agree.

use fathom_record::budget::Budget;
use fathom_record::{Confidence, Finding, Severity};
use fathom_stats::{Interval, SeededRandom, bootstrap_sums};

use super::router::{RouterPath, value};
use super::rows::{RowKind, at, shard_at};
use crate::Evidence;
use crate::member::{fact, name_of};

const RESAMPLES: usize = 500;
/// A share of the operations that lies above the fair one by this factor, with its whole interval, is uneven.
const MIN_UNEVEN_RATIO: f64 = 1.25;
/// A shard is slower if its mean is this many times that of the others, with the whole interval.
const MIN_SLOWER_RATIO: f64 = 1.2;
const MIN_MUCH_SLOWER_RATIO: f64 = 1.5;
/// The least share of the client's mean that its time must be.
const MIN_TIME_SHARE: f64 = 0.2;
/// The share of operations that are sent to several shards above which this is reported, and the least share of the mean.
const MIN_SCATTERED_SHARE: f64 = 0.1;
/// The least work of a router itself, as a share of the mean and in microseconds.
const MIN_ROUTER_SHARE: f64 = 0.3;
const MIN_ROUTER_US: f64 = 500.0;

/// A shard over the window.
struct ShardShare {
    name: String,
    share: f64,
    share_interval: Interval,
    mean_us: f64,
    /// Its mean over that of the others, with its interval.
    times: f64,
    times_interval: Interval,
    /// Its time, of the mean operation.
    part: f64,
    chunks: Option<f64>,
}

/// The findings on shards.
pub(super) fn findings(evidence: &Evidence, path: &RouterPath, budgets: &[Budget]) -> Vec<Finding> {
    let Some(all) = budgets.iter().find(|budget| budget.operations == "all") else { return Vec::new() };
    let standings = standings(evidence, path, all);
    let uneven: Vec<Finding> = standings.iter().filter_map(|one| uneven(path, one, &standings)).collect();
    let slow =
        standings.iter().filter(|_| uneven.is_empty()).filter_map(|one| slow(path, one)).collect::<Vec<_>>();
    let mut findings: Vec<Finding> = uneven.into_iter().chain(slow).collect();
    findings.extend(scattered(evidence, path, all));
    findings.extend(router(evidence, path, all));
    findings.into_iter().map(|finding| finding.window(all.window_ns)).collect()
}

fn standings(evidence: &Evidence, path: &RouterPath, all: &Budget) -> Vec<ShardShare> {
    let count = path.shards.len();
    if count < 2 {
        return Vec::new();
    }
    let figures = |row: &[f64]| {
        let of = |shard: usize, offset: usize| -> f64 {
            (0..2).map(|kind| value(row, shard_at(shard, kind) + offset)).sum()
        };
        let (operations, time): (Vec<f64>, Vec<f64>) =
            (0..count).map(|shard| (of(shard, 0), of(shard, 1))).unzip();
        let (all_operations, all_time) = (operations.iter().sum::<f64>(), time.iter().sum::<f64>());
        let mut figures = Vec::with_capacity(2 * count);
        for (operations, time) in operations.iter().zip(&time) {
            let others = (all_time - time) / (all_operations - operations);
            figures.extend([operations / all_operations, time / operations / others]);
        }
        figures
    };
    let total = path.rows.total();
    let points = figures(&total);
    let mut stream = SeededRandom::from_seed(evidence.seed).split(301);
    let resampled =
        bootstrap_sums(&path.rows.blocks(), 0.95, RESAMPLES, &mut stream, figures).unwrap_or_default();
    let shard_layers = all.layers.iter().find(|layer| layer.name == "shards");
    let mut standings = Vec::new();
    for (shard, (name, members)) in path.shards.iter().enumerate() {
        let figure =
            |at: usize| Some((points.get(at).copied()?, resampled.get(at).copied().flatten()?.interval));
        let (Some((share, share_interval)), Some((times, times_interval))) =
            (figure(2 * shard), figure(2 * shard + 1))
        else {
            continue;
        };
        let of =
            |offset: usize| -> f64 { (0..2).map(|kind| value(&total, shard_at(shard, kind) + offset)).sum() };
        let part = shard_layers.and_then(|layer| layer.within.get(shard)).map_or(0.0, |part| part.share);
        let chunks =
            members.iter().find_map(|member| evidence.mean(&format!("server.{member}.sharding.chunks")));
        standings.push(ShardShare {
            name: name.clone(),
            share,
            share_interval,
            mean_us: of(1) / of(0).max(1.0),
            times,
            times_interval,
            part,
            chunks,
        });
    }
    standings
}

fn base(id: &str, severity: Severity, claim: String, path: &RouterPath, one: &ShardShare) -> Finding {
    let per_s =
        value(&path.rows.total(), at(0, RowKind::Router)) + value(&path.rows.total(), at(1, RowKind::Router));
    let mut finding = Finding::new(id, severity, claim).confidence(Confidence::Likely).evidence(format!(
        "Shard {} gets {:.0} % of the operations (95 % interval {:.0} to {:.0} %; a fair share is {:.0} %) and takes {:.2} ms for one, \
         {:.2} times as long as the others (interval {:.2} to {:.2}).",
        one.name,
        100.0 * one.share,
        100.0 * one.share_interval.low,
        100.0 * one.share_interval.high,
        100.0 / path.shards.len() as f64,
        one.mean_us / 1000.0,
        one.times,
        one.times_interval.low,
        one.times_interval.high
    ));
    finding = finding.evidence(format!("Its time is {:.0} % of the mean operation.", 100.0 * one.part));
    if per_s > 0.0 {
        finding = finding.evidence(format!(
            "The routers pass on {:.0} operations a second.",
            per_s / path.seconds().max(1.0)
        ));
    }
    let members = path.shards.iter().filter(|(name, _)| *name == one.name).flat_map(|(_, members)| members);
    finding.series(members.map(|member| format!("server.{member}.collection.reads.operations")))
}

/// Reports one shard that has more operations than its share, and whether that costs time.
fn uneven(path: &RouterPath, one: &ShardShare, all: &[ShardShare]) -> Option<Finding> {
    let fair = 1.0 / path.shards.len() as f64;
    if one.share_interval.low <= MIN_UNEVEN_RATIO * fair {
        return None;
    }
    let is_slower = one.times_interval.low > MIN_SLOWER_RATIO && one.part > MIN_TIME_SHARE;
    let (severity, claim) = if is_slower {
        (
            Severity::Warning,
            format!(
                "Shard {} is hot: it gets more than its share of the operations and is slower for it.",
                one.name
            ),
        )
    } else {
        (
            Severity::Note,
            format!(
                "Shard {} gets more than its share of the operations, and is not slower for it yet.",
                one.name
            ),
        )
    };
    let mut finding = base("uneven-shards", severity, claim, path, one);
    let chunks: Option<f64> = all.iter().map(|one| one.chunks).sum();
    if let Some((own, chunks)) = one.chunks.zip(chunks.filter(|chunks| *chunks > 0.0)) {
        let is_by_chunks = own / chunks > MIN_UNEVEN_RATIO * fair;
        finding = finding.evidence(format!(
            "It has {own:.0} of {chunks:.0} chunks: {}.",
            if is_by_chunks {
                "the chunks are spread unevenly"
            } else {
                "the chunks are even, so a few keys are asked for more than others"
            }
        ));
        finding = finding.advice(if is_by_chunks {
            "Let the balancer spread the chunks (sh.status() says whether it runs), then look again."
        } else {
            "Look for a few keys, or a range at the end, that most operations go to; a hashed key spreads neighbours."
        });
    } else {
        finding = finding
            .advice("Look where the chunks are (sh.status()), and whether the collection is sharded at all: if not, all of it is on one shard.");
    }
    Some(
        finding
            .next_look("Compare the budgets of the shards: which layer grows on this one.")
            .undo("Nothing is changed."),
    )
}

/// Reports one shard that is slower for the same share.
fn slow(path: &RouterPath, one: &ShardShare) -> Option<Finding> {
    if one.times_interval.low <= MIN_MUCH_SLOWER_RATIO || one.part <= MIN_TIME_SHARE {
        return None;
    }
    let claim = format!("Shard {} is slower than the others for the same share of the operations.", one.name);
    Some(
        base("slow-shard", Severity::Warning, claim, path, one)
            .advice(
                "Find what is slower on it: its disk, its engine, its processor, the members it waits for.",
            )
            .next_look("Compare its budget above with those of the others: find the layer that differs.")
            .undo("Nothing is changed."),
    )
}

/// Operations that several shards must answer.
fn scattered(evidence: &Evidence, path: &RouterPath, all: &Budget) -> Option<Finding> {
    let sum = |tail: &str| -> Option<f64> {
        path.routers.iter().map(|router| evidence.sum(&format!("server.{router}.targeted.{tail}"))).sum()
    };
    let (one, several) = (sum("one")?, sum("several")?);
    let share = several / (one + several);
    let total = path.rows.total();
    let per_kind = |kind: usize| {
        let asked: f64 = (0..path.shards.len()).map(|shard| value(&total, shard_at(shard, kind))).sum();
        let own =
            value(&total, at(kind, if path.rows.has_client { RowKind::Client } else { RowKind::Router }));
        (asked, own)
    };
    let ((reads_asked, reads), (writes_asked, writes)) = (per_kind(0), per_kind(1));
    let visits = (reads_asked + writes_asked) / (reads + writes);
    // The two counts are independent of each other.
    if !(share > MIN_SCATTERED_SHARE && visits > 1.0 + share / 2.0) {
        return None;
    }
    let of_shards: f64 = all
        .layers
        .iter()
        .filter(|layer| ["shards", "to_shards"].contains(&layer.name.as_str()))
        .map(|layer| layer.share)
        .sum();
    let severity = if of_shards > MIN_ROUTER_SHARE { Severity::Warning } else { Severity::Note };
    let kind = if reads_asked * writes > writes_asked * reads { "reads" } else { "writes" };
    Some(
        Finding::new("scatter-gather", severity, "Operations go to several shards at once, and each waits for the slowest of them.")
            .confidence(Confidence::Likely)
            .evidence(format!("By the router {:.0} % of the operations went to several shards.", 100.0 * share))
            .evidence(format!("The shards served {visits:.2} operations for each one; {kind} are the most."))
            .evidence(format!("Shards and the way to them are {:.0} % of the mean operation.", 100.0 * of_shards))
            .advice("Give the shard key in the filter of what is asked most, or choose a key that these filters have.")
            .next_look("explain() of a slow operation names its shards; the slow operations of the log name the filters.")
            .undo("Nothing is changed.")
            .series(path.routers.iter().map(|router| format!("server.{router}.targeted.several"))),
    )
}

/// Reports a router that takes much time itself.
fn router(evidence: &Evidence, path: &RouterPath, all: &Budget) -> Option<Finding> {
    let layer = all.layers.iter().find(|layer| layer.name == "router").filter(|_| path.rows.waits)?;
    let (low_us, _) = layer.interval_us?;
    if low_us / all.whole_us() <= MIN_ROUTER_SHARE || layer.mean_us < MIN_ROUTER_US {
        return None;
    }
    let member = path.routers.first()?;
    let busy = evidence.sum(&format!("server.{member}.process.cpu_us"));
    let waits = evidence.sum(&format!("server.{member}.process.run_wait_us"));
    // The processor time of its process bounds its own time: without that bound it might be anything.
    let (busy, waits) = (busy?, waits.unwrap_or(0.0));
    let mut finding = Finding::new(
        "router-takes-most",
        Severity::Warning,
        "The router itself takes a large part of the time.",
    )
    .confidence(Confidence::Likely)
    .evidence(format!(
        "Its own work takes {:.2} ms of {:.2} ms, {:.0} %.",
        layer.mean_us / 1000.0,
        all.whole_us() / 1000.0,
        100.0 * layer.share
    ))
    .evidence(format!(
        "{} ran {:.1} s and waited {:.1} s for a processor.",
        name_of(evidence, member),
        busy / 1e6,
        waits / 1e6
    ))
    .advice("Run more routers, next to the clients, and give them processors of their own.")
    .next_look("The same load through two routers.")
    .undo("Send the clients to the former router.");
    if fact(evidence, member, "here") == Some("true") {
        finding = finding.evidence("It runs on this host, together with the other programs here.");
    }
    Some(finding.series([format!("server.{member}.process.cpu_us")]))
}
