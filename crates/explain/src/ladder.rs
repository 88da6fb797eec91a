//! Judges loads of rising strength: the point beyond which more connections bring no more throughput, and whether throughput falls
//! again (docs/methods.md#scaling-laws).
//!
//! The peak of a scaling law is refused, with the reason, unless six levels with three repeats each support it, one of them is beyond
//! it, and a plain cap does not fit as well. Loads whose client was busy itself say nothing about a server and are left out.

use fathom_record::disk::Entry;
use fathom_record::load::Load;
use fathom_record::pictures::scaling::{Scaling, ScalingCurve};
use fathom_record::{Confidence, Finding, Severity};
use fathom_stats::{Curve, Fit, LadderLevel, Level, ModelComparison, fit, knee};
use fathom_units::{Nanos, count, decimal};

use crate::{Evidence, Judgement};

/// The fewest levels of a ladder.
const MIN_LEVELS: usize = 3;
/// Rates of one number of connections are levels of their own if they differ by more than this: a held rate varies by less.
const MIN_LEVEL_RATIO: f64 = 1.05;
/// A ladder of rates has passed its knee if its slowest level takes this many times its fastest: half of its time is then a wait.
const MIN_SLOWDOWN_PAST_KNEE: f64 = 2.0;
/// A shorter step may lack a whole cycle of the usual checkpoint, which is 60 s and the checkpoint's duration.
const MIN_STEP_S: f64 = 120.0;
/// Points along a curve.
const POINTS: usize = 60;

/// The loads of one server and workload, with the laws of scaling as far as they can be fitted.
struct Ladder<'e> {
    all: Vec<&'e Load>,
    /// Those that say something about the server.
    usable: Vec<&'e Load>,
    laws: Option<ModelComparison>,
}

impl<'e> Ladder<'e> {
    fn new(all: Vec<&'e Load>) -> Ladder<'e> {
        let usable = usable(&all);
        Ladder { laws: fit(&levels(&usable)).ok(), usable, all }
    }
}

/// Adds what each ladder of loads shows.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    for ladder in groups(evidence).into_iter().map(Ladder::new) {
        judgement.findings.extend(finding_of(&ladder));
        judgement.scalings.extend(scaling_of(&ladder));
    }
}

/// The loads of each server and workload.
fn groups(evidence: &Evidence) -> Vec<Vec<&Load>> {
    let mut groups: Vec<Vec<&Load>> = Vec::new();
    for load in evidence
        .results
        .iter()
        .filter_map(|entry| if let Entry::Load(load) = entry { Some(load) } else { None })
    {
        let same = |group: &&mut Vec<&Load>| {
            group.first().is_some_and(|one| one.server == load.server && one.workload == load.workload)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(load),
            None => groups.push(vec![load]),
        }
    }
    groups
}

/// The loads that say something about the server.
fn usable<'e>(group: &[&'e Load]) -> Vec<&'e Load> {
    let says = |load: &&Load| !load.client_limited && load.per_s > 0.0 && load.connections > 0;
    group.iter().copied().filter(says).collect()
}

/// The loads in the form that the laws of scaling take.
fn levels(loads: &[&Load]) -> Vec<Level> {
    let level = |load: &&Load| Level { concurrency: load.connections as f64, throughput: load.per_s };
    loads.iter().map(level).collect()
}

fn finding_of(ladder: &Ladder<'_>) -> Option<Finding> {
    let Ladder { all: group, usable, laws } = ladder;
    let connections = distinct(group.iter().map(|load| load.connections as f64));
    let rates = distinct(group.iter().map(|load| load.per_s));
    if connections < MIN_LEVELS && (connections > 1 || rates < MIN_LEVELS) {
        return None;
    }
    let left_out = group.len() - usable.len();
    let highest = |loads: &[&Load]| loads.iter().map(|load| load.per_s).fold(0.0, f64::max);
    if left_out > 0 && highest(usable) < highest(group) {
        return Some(client_limited(group, left_out));
    }
    let finding = match connections >= MIN_LEVELS {
        true => of_connections(usable, laws.as_ref()?),
        false => of_rates(usable),
    }?;
    Some(if usable.iter().any(|load| load.seconds < MIN_STEP_S) {
        finding.evidence(
            "Steps are shorter than two cycles of a checkpoint, so they are blind to what checkpoints do",
        )
    } else {
        finding
    })
}

/// The number of values that differ by more than 5 %.
fn distinct(values: impl Iterator<Item = f64>) -> usize {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup_by(|a, b| *a < *b * MIN_LEVEL_RATIO);
    sorted.len()
}

fn client_limited(group: &[&Load], left_out: usize) -> Finding {
    let server = group.first().map_or("", |load| load.server.as_str());
    Finding::new(
        "load-knee-hidden",
        Severity::Note,
        format!("Where {server} stops giving more cannot be determined: the client was busy itself in the strongest loads"),
    )
    .confidence(Confidence::CannotTell)
    .evidence(format!("In {left_out} of {} loads the client used nearly all of its processors", group.len()))
    .next_look("Repeat the ladder with more client machines, or fewer operations for each byte of the client's work.")
}

/// The mean response time of a load in nanoseconds.
fn mean_ns(load: &Load) -> Option<f64> {
    let mut sums = (0.0, 0.0);
    for operation in &load.by_operation {
        if let Some(latency) = operation.response.as_ref().or(operation.service.as_ref()) {
            sums = (sums.0 + latency.mean_ns * operation.count as f64, sums.1 + operation.count as f64);
        }
    }
    (sums.1 > 0.0).then(|| sums.0 / sums.1)
}

/// The number of connections beyond which more bring nothing: by the bounds of the ladder if one connection was measured, else by the corner of
/// the cap, if that law fits best.
fn at_knee(loads: &[&Load], laws: &ModelComparison) -> Option<(f64, f64)> {
    let levels: Vec<LadderLevel> = loads
        .iter()
        .filter_map(|load| {
            let concurrency = u32::try_from(load.connections).ok()?;
            Some(LadderLevel { concurrency, throughput_per_s: load.per_s, mean_latency_ns: mean_ns(load)? })
        })
        .collect();
    let bounds = knee(&levels).filter(|knee| knee.plateau_reached);
    bounds.map(|knee| (knee.concurrency_at_knee, knee.throughput_max_per_s)).or_else(|| {
        match laws.best_fit()?.curve {
            Curve::Cap { gain, ceiling, .. } => {
                let highest = loads.iter().map(|load| load.connections).max()? as f64;
                Some((ceiling / gain, ceiling)).filter(|(corner, _)| *corner < highest)
            }
            _ => None,
        }
    })
}

fn of_connections(loads: &[&Load], laws: &ModelComparison) -> Option<Finding> {
    let first = loads.first()?;
    let what = format!("{} under {}", first.server, first.workload);
    let rivals: Vec<String> =
        laws.fits.iter().map(|fit| format!("{} {}", fit.model.name(), decimal(fit.aicc))).collect();
    let law = format!(
        "Of the laws of scaling {} fits best (AICc, lower is better: {})",
        laws.best.name(),
        rivals.join(", ")
    );
    let peak = match (&laws.peak, &laws.peak_refused) {
        (Some(peak), _) => format!(
            "Throughput is highest at {} connections (95 %: {} to {}) and falls beyond",
            count(peak.concurrency),
            count(peak.interval.low),
            count(peak.interval.high)
        ),
        (None, why) => {
            format!("No peak of throughput is claimed: {}", why.as_deref().unwrap_or("the fit gives none"))
        }
    };
    let finding = match (&laws.peak, at_knee(loads, laws)) {
        (Some(peak), _) => Finding::new(
            "load-peak",
            Severity::Warning,
            format!("More than {} connections make {what} slower, not faster", count(peak.concurrency)),
        )
        .advice(format!("Keep the pools of all clients together at or below {}", count(peak.concurrency))),
        (None, Some((at, most))) => Finding::new(
            "load-knee",
            Severity::Note,
            format!(
                "{what} gives at most about {} operations a second; more than about {} connections only wait",
                count(most),
                count(at.max(1.0).ceil())
            ),
        ),
        (None, None) => return None,
    };
    Some(
        finding
            .confidence(if laws.misses_shape() { Confidence::Likely } else { Confidence::Certain })
            .evidence(law)
            .evidence(peak)
            .next_look(
                "What is full at the knee: the queues and the layers of the loads just below and above it.",
            )
            .source(
                "docs/methods.md#scaling-laws; Gunther, Guerrilla Capacity Planning, 2007; Lazowska and others, 1984, chapter 5",
            ),
    )
}

/// Rates of one number of connections: the one at which the response time over throughput is least, where those above it are
/// clearly slower.
fn of_rates(loads: &[&Load]) -> Option<Finding> {
    // A closed loop and operations at a rate answer different questions.
    let at_a_rate = loads.iter().any(|load| load.offered_per_s.is_some());
    let mut levels: Vec<(f64, f64)> = loads
        .iter()
        .filter(|load| load.offered_per_s.is_some() || !at_a_rate)
        .filter_map(|load| Some((load.per_s, mean_ns(load)?)))
        .collect();
    levels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (levels.first()?, levels.last()?);
    let power = levels.iter().min_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)))?;
    if last.1 < MIN_SLOWDOWN_PAST_KNEE * first.1 || power.0 >= last.0 {
        return None;
    }
    let one = loads.first()?;
    Some(
        Finding::new(
            "load-knee",
            Severity::Note,
            format!(
                "{} under {} is best used at about {} operations a second; beyond, time grows faster than throughput",
                one.server,
                one.workload,
                count(power.0)
            ),
        )
        .confidence(Confidence::Likely)
        .evidence(format!(
            "The mean response was {} at {} a second, {} at {} and {} at {}",
            Nanos(first.1 as u64),
            count(first.0),
            Nanos(power.1 as u64),
            count(power.0),
            Nanos(last.1 as u64),
            count(last.0)
        ))
        .next_look("'fathom ycsb run --find-max' finds the highest rate that holds an objective, to 3 %.")
        .source("Lazowska and others, Quantitative System Performance, 1984, chapter 5; docs/methods.md#the-knee-of-a-disk"),
    )
}

/// The ladders of connections of a run; those too short for any law are left out.
pub(crate) fn scalings(evidence: &Evidence) -> Vec<Scaling> {
    groups(evidence).into_iter().filter_map(|group| scaling_of(&Ladder::new(group))).collect()
}

/// A ladder with the laws fitted to it, as a chart shows it.
fn scaling_of(ladder: &Ladder<'_>) -> Option<Scaling> {
    let (loads, laws) = (&ladder.usable, ladder.laws.as_ref()?);
    if distinct(loads.iter().map(|load| load.connections as f64)) < MIN_LEVELS {
        return None;
    }
    let first = loads.first()?;
    let mut points: Vec<(f64, f64)> =
        loads.iter().map(|load| (load.connections as f64, load.per_s)).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let highest = points.last()?.0;
    let peak = match (&laws.peak, &laws.peak_refused) {
        (Some(peak), _) => Ok((peak.concurrency, (peak.interval.low, peak.interval.high))),
        (None, why) => Err(why.clone().unwrap_or_default()),
    };
    Some(Scaling {
        of: format!("{} under {}", first.server, first.workload),
        levels: points,
        curves: curves(laws, highest),
        peak,
    })
}

/// The curves from 1 to `highest` connections, the best law first.
fn curves(laws: &ModelComparison, highest: f64) -> Vec<ScalingCurve> {
    let mut fits: Vec<_> = laws.fits.iter().collect();
    fits.sort_by_key(|fit| (fit.model != laws.best, fit.model.parameters()));
    let along = |at: usize| 1.0 + (highest - 1.0) * at as f64 / (POINTS - 1) as f64;
    let curve = |fit: &&Fit| ScalingCurve {
        law: fit.model.name(),
        aicc: fit.aicc,
        points: (0..POINTS).map(|at| (along(at), fit.curve.throughput_at(along(at)))).collect(),
    };
    fits.iter().map(curve).collect()
}

#[cfg(test)]
mod tests;
