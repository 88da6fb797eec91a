//! The one rule for the verdict of a run; text, pages, JSON, exit codes and the live view all use it.
//!
//! A cause holds the system back if the mean operation would take a fifth less time without it. The verdict "not held back" requires that each part
//! of the mean was read and that no removable part is as large; an absence of findings shows nothing.

use fathom_record::budget::Budget;
use fathom_record::verdict::{Cost, LatencyClock, MIN_COST_SHARE, Outcome, Verdict};
use fathom_record::{Confidence, Finding};
use fathom_units::{Nanos, count};

use crate::causes::{self, CAUSES, Cause};
use crate::guard::{SERVER_FILLS, is_processor_shortage};
use crate::heavy_work::join_symptoms;
use crate::operation_standstill::join_caps;
use crate::outside_server::outside_server;
use crate::pricing::{PricedPart, largest, parts, price_all, wait_costs};
use crate::removable::Wait;
use crate::{Evidence, Judgement, journal_rate};

/// The sentence on a journaled rate that is refused.
const REFUSED_RATE: &str =
    "Cannot tell: more journaled writes were acknowledged than the journal's syncs can cover.";
/// An interval that begins below this share takes its estimate back: a cost of almost nothing is possible.
const MIN_INTERVAL_BEGIN: f64 = 0.01;
/// Below this many operations a second a server is idle, and there is nothing to hold back.
const MIN_EXAMINED_PER_S: f64 = 1.0;

/// Prices the findings, ranks them by their cost, and decides.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    let parts = parts(evidence, judgement);
    price_all(evidence, &mut judgement.findings, &parts);
    join_caps(&mut judgement.findings);
    join_symptoms(&mut judgement.findings);
    let rank = |finding: &Finding| causes::ranked_cause(finding).map_or(CAUSES.len(), |(rank, _)| rank);
    let share = |finding: &Finding| finding.cost.as_ref().map_or(-1.0, |cost| cost.share);
    let gain = |finding: &Finding| finding.gain.as_ref().map_or(0.0, |gain| gain.share);
    judgement.findings.sort_by(|one, other| {
        share(other)
            .total_cmp(&share(one))
            .then_with(|| other.severity.cmp(&one.severity))
            .then_with(|| rank(one).cmp(&rank(other)))
            .then_with(|| gain(other).total_cmp(&gain(one)))
    });
    judgement.findings.iter_mut().for_each(|finding| finding.priority = finding.priority());
    judgement.verdict = Some(decide(evidence, judgement, &parts));
}

fn decide(evidence: &Evidence, judgement: &Judgement, parts: &[PricedPart]) -> Verdict {
    if let Some(finding) = judgement.findings.iter().find(|one| one.id == journal_rate::ID) {
        return refused(finding);
    }
    let costly = |finding: &&Finding| finding.cost.as_ref().is_some_and(|cost| cost.share >= MIN_COST_SHARE);
    let mut named =
        judgement.findings.iter().filter(costly).filter_map(|one| Some((one, causes::ranked_cause(one)?.1)));
    if let Some((finding, cause)) = named.clone().find(|(one, _)| one.confidence != Confidence::CannotTell) {
        return held_back(evidence, finding, cause);
    }
    if let Some(verdict) = mixed_work(judgement).or_else(|| harmless_work(judgement, parts)) {
        return verdict;
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

fn held_back(evidence: &Evidence, finding: &Finding, cause: &Cause) -> Verdict {
    let cost = finding.cost.as_ref();
    let held = if cost.is_some_and(Cost::is_known) { "Held back" } else { "Probably held back" };
    let sentence =
        format!("{held} by {}: {}", cause.noun_of(finding), cost.map_or_else(String::new, cost_words));
    let mut claim = sentence_of(&finding.claim);
    if cost.is_some_and(|cost| cost.clock == LatencyClock::Server) {
        let members = evidence.members();
        let its = |member: &&String| {
            let prefix = format!("server.{member}.");
            members.len() == 1 || finding.series.iter().any(|name| name.starts_with(&prefix))
        };
        let outside = members.iter().find(its).and_then(|member| outside_server(evidence, member));
        outside.into_iter().for_each(|outside| claim.push_str(&format!(" {outside}")));
    }
    Verdict {
        cause: Some(finding.id.clone()),
        domain: Some(cause.domain),
        cost: finding.cost.clone(),
        confidence: finding.confidence,
        reasons: std::iter::once(claim).chain(finding.evidence.iter().cloned()).collect(),
        next: finding.advice.as_ref().or(finding.next_look.as_ref()).map(|next| sentence_of(next)),
        ..Verdict::new(Outcome::HeldBack, sentence)
    }
}

/// A cost in words. An interval from nothing to nearly all says that the amount is not known, and is not printed as if it were.
fn cost_words(cost: &Cost) -> String {
    let (low, high) = cost.interval;
    if low >= MIN_INTERVAL_BEGIN || high < MIN_COST_SHARE {
        return cost.words();
    }
    let whole_us = if cost.share > 0.0 { cost.mean_us / cost.share } else { 0.0 };
    let whole = Nanos((whole_us.max(0.0) * 1e3).round() as u64);
    format!(
        "how much is not known, at most {:.0} % of the mean {} of {whole}; a few moments hold most of it.",
        100.0 * high,
        clock_words(cost.clock)
    )
}

fn clock_words(clock: LatencyClock) -> &'static str {
    match clock {
        LatencyClock::Response => "response time",
        LatencyClock::Service => "time from the send",
        LatencyClock::Server => "time within the server",
    }
}

/// The verdict on work that fills a resource, if the mean of all operations is of two kinds: it says nothing about the loss of one.
fn mixed_work(judgement: &Judgement) -> Option<Verdict> {
    let is_unknown = |one: &&Finding| one.confidence == Confidence::CannotTell;
    let is_mixed = |one: &&Finding| one.id == SERVER_FILLS || causes::is_of_mixed_mean(one);
    let findings = || judgement.findings.iter().filter(is_unknown);
    let mixed = findings().find(is_mixed)?;
    // One whose loss is known says nothing about the loss by another.
    let work = findings().find(|one| causes::is_of_work(one));
    if work.is_none() && judgement.findings.iter().any(causes::is_of_work) {
        return None;
    }
    let finding = work.unwrap_or(mixed);
    Some(Verdict {
        cause: Some(finding.id.clone()),
        domain: causes::ranked_cause(finding).map(|(_, cause)| cause.domain),
        confidence: Confidence::CannotTell,
        reasons: finding.evidence.clone(),
        next: finding.advice.as_deref().map(sentence_of),
        ..Verdict::new(
            Outcome::CannotTell,
            format!("Cannot tell who loses by it: {}", lower_first(&sentence_of(&finding.claim))),
        )
    })
}

/// The verdict on work that fills a resource, if the others' loss by it is small, and nothing else is left to explain. Cannot tell if the
/// interval of that loss ends above what matters.
fn harmless_work(judgement: &Judgement, parts: &[PricedPart]) -> Option<Verdict> {
    let most = |one: &Finding| one.cost.as_ref().map_or(0.0, |cost| cost.interval.1);
    let is_known = |one: &&Finding| causes::is_of_work(one) && one.confidence != Confidence::CannotTell;
    // Of several, the one by which others may lose most.
    let known = judgement.findings.iter().filter(is_known);
    let finding = known.rev().max_by(|one, other| most(one).total_cmp(&most(other)))?;
    if !judgement.findings.iter().any(causes::is_of_mixed_mean) {
        return None;
    }
    let costly = |one: &Finding| one.cost.as_ref().is_some_and(|cost| cost.share >= MIN_COST_SHARE);
    // Waits of the resource that the work fills are its own. Any other may be one of all operations.
    let of_mixed = judgement.findings.iter().filter(|one| causes::is_of_mixed_mean(one));
    let own: Vec<Wait> = of_mixed
        .filter_map(|one| Some(causes::ranked_cause(one)?.1.waits))
        .flatten()
        .copied()
        .chain([Wait::Processor])
        .collect();
    let other_wait =
        wait_costs(parts).any(|(wait, cost)| !own.contains(&wait) && cost.share >= MIN_COST_SHARE);
    if other_wait || judgement.findings.iter().any(costly) {
        return None;
    }
    if most(finding) >= MIN_COST_SHARE {
        let (_, cause) = causes::ranked_cause(finding)?;
        return Some(probably(finding, cause, &judgement.withheld));
    }
    let lost = finding.cost.as_ref().map_or_else(
        || "nothing that was measured".to_owned(),
        |cost| format!("at most {:.0} % of their {}", 100.0 * cost.interval.1, clock_words(cost.clock)),
    );
    Some(Verdict {
        reasons: finding.evidence.clone(),
        next: finding.advice.as_deref().map(sentence_of),
        ..Verdict::new(
            Outcome::NotHeldBack,
            format!(
                "Not held back: {}, and other operations lose {lost}.",
                lower_first(finding.claim.trim_end_matches('.'))
            ),
        )
    })
}

fn lower_first(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// The rate is not one of journaled writes, so the cost of waiting for the journal is unknown.
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
        cause.noun_of(finding),
        finding.cost.as_ref().map_or_else(String::new, cost_words)
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

/// The verdict if nothing was read of a server, or if it had nothing to do.
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
    let counters = members
        .iter()
        .flat_map(|member| ["reads", "writes"].map(|kind| format!("server.{member}.{kind}.operations")));
    let read: Vec<f64> =
        counters.filter_map(|name| evidence.read_s(&name).and(evidence.sum(&name))).collect();
    if read.is_empty() {
        // A server that refused its counters is not one at rest.
        let servers = if members.len() == 1 { "the server were" } else { "any server were" };
        return Verdict {
            next: Some(
                "The notes of the run say why. The role clusterMonitor is enough to read counters; two readings are needed."
                    .to_owned(),
            ),
            ..Verdict::new(
                Outcome::NotExamined,
                format!("Not examined: no counters of operations of {servers} read."),
            )
        };
    }
    let operations: f64 = read.iter().sum();
    let per_s = if seconds > 0.0 { operations / seconds } else { 0.0 };
    let (what, next) = if per_s < MIN_EXAMINED_PER_S {
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

/// The verdict on a large wait that no finding explains, on an active guard, or on layers that do not add up.
fn unexplained(evidence: &Evidence, judgement: &Judgement, parts: &[PricedPart]) -> Option<Verdict> {
    // Reads that a larger cache would save are quick: their cause is known, and only their share may not be.
    let others = wait_costs(parts).filter(|(wait, _)| *wait != Wait::CacheMiss);
    let largest = others.max_by(|(_, one), (_, other)| one.share.total_cmp(&other.share));
    if let Some((wait, cost)) = largest.filter(|(_, cost)| cost.share >= MIN_COST_SHARE) {
        let sentence =
            format!("Cannot tell what makes operations wait for {}: {}", wait.words(), cost_words(&cost));
        let mut reasons = judgement.withheld.clone();
        reasons.push("No finding explains this wait.".to_owned());
        return Some(Verdict {
            cost: Some(cost),
            confidence: Confidence::CannotTell,
            reasons,
            next: Some(next_look(evidence)),
            ..Verdict::new(Outcome::CannotTell, sentence)
        });
    }
    let verdict = match costly_cache_misses(parts) {
        Some(cost) => uncertain_cache(&cost),
        None => small_cache(judgement),
    };
    if verdict.is_some() {
        return verdict;
    }
    if !judgement.withheld.is_empty() {
        let sentence =
            "Cannot tell: the processors were busy, so the timings say nothing about storage.".to_owned();
        return Some(Verdict {
            confidence: Confidence::CannotTell,
            reasons: judgement.withheld.clone(),
            next: Some(shortage_advice(judgement)),
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

/// The cost of reads that a larger cache would save, if they take a fifth of the mean.
fn costly_cache_misses(parts: &[PricedPart]) -> Option<Cost> {
    let costs = wait_costs(parts).filter(|(wait, _)| *wait == Wait::CacheMiss).map(|(_, cost)| cost);
    let most = costs.max_by(|one, other| one.share.total_cmp(&other.share));
    most.filter(|cost| cost.share >= MIN_COST_SHARE)
}

/// The verdict on reads that a larger cache would save and that probably take a fifth of the mean. An interval from next to nothing on is of a few
/// moments, which do not hold the mean operation back.
fn uncertain_cache(cost: &Cost) -> Option<Verdict> {
    let is_near = cost.interval.0 >= 0.5 * MIN_COST_SHARE;
    is_near.then(|| Verdict {
        confidence: Confidence::CannotTell,
        reasons: vec!["Whether these reads take a fifth of the mean is within the interval.".to_owned()],
        next: Some("Watch for longer.".to_owned()),
        ..Verdict::new(
            Outcome::CannotTell,
            format!(
                "Cannot tell whether a larger cache would help: reads of pages that it would hold take {}",
                cost_words(cost)
            ),
        )
    })
}

/// The reading that would decide: of what was not watched, or of the operations themselves.
fn next_look(evidence: &Evidence) -> String {
    let has = |prefix: &str| evidence.series.starting(prefix).next().is_some();
    let missing: Vec<&str> = [
        ("device.", "the device (--dir, --device)"),
        ("host.cpu.", "the host"),
        ("client.", "the client (a load with --watch)"),
    ]
    .into_iter()
    .filter_map(|(prefix, words)| (!has(prefix)).then_some(words))
    .collect();
    let of_server = "Look at the operations themselves while they wait: db.currentOp({waitingForLock: true}), and the server's log.";
    match missing.as_slice() {
        [] => of_server.to_owned(),
        missing if !has("device.") || !has("host.cpu.") => format!("Watch {} too.", missing.join(", ")),
        missing => format!("{of_server} Watch {} too.", missing.join(", ")),
    }
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

/// The sentence on a large part of the time within the server that was not compared with the processor time of its process: waits that the server
/// does not count may be in it.
fn unseen_engine(evidence: &Evidence, budget: &Budget) -> Option<String> {
    let engine = budget.layers.iter().find(|layer| layer.name == "engine")?;
    let share = engine.mean_us / budget.whole_us();
    let ran_us = evidence.sum_within(&format!("server.{}.process.cpu_us", budget.member), budget.window_ns);
    (ran_us.is_none() && share >= MIN_COST_SHARE).then(|| {
        format!(
            "Cannot tell: {:.0} % of the mean operation pass within server {}, and how much of that it waits was not read.",
            100.0 * share,
            budget.member
        )
    })
}

/// The advice of the finding that processors are short.
fn shortage_advice(judgement: &Judgement) -> String {
    let advice = judgement.findings.iter().find(|one| is_processor_shortage(one));
    let advice = advice.and_then(|finding| finding.advice.clone());
    advice.unwrap_or_else(|| "Measure again when processors are free.".to_owned())
}

/// The verdict if pages come from the disk as fast as they can and yet take a fifth of the mean. A larger cache would save the reads of the pages
/// that it holds, and no reading tells how many.
fn small_cache(judgement: &Judgement) -> Option<Verdict> {
    let (budget, us) =
        judgement.budgets.iter().filter(|budget| budget.operations == "all").find_map(|budget| {
            let waits =
                budget.layers.iter().filter(|layer| matches!(layer.name.as_str(), "page_read" | "evict"));
            let us: f64 = waits.map(|layer| layer.mean_us).sum();
            (us >= MIN_COST_SHARE * budget.whole_us()).then_some((budget, us))
        })?;
    let whole_us = budget.whole_us();
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

fn not_held_back(evidence: &Evidence, parts: &[PricedPart]) -> Verdict {
    let whole_us: f64 = parts.iter().map(|part| part.weight * part.load.whole_us).sum();
    let mean = Nanos((whole_us * 1e3).round() as u64);
    let largest = match largest(parts) {
        Some((wait, cost)) => {
            format!("the largest wait that could go is for {}, {:.0} %", wait.words(), 100.0 * cost.share)
        }
        None => "there is no wait that could go".to_owned(),
    };
    let sentence = match costly_cache_misses(parts) {
        None => {
            format!("Not held back: no cause makes the mean operation of {mean} longer by 20 %; {largest}.")
        }
        Some(cost) => format!(
            "Not held back: nothing slows the mean operation of {mean} by 20 %. In a few moments it reads pages that a larger cache would hold, at the speed of an idle device: {:.0} to {:.0} % of the mean.",
            100.0 * cost.interval.0,
            100.0 * cost.interval.1
        ),
    };
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
