//! The one rule for the verdict of a run; text, pages, JSON, exit codes and the live view all use it.
//!
//! A cause holds the system back where the mean operation would take a fifth less without it. That nothing does is said only where each part of
//! the mean was read and none that could go is as large; an absence of findings shows nothing.

use fathom_record::budget::Budget;
use fathom_record::verdict::{Cost, MIN_COST_SHARE, Outcome, Verdict};
use fathom_record::{Confidence, Finding, Severity};
use fathom_units::{Nanos, count};

use crate::causes::{self, CAUSES, Cause, GainBase};
use crate::cost::Load;
use crate::removable::{Removable, Wait, removable};
use crate::storage_class::VERSION;
use crate::{Evidence, Judgement, cluster, journal_rate};

/// The sentence on a journaled rate that is refused.
const REFUSED_RATE: &str =
    "Cannot tell: more journaled writes were acknowledged than the journal's syncs can cover.";
/// Below this many operations a second a server is idle, and there is nothing to hold back.
const IDLE_PER_S: f64 = 1.0;

/// Prices the findings, ranks them by their cost, and decides.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    let parts: Vec<Part> = parts(evidence, &judgement.budgets);
    let load = largest_load(&parts).or_else(|| Load::of_client(evidence));
    let above_device = waits_above_device(&judgement.findings);
    for finding in &mut judgement.findings {
        price(finding, &parts, load.as_ref(), &above_device);
    }
    limit_small_cache(&mut judgement.findings);
    let rank = |finding: &Finding| causes::of(finding).map_or(CAUSES.len(), |(rank, _)| rank);
    let share = |finding: &Finding| finding.cost.as_ref().map_or(-1.0, |cost| cost.share);
    let gain = |finding: &Finding| finding.gain.as_ref().map_or(0.0, |gain| gain.share);
    judgement.findings.sort_by(|one, other| {
        share(other)
            .total_cmp(&share(one))
            .then_with(|| other.severity.cmp(&one.severity))
            .then_with(|| rank(one).cmp(&rank(other)))
            .then_with(|| gain(other).total_cmp(&gain(one)))
    });
    judgement.verdict = Some(decide(evidence, judgement, &parts));
}

/// Beside another cause that holds the system back a small cache costs at most as much as that, so that it comes after it.
fn limit_small_cache(findings: &mut [Finding]) {
    let is_small_cache = |finding: &Finding| finding.id == causes::SMALL_CACHE;
    let others =
        findings.iter().filter(|one| !is_small_cache(one) && one.confidence != Confidence::CannotTell);
    let shares =
        others.filter_map(|one| Some(one.cost.as_ref()?.share)).filter(|share| *share >= MIN_COST_SHARE);
    let Some(most) = shares.max_by(f64::total_cmp) else { return };
    for cost in findings.iter_mut().filter(|one| is_small_cache(one)).filter_map(|one| one.cost.as_mut()) {
        if cost.share > most {
            *cost = weighted(cost.clone(), most / cost.share);
        }
    }
}

/// The waits that a limit or a queue above the device explains: other causes of the same waits explain the device's own time.
fn waits_above_device(findings: &[Finding]) -> Vec<Wait> {
    let above = findings.iter().filter(|finding| finding.confidence != Confidence::CannotTell);
    above
        .filter_map(|finding| Some((finding, causes::of(finding)?.1)))
        .filter(|(_, cause)| cause.is_above_device)
        .flat_map(|(finding, cause)| cause.waits_of(finding))
        // A queue of the client or of tickets has no device below it.
        .filter(|wait| matches!(wait, Wait::PageRead | Wait::Eviction | Wait::Journal))
        .collect()
}

/// The part of a wait that a cause explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Portion {
    Whole,
    /// Without the device's own time.
    AboveDevice,
    /// The device's own time alone.
    Device,
}

/// The operations of one server: what of their mean could go, and what that would bring them.
struct Part {
    member: String,
    /// The part of all operations that this server served.
    weight: f64,
    load: Load,
    removable: Vec<Removable>,
}

fn parts(evidence: &Evidence, budgets: &[Budget]) -> Vec<Part> {
    let all: Vec<&Budget> = budgets
        .iter()
        .filter(|budget| budget.operations == "all" && !cluster::is_router(evidence, &budget.member))
        .collect();
    let count: f64 = all.iter().map(|budget| budget.count).sum();
    let part = |budget: &&Budget| {
        let load = Load::of(evidence, budget);
        Part {
            member: budget.member.clone(),
            weight: if count > 0.0 { budget.count / count } else { 0.0 },
            removable: removable(evidence, budgets, budget, &load),
            load,
        }
    };
    all.iter().map(part).collect()
}

/// The load of the server that serves most.
fn largest_load(parts: &[Part]) -> Option<Load> {
    let largest = parts.iter().max_by(|one, other| one.weight.total_cmp(&other.weight));
    largest.map(|part| part.load.clone())
}

impl Part {
    /// The cost of these parts of waits.
    fn cost(&self, waits: &[(Wait, Portion)]) -> Option<Cost> {
        let portion = |wait: Wait| waits.iter().find(|(one, _)| *one == wait).map(|(_, portion)| *portion);
        let goes = self.removable.iter().filter_map(|one| Some((one, portion(one.wait)?)));
        let (mut us, mut low_us, mut high_us, mut unsent_us) = (0.0, 0.0, 0.0, 0.0);
        for (one, portion) in goes {
            // The queue for a connection is part of what shorter operations bring, and is counted with them.
            if matches!(one.wait, Wait::Connection | Wait::Stop) {
                unsent_us += one.us;
                continue;
            }
            let stays_us = match portion {
                Portion::Whole => 0.0,
                Portion::AboveDevice => one.device_us,
                Portion::Device => one.us - one.device_us,
            };
            us += one.us - stays_us;
            low_us += (one.interval_us.0 - stays_us).max(0.0);
            high_us += (one.interval_us.1 - stays_us).max(0.0);
        }
        let basis = format!(
            "The layers' means less one access on storage of its class (table {VERSION}), and the queue for a connection that this time makes."
        );
        let mut cost = self.load.cost(us, (low_us, high_us), &basis);
        if unsent_us > 0.0 {
            let share = unsent_us / self.load.whole_us;
            let basis = "The wait to be sent, as far as the server bears more at once.";
            let alone = self.load.cost_of_share(share, (0.5 * share, share), basis);
            cost = Some(cost.filter(|cost| cost.share > alone.share).unwrap_or(alone));
        }
        cost.map(|cost| weighted(cost, self.weight))
    }
}

fn weighted(mut cost: Cost, weight: f64) -> Cost {
    cost.share *= weight;
    cost.interval = (cost.interval.0 * weight, cost.interval.1 * weight);
    cost.mean_us *= weight;
    cost
}

/// Gives a finding that names a cause its cost; one that holds the system back is a warning.
fn price(finding: &mut Finding, parts: &[Part], load: Option<&Load>, above_device: &[Wait]) {
    let Some((_, cause)) = causes::of(finding) else { return };
    let of_gain = finding.gain.as_ref().zip(load).and_then(|(gain, load)| match cause.gain {
        GainBase::None => None,
        GainBase::Waiting => Some(load.cost_of_share(gain.share, gain.interval, &gain.basis)),
        GainBase::ClientWaiting => Some(load.cost_of_stops(gain.share, gain.interval, &gain.basis)),
    });
    let is_explained_above = |wait: Wait| match wait {
        Wait::CacheMiss => above_device.contains(&Wait::PageRead),
        _ => above_device.contains(&wait),
    };
    let portion = |wait: Wait| match cause.is_above_device {
        true => Portion::AboveDevice,
        false if is_explained_above(wait) => Portion::Device,
        false => Portion::Whole,
    };
    let waits: Vec<(Wait, Portion)> =
        cause.waits_of(finding).into_iter().map(|wait| (wait, portion(wait))).collect();
    let named = |part: &&Part| {
        let prefix = format!("server.{}.", part.member);
        finding.series.iter().any(|name| name.starts_with(&prefix))
    };
    let its: Vec<&Part> = parts.iter().filter(named).collect();
    let its = if its.is_empty() { parts.iter().collect() } else { its };
    let of_waits = its.iter().filter_map(|part| part.cost(&waits));
    finding.cost = of_waits.chain(of_gain).max_by(|one, other| one.share.total_cmp(&other.share));
    if let Some(cost) = &finding.cost
        && finding.confidence != Confidence::CannotTell
        && cost.share >= MIN_COST_SHARE
    {
        finding.severity = finding.severity.max(Severity::Warning);
        if !cause.is_proven {
            let provisional = "This rule is provisional: no recording of a known fault has shown it yet.";
            finding.evidence.push(provisional.to_owned());
        }
    }
}

fn decide(evidence: &Evidence, judgement: &Judgement, parts: &[Part]) -> Verdict {
    if let Some(finding) = judgement.findings.iter().find(|one| one.id == journal_rate::ID) {
        return refused(finding);
    }
    let costly = |finding: &&Finding| finding.cost.as_ref().is_some_and(|cost| cost.share >= MIN_COST_SHARE);
    let mut named =
        judgement.findings.iter().filter(costly).filter_map(|one| Some((one, causes::of(one)?.1)));
    if let Some((finding, cause)) = named.clone().find(|(one, _)| one.confidence != Confidence::CannotTell) {
        return held_back(finding, cause);
    }
    if let Some((finding, cause)) = named.next() {
        return probably(finding, cause, &judgement.withheld);
    }
    if parts.is_empty() {
        return not_examined(evidence);
    }
    if let Some(verdict) = unexplained(evidence, judgement, parts) {
        return verdict;
    }
    not_held_back(evidence, parts)
}

fn held_back(finding: &Finding, cause: &Cause) -> Verdict {
    let cost = finding.cost.as_ref();
    let held = if cost.is_some_and(Cost::is_known) { "Held back" } else { "Probably held back" };
    let sentence = format!("{held} by {}: {}", cause.noun, cost.map_or_else(String::new, Cost::words));
    Verdict {
        cause: Some(finding.id.clone()),
        domain: Some(cause.domain),
        cost: finding.cost.clone(),
        confidence: finding.confidence,
        reasons: std::iter::once(sentence_of(&finding.claim))
            .chain(finding.evidence.iter().cloned())
            .collect(),
        next: finding.advice.as_ref().or(finding.next_look.as_ref()).map(|next| sentence_of(next)),
        ..Verdict::new(Outcome::HeldBack, sentence)
    }
}

/// The rate is none of journaled writes, so nothing can be said of what it costs to wait for the journal.
fn refused(finding: &Finding) -> Verdict {
    Verdict {
        confidence: Confidence::CannotTell,
        reasons: finding.evidence.clone(),
        next: finding.next_look.clone(),
        ..Verdict::new(Outcome::CannotTell, REFUSED_RATE.to_owned())
    }
}

fn probably(finding: &Finding, cause: &Cause, withheld: &[String]) -> Verdict {
    let sentence = format!(
        "Cannot tell: perhaps held back by {}: {}",
        cause.noun,
        finding.cost.as_ref().map_or_else(String::new, Cost::words)
    );
    let reasons = if withheld.is_empty() { finding.evidence.clone() } else { withheld.to_vec() };
    Verdict {
        cause: Some(finding.id.clone()),
        domain: Some(cause.domain),
        cost: finding.cost.clone(),
        confidence: Confidence::CannotTell,
        reasons,
        next: finding.next_look.clone(),
        ..Verdict::new(Outcome::CannotTell, sentence)
    }
}

fn sentence_of(claim: &str) -> String {
    if claim.ends_with('.') { claim.to_owned() } else { format!("{claim}.") }
}

/// Nothing was read of a server, or it had nothing to do.
fn not_examined(evidence: &Evidence) -> Verdict {
    let members = evidence.members();
    if members.is_empty() {
        return Verdict {
            next: Some(
                "Run the load again with --watch, or watch a deployment: fathom explain --uri URI."
                    .to_owned(),
            ),
            ..Verdict::new(
                Outcome::NotExamined,
                "Not examined: no server was watched in this run.".to_owned(),
            )
        };
    }
    let seconds = evidence.window_ns.1.saturating_sub(evidence.window_ns.0) as f64 / 1e9;
    let operations: f64 = members
        .iter()
        .flat_map(|member| ["reads", "writes"].map(|kind| format!("server.{member}.{kind}.operations")))
        .filter_map(|name| evidence.sum(&name))
        .sum();
    let per_s = if seconds > 0.0 { operations / seconds } else { 0.0 };
    let (what, next) = if per_s < IDLE_PER_S {
        (
            format!("Not examined: the servers were idle, with {} operations a second.", count(per_s)),
            "Watch while the application, or a load, is at work.",
        )
    } else {
        (
            "Not examined: too few seconds or operations were read to judge the mean of one.".to_owned(),
            "Watch for longer.",
        )
    };
    Verdict { next: Some(next.to_owned()), ..Verdict::new(Outcome::NotExamined, what) }
}

/// A large wait that no finding explains, a guard that is up, or layers that do not add up.
fn unexplained(evidence: &Evidence, judgement: &Judgement, parts: &[Part]) -> Option<Verdict> {
    let largest = largest(parts).filter(|(_, cost)| cost.share >= MIN_COST_SHARE);
    if let Some((wait, cost)) = largest {
        let sentence =
            format!("Cannot tell what makes operations wait for {}: {}", wait.words(), cost.words());
        let mut reasons = judgement.withheld.clone();
        reasons.push("No finding explains this wait.".to_owned());
        return Some(Verdict {
            cost: Some(cost),
            confidence: Confidence::CannotTell,
            reasons,
            next: Some(
                "Watch the device, the host and the client too (--dir, --device, a load with --watch)."
                    .to_owned(),
            ),
            ..Verdict::new(Outcome::CannotTell, sentence)
        });
    }
    if let Some(verdict) = small_cache(judgement) {
        return Some(verdict);
    }
    if !judgement.withheld.is_empty() {
        let sentence = "Cannot tell: the timings are those of busy processors.".to_owned();
        return Some(Verdict {
            confidence: Confidence::CannotTell,
            reasons: judgement.withheld.clone(),
            next: Some("Measure again when processors are free.".to_owned()),
            ..Verdict::new(Outcome::CannotTell, sentence)
        });
    }
    let (budget, sentence) = judgement.budgets.iter().find_map(|budget| {
        let sentence = open_budget(budget).or_else(|| unseen_engine(evidence, budget));
        Some((budget, sentence.filter(|_| budget.operations == "all")?))
    })?;
    Some(Verdict {
        confidence: Confidence::CannotTell,
        reasons: budget.missing.clone(),
        next: Some("Watch the client too, and the host of the server.".to_owned()),
        ..Verdict::new(Outcome::CannotTell, sentence)
    })
}

/// The sentence on layers that do not add up.
fn open_budget(budget: &Budget) -> Option<String> {
    (!budget.closes).then(|| {
        format!(
            "Cannot tell: the layers of server {} add up to {:.0} % of the mean operation.",
            budget.member,
            100.0 * budget.closure
        )
    })
}

/// The sentence on a large part of the time within the server that was not held against the time that its process had a processor: what the server
/// does not count may wait in it.
fn unseen_engine(evidence: &Evidence, budget: &Budget) -> Option<String> {
    let engine = budget.layers.iter().find(|layer| layer.name == "engine")?;
    let share = engine.mean_us / cluster::whole_us(budget);
    let ran_us = evidence.sum_within(&format!("server.{}.process.cpu_us", budget.member), budget.window_ns);
    (ran_us.is_none() && share >= MIN_COST_SHARE).then(|| {
        format!(
            "Cannot tell: {:.0} % of the mean operation pass within server {}, and how much of that it waits was not read.",
            100.0 * share,
            budget.member
        )
    })
}

/// Pages that come from the disk as fast as they can, and yet take a fifth of the mean: a larger cache would save as many as it holds, which nothing
/// that was read tells.
fn small_cache(judgement: &Judgement) -> Option<Verdict> {
    let (budget, us) =
        judgement.budgets.iter().filter(|budget| budget.operations == "all").find_map(|budget| {
            let waits =
                budget.layers.iter().filter(|layer| matches!(layer.name.as_str(), "page_read" | "evict"));
            let us: f64 = waits.map(|layer| layer.mean_us).sum();
            (us >= MIN_COST_SHARE * cluster::whole_us(budget)).then_some((budget, us))
        })?;
    let whole_us = cluster::whole_us(budget);
    let time = |us: f64| Nanos((us.max(0.0) * 1e3).round() as u64);
    let sentence = format!(
        "Cannot tell whether a larger cache would help: operations wait {} of {} for pages, {:.0} %, at the speed of an idle device.",
        time(us),
        time(whole_us),
        100.0 * us / whole_us
    );
    Some(Verdict {
        confidence: Confidence::CannotTell,
        reasons: vec!["How many of these pages a larger cache would hold was not read.".to_owned()],
        next: Some(
            "Enlarge the cache by a tenth while the load runs (wiredTigerEngineRuntimeConfig), and watch pages.read per operation."
                .to_owned(),
        ),
        ..Verdict::new(Outcome::CannotTell, sentence)
    })
}

/// The wait that costs most, over all servers.
fn largest(parts: &[Part]) -> Option<(Wait, Cost)> {
    parts
        .iter()
        .flat_map(|part| {
            Wait::ALL.into_iter().filter_map(move |wait| Some((wait, part.cost(&[(wait, Portion::Whole)])?)))
        })
        .max_by(|(_, one), (_, other)| one.share.total_cmp(&other.share))
}

fn not_held_back(evidence: &Evidence, parts: &[Part]) -> Verdict {
    let whole_us: f64 = parts.iter().map(|part| part.weight * part.load.whole_us).sum();
    let mean = Nanos((whole_us * 1e3).round() as u64);
    let largest = match largest(parts) {
        Some((wait, cost)) => {
            format!("the largest wait that could go is for {}, {:.0} %", wait.words(), 100.0 * cost.share)
        }
        None => "there is no wait that could go".to_owned(),
    };
    let sentence =
        format!("Not held back: no cause makes the mean operation of {mean} longer by 20 %; {largest}.");
    let mut reasons: Vec<String> = parts
        .iter()
        .map(|part| {
            let waits: Vec<&str> = part.removable.iter().map(|one| one.wait.words()).collect();
            match waits.as_slice() {
                [] => format!("Server {}: every layer of the mean was read, and none waits.", part.member),
                waits => format!("Server {}: looked at waits for {}.", part.member, waits.join(", ")),
            }
        })
        .collect();
    reasons.extend(
        evidence
            .idle_pct()
            .map(|idle| format!("Headroom: the host's processors are idle {idle:.0} % of the time.")),
    );
    Verdict { reasons, ..Verdict::new(Outcome::NotHeldBack, sentence) }
}

#[cfg(test)]
mod tests;
