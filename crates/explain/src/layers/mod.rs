//! The budget of an operation's mean time: layers for each server, the cause of its tail, and the conclusions
//! from them.
//!
//! The method: docs/methods.md#the-latency-budget. Shares are computed on means only, never on percentiles. The time that the layers
//! do not explain is a figure of its own. Closure is a check that can fail: it compares the client's mean with the operations that it had under
//! way, the server's remainder with the processor time of its process, and the gap between both with the round
//! trip.
//!
//! The tail is the difference between the layers in seconds with a high 99th percentile and those in calm seconds. Percentiles do
//! not add up, so they only choose the seconds; the figures compared are means. Choosing the worst seconds finds some difference in
//! any noise, so a finding needs a difference that is both large and certain.

mod advice;
mod assemble;
mod columns;
mod conditions;
mod frame;
mod parts;
mod shape;

use fathom_record::budget::{Budget, Layer};
use fathom_record::{Confidence, Finding, Severity};
use fathom_stats::{SeededRandom, bootstrap_sums, quantile};
use frame::ServerFrame;

use self::assemble::{RESAMPLES, blocks};
use self::columns::COLUMNS;
use self::frame::sum_of;
use self::parts::{LAYERS, OperationSet, WindowDecisions, parts};
use self::shape::shape_of;
use crate::client::ClientLoads;
use crate::{Evidence, Judgement, causes, guard, member};

/// Adds the budgets of every server that served operations, the layer that makes their tail, and advice.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    let client = ClientLoads::from_evidence(evidence);
    for member in evidence.members().into_iter().filter(|member| !member::is_router(evidence, member)) {
        let Some(frame) = ServerFrame::from_evidence(evidence, &member, client.as_ref()) else { continue };
        let mut budgets = assemble::budgets(evidence, &frame);
        budgets.iter_mut().for_each(|budget| member::split(evidence, budget));
        for finding in advice::findings(evidence, client.as_ref(), &frame, &budgets) {
            // For a load that fills the machine, useless work is processor time, however long the work waits for a processor.
            if causes::evicts_early(&finding) && guard::fills_the_machine(evidence) {
                judgement.findings.push(finding);
            } else {
                judgement.add_unless_withheld(finding);
            }
        }
        let all = budgets.iter().find(|budget| budget.operations == "all");
        judgement.findings.extend(all.and_then(|all| tail(evidence, &frame, all)));
        judgement.budgets.extend(budgets);
    }
}

/// Whether a server's collection latency ends before the wait for the journal and the write concern.
pub(crate) fn waits_outside(evidence: &Evidence, member: &str) -> bool {
    let frame = ServerFrame::from_evidence(evidence, member, None).filter(|frame| frame.of_namespace);
    frame.is_some_and(|frame| shape::waits_outside(true, &frame.total()))
}

/// The fewest seconds for a top decile.
const MIN_SECONDS: usize = 50;
/// A tail is a finding if its seconds are this many times as slow on average, and slower by at least this much.
const MIN_TAIL_RATIO: f64 = 2.0;
const MIN_TAIL_EXTRA_US: f64 = 1000.0;
/// A layer makes the tail if it makes more than this part of the difference.
const MIN_TAIL_SHARE: f64 = 0.5;

/// The finding that names the layer which makes the tail of a server's operations.
pub(crate) fn tail(evidence: &Evidence, frame: &ServerFrame, all: &Budget) -> Option<Finding> {
    let (shape, _) = shape_of(frame, &frame.total())?;
    let finite: Vec<f64> = frame.p99_ns.iter().copied().filter(|p99| p99.is_finite()).collect();
    if finite.len() < MIN_SECONDS || !shape.client || !all.closes {
        return None;
    }
    let edge_ns = quantile(&finite, 0.9)?;
    let is_tail = |second: usize| frame.p99_ns.get(second).is_some_and(|p99| *p99 > edge_ns);
    // Each block is a row of calm seconds with a row of tail seconds behind it.
    let rows: Vec<Vec<f64>> = blocks(evidence, frame)
        .into_iter()
        .map(|range| {
            let side = |tail: bool| {
                let seconds = range.clone().filter(|second| is_tail(*second) == tail);
                sum_of(seconds.filter_map(|second| frame.rows.get(second)))
            };
            [side(false), side(true)].concat()
        })
        .collect();
    let mut total = vec![0.0; 2 * COLUMNS];
    rows.iter().for_each(|row| total.iter_mut().zip(row).for_each(|(sum, value)| *sum += value));
    let point = difference(&total, &shape)?;
    let mut stream = SeededRandom::from_seed(evidence.seed).split(77);
    let figures = |row: &[f64]| {
        difference(row, &shape).map_or(vec![f64::NAN; LAYERS.len()], |found| found.shares.to_vec())
    };
    let resampled = bootstrap_sums(&rows, 0.95, RESAMPLES, &mut stream, figures)?;
    if point.tail_us < MIN_TAIL_RATIO * point.calm_us || point.tail_us - point.calm_us < MIN_TAIL_EXTRA_US {
        return None;
    }
    let (at, share) =
        point.shares.iter().copied().enumerate().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let interval = resampled.get(at).copied().flatten()?.interval;
    let name = LAYERS.get(at)?;
    let layer = all.layers.iter().find(|layer| layer.name == *name)?;
    (share > MIN_TAIL_SHARE && interval.low > MIN_TAIL_SHARE).then(|| {
        finding(all, layer, (share, interval.low, interval.high), (point.calm_us, point.tail_us), edge_ns)
    })
}

struct Difference {
    calm_us: f64,
    tail_us: f64,
    /// Each layer's share of the difference.
    shares: [f64; LAYERS.len()],
}

fn difference(both: &[f64], shape: &WindowDecisions) -> Option<Difference> {
    let (calm, tail) = both.split_at_checked(COLUMNS)?;
    let (calm, tail) = (parts(calm, OperationSet::All, shape), parts(tail, OperationSet::All, shape));
    let whole = tail.whole - calm.whole;
    let mut shares = [0.0; LAYERS.len()];
    for (share, (tail, calm)) in shares.iter_mut().zip(tail.layers.iter().zip(&calm.layers)) {
        *share = (tail - calm) / whole;
    }
    (calm.count > 0.0 && tail.count > 0.0 && whole > 0.0).then_some(Difference {
        calm_us: calm.whole,
        tail_us: tail.whole,
        shares,
    })
}

fn finding(
    all: &Budget,
    layer: &Layer,
    (share, low, high): (f64, f64, f64),
    (calm_us, tail_us): (f64, f64),
    edge_ns: f64,
) -> Finding {
    let words = layer.name.replace('_', " ");
    Finding::new(
        format!("tail-made-by-{}", layer.name.replace('_', "-")),
        Severity::Note,
        format!("The slow seconds of server {} are made by {words}.", all.member),
    )
    .confidence(Confidence::Likely)
    .evidence(format!(
        "In the tenth of the seconds with a 99th percentile above {:.1} ms an operation takes {:.2} ms on average, in the others \
         {:.2} ms.",
        edge_ns / 1e6,
        tail_us / 1000.0,
        calm_us / 1000.0
    ))
    .evidence(format!(
        "{words} makes {:.0} % of the difference (95 % interval {:.0} to {:.0} %).",
        100.0 * share,
        100.0 * low,
        100.0 * high
    ))
    .next_look("Look whether those seconds come at a period (fathom explain on a run of half an hour), and what else ran in them.")
    .window(all.window_ns)
    .series(layer.series.iter().cloned())
}
