//! The cost of each finding: the waits of its cause in the mean operation of each server.
//!
//! Two tables list the waits (`removable`) and the causes (`causes`); queueing formulas give the gain of a shorter wait (`cost`). Several findings may
//! name one wait, so a wait above a device is charged to the limit or the queue there and not to the device as well.

use fathom_record::budget::Budget;
use fathom_record::verdict::{Cost, Domain, MIN_COST_SHARE};
use fathom_record::{Confidence, Finding, Severity};

use crate::caps::REACHED_ID;
use crate::causes::{self, GainBase};
use crate::cost::BudgetLoad;
use crate::outside_server::SENT;
use crate::removable::{RemovableTime, Wait, removable};
use crate::storage_class::{VERSION, WAKE_US};
use crate::{Evidence, Judgement, member, stalls};

pub(crate) fn price_all(evidence: &Evidence, findings: &mut [Finding], parts: &[PricedPart]) {
    let load = largest_load(parts).or_else(|| BudgetLoad::from_client(evidence));
    let above_device = waits_above_device(findings);
    for finding in findings.iter_mut() {
        price(finding, parts, load.as_ref(), &above_device);
    }
    limit_last_causes(findings);
    withdraw_cache_advice(findings);
}

/// Takes the advice to enlarge the cache from reads that the kernel holds in a throttle: they wait for the limit, and not for memory.
fn withdraw_cache_advice(findings: &mut [Finding]) {
    let holds_reads = |one: &Finding| {
        let cause = causes::ranked_cause(one).map(|(_, cause)| cause);
        one.id == REACHED_ID && cause.is_some_and(|cause| cause.waits_of(one).contains(&Wait::PageRead))
    };
    if !findings.iter().any(holds_reads) {
        return;
    }
    let is_small = |one: &Finding| one.cost.as_ref().is_none_or(|cost| cost.share < MIN_COST_SHARE);
    let of_reads = |one: &&mut Finding| matches!(one.id.as_str(), "cache-misses-on-path" | "small-cache");
    for finding in findings.iter_mut().filter(of_reads).filter(|one| is_small(one)) {
        finding.severity = Severity::Note;
        finding.advice = None;
        finding.undo = None;
        finding.gain = None;
        finding.evidence.push("These reads wait in the throttle above the device.".to_owned());
    }
}

/// Limits the cost of causes that rank last to that of the largest other cause.
fn limit_last_causes(findings: &mut [Finding]) {
    let is_last = |finding: &Finding| causes::ranked_cause(finding).is_some_and(|(_, cause)| cause.is_last);
    let others = findings.iter().filter(|one| !is_last(one) && one.confidence != Confidence::CannotTell);
    let shares =
        others.filter_map(|one| Some(one.cost.as_ref()?.share)).filter(|share| *share >= MIN_COST_SHARE);
    let Some(most) = shares.max_by(f64::total_cmp) else { return };
    for cost in findings.iter_mut().filter(|one| is_last(one)).filter_map(|one| one.cost.as_mut()) {
        if cost.share > most {
            *cost = weighted(cost.clone(), most / cost.share);
        }
    }
}

/// The waits that a limit or a queue above the device explains. Other causes of the same waits then explain the device's own time.
fn waits_above_device(findings: &[Finding]) -> Vec<Wait> {
    let above = findings.iter().filter(|finding| finding.confidence != Confidence::CannotTell);
    above
        .filter_map(|finding| Some((finding, causes::ranked_cause(finding)?.1)))
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
    /// The whole wait, and its processor time.
    WithWork,
    /// Without the device's own time.
    AboveDevice,
    /// The device's own time alone.
    Device,
    /// The time that its threads wait for a processor.
    Processor,
}

/// The operations of one server: the parts of their mean that could go, and the gain of that.
pub(crate) struct PricedPart {
    pub(crate) member: String,
    /// The part of all operations that this server served.
    pub(crate) weight: f64,
    pub(crate) load: BudgetLoad,
    pub(crate) removable: Vec<RemovableTime>,
    /// The wait during stalls, and its share of the operations' time at the server.
    stall_wait: Option<(Wait, f64)>,
}

/// One part for each server that clients reach.
pub(crate) fn parts(evidence: &Evidence, judgement: &Judgement) -> Vec<PricedPart> {
    let budgets = &judgement.budgets;
    let all: Vec<&Budget> = budgets
        .iter()
        .filter(|budget| budget.operations == "all" && !member::is_router(evidence, &budget.member))
        .collect();
    let count: f64 = all.iter().map(|budget| budget.count).sum();
    let part = |budget: &&Budget| {
        let load = BudgetLoad::from_evidence(evidence, budget);
        PricedPart {
            member: budget.member.clone(),
            weight: if count > 0.0 { budget.count / count } else { 0.0 },
            removable: removable(evidence, budgets, budget, &load),
            stall_wait: stalls::wait_of_findings(evidence, &judgement.findings, &budget.member),
            load,
        }
    };
    all.iter().map(part).collect()
}

/// The load of the server that serves most.
fn largest_load(parts: &[PricedPart]) -> Option<BudgetLoad> {
    let largest = parts.iter().max_by(|one, other| one.weight.total_cmp(&other.weight));
    largest.map(|part| part.load.clone())
}

impl PricedPart {
    /// The cost of these parts of waits. It includes the wait to be sent behind stops if these belong to the cause.
    fn cost(&self, waits: &[(Wait, Portion)], stops: bool) -> Option<Cost> {
        let portion = |wait: Wait| waits.iter().find(|(one, _)| *one == wait).map(|(_, portion)| *portion);
        let goes = self.removable.iter().filter_map(|one| Some((one, portion(one.wait)?)));
        let (mut us, mut low_us, mut high_us, mut unsent_us, mut work_us) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (one, portion) in goes {
            // The queue for a connection shortens with the operations, and is counted with their gain.
            if matches!(one.wait, Wait::Connection | Wait::Stop) {
                unsent_us += one.us;
                continue;
            }
            let device_us = one.device_us.unwrap_or(0.0);
            let stays_us = match portion {
                Portion::Whole | Portion::WithWork => 0.0,
                Portion::AboveDevice => (device_us + one.wakes_us).min(one.us),
                Portion::Device => one.us - device_us,
                Portion::Processor => one.us - one.processor_us.unwrap_or(0.0),
            };
            if portion == Portion::WithWork {
                work_us += one.us - device_us;
            }
            us += one.us - stays_us;
            low_us += (one.interval_us.0 - stays_us).max(0.0);
            high_us += (one.interval_us.1 - stays_us).max(0.0);
        }
        let basis = format!(
            "The layers' means less one access on storage of its class (table {VERSION}), and the queue for a connection that this time makes."
        );
        let mut cost = self.load.cost(us, (low_us, high_us), work_us, &basis);
        if unsent_us > 0.0 {
            let share = unsent_us / self.load.whole_us;
            let basis = "The wait to be sent, as far as the server can serve more at once.";
            let alone = self.load.cost_of_share(share, (0.5 * share, share), basis);
            cost = [cost, alone].into_iter().flatten().max_by(|one, other| one.share.total_cmp(&other.share));
        }
        let stopped_share = stops.then(|| self.stopped_share()).filter(|share| *share > 0.0);
        let cost = match stopped_share.or_else(|| self.stalled_share(waits)) {
            Some(share) => self.with_stalls(cost, share),
            None => cost,
        };
        cost.map(|cost| weighted(cost, self.weight))
    }

    /// The share of the mean that operations waited behind stalls because of these waits.
    fn stalled_share(&self, waits: &[(Wait, Portion)]) -> Option<f64> {
        let (wait, share) = self.stall_wait?;
        let goes = waits
            .iter()
            .any(|(one, portion)| *one == wait && !matches!(portion, Portion::Device | Portion::Processor));
        let is_counted = waits.iter().any(|(one, _)| *one == Wait::Stop);
        (goes && !is_counted).then(|| share * self.stopped_share()).filter(|share| *share > 0.0)
    }

    /// The share of the mean that operations waited to be sent behind stops, less the time in which a client's thread wakes up.
    fn stopped_share(&self) -> f64 {
        (self.load.stop_us() - WAKE_US).max(0.0) / self.load.whole_us
    }

    fn with_stalls(&self, cost: Option<Cost>, share: f64) -> Option<Cost> {
        let (own, (low, high)) = cost.map_or((0.0, (0.0, 0.0)), |cost| (cost.share, cost.interval));
        let basis = "The layers' means less one access on storage of its class, and the wait to be sent behind stalls that they fill.";
        self.load.cost_of_share(own + share, (low + share, high + share), basis)
    }
}

fn weighted(mut cost: Cost, weight: f64) -> Cost {
    cost.share *= weight;
    cost.interval = (cost.interval.0 * weight, cost.interval.1 * weight);
    cost.mean_us *= weight;
    cost
}

/// Gives a finding that names a cause its cost; one that holds the system back is a warning.
fn price(finding: &mut Finding, parts: &[PricedPart], load: Option<&BudgetLoad>, above_device: &[Wait]) {
    let Some((_, cause)) = causes::ranked_cause(finding) else { return };
    let of_gain = finding.gain.as_ref().zip(load).and_then(|(gain, load)| match cause.gain {
        GainBase::None | GainBase::OthersLoss | GainBase::OthersWait => None,
        _ if gain.of == SENT => load.cost_before_arrival(gain.share, gain.interval, &gain.basis),
        GainBase::Waiting => {
            let rest = 1.0 - explained_share(finding, parts);
            let (low, high) = gain.interval;
            load.cost_of_share(rest * gain.share, (rest * low, rest * high), &gain.basis)
        }
        GainBase::ClientWaiting => load.cost_of_stops(gain.share, gain.interval, &gain.basis),
    });
    let is_explained_above = |wait: Wait| match wait {
        Wait::CacheMiss => above_device.contains(&Wait::PageRead),
        _ => above_device.contains(&wait),
    };
    let portion = |wait: Wait| match cause.is_above_device {
        true => Portion::AboveDevice,
        false if is_explained_above(wait) => Portion::Device,
        // Pages that stay in the cache need not be written, read, checked or decompressed.
        false if cause.domain == Domain::Cache => Portion::WithWork,
        false => Portion::Whole,
    };
    let mut waits: Vec<(Wait, Portion)> =
        cause.waits_of(finding).into_iter().map(|wait| (wait, portion(wait))).collect();
    // A sync takes hardly any processor time: its time above its device is then a wait of its threads for a processor.
    if cause.domain == Domain::Processors && !waits.is_empty() && !is_explained_above(Wait::Journal) {
        waits.push((Wait::Journal, Portion::Processor));
    }
    let named = |part: &&PricedPart| {
        let prefix = format!("server.{}.", part.member);
        finding.series.iter().any(|name| name.starts_with(&prefix))
    };
    let its: Vec<&PricedPart> = parts.iter().filter(named).collect();
    let its = if its.is_empty() { parts.iter().collect() } else { its };
    // A quota stops the server at times, and operations that become due meanwhile wait to be sent.
    let stops = finding.series.iter().any(|name| name.ends_with(".process.throttled_us"));
    // The wait that was measured while a quota held the server back is a better estimate than the layers.
    let has_gain = finding.gain.is_some() && load.is_some() && cause.gain != GainBase::None;
    let of_waits = its.iter().filter(|_| !stops || !has_gain).filter_map(|part| part.cost(&waits, stops));
    // By two clocks, the longer time is the loss: a small share of seconds is more than all of a millisecond.
    let more = |one: &Cost, other: &Cost| match one.clock == other.clock {
        true => one.share.total_cmp(&other.share),
        false => one.mean_us.total_cmp(&other.mean_us),
    };
    let given =
        finding.cost.take().filter(|_| matches!(cause.gain, GainBase::OthersLoss | GainBase::OthersWait));
    let most = of_waits.chain(of_gain).chain(given).max_by(more);
    // A share of zero is no cost: the reason is said in its place.
    if most.as_ref().is_some_and(|cost| cost.share <= 0.0) {
        finding.evidence.push("Without it, operations of this run would not have been faster.".to_owned());
    } else if finding.is_alarm() && !load.is_some_and(BudgetLoad::is_timed) {
        finding.evidence.push("No operation was timed, so its cost is not known.".to_owned());
    }
    finding.cost = most.filter(|cost| cost.share > 0.0);
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

/// The share of the finding `stalls` that is a wait with causes of its own.
fn explained_share(finding: &Finding, parts: &[PricedPart]) -> f64 {
    let waits = parts.iter().filter_map(|part| part.stall_wait).filter(|_| finding.id == "stalls");
    waits.map(|(_, share)| share).fold(0.0, f64::max)
}

/// The wait that costs most, over all servers.
pub(crate) fn largest(parts: &[PricedPart]) -> Option<(Wait, Cost)> {
    wait_costs(parts).max_by(|(_, one), (_, other)| one.share.total_cmp(&other.share))
}

/// The cost of each wait of each server.
pub(crate) fn wait_costs(parts: &[PricedPart]) -> impl Iterator<Item = (Wait, Cost)> {
    parts.iter().flat_map(|part| {
        Wait::ALL
            .into_iter()
            .filter_map(move |wait| Some((wait, part.cost(&[(wait, Portion::Whole)], false)?)))
    })
}
