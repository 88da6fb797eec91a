//! Loads at rising concurrency with the laws fitted to them, as a chart shows them.

use fathom_record::pictures::scaling::{Scaling, ScalingCurve};
use fathom_stats::Comparison;

use super::{FEWEST_LEVELS, Ladder, distinct, groups};
use crate::Evidence;

/// Points along a curve.
const POINTS: usize = 60;

/// The ladders of connections of a run; those too short for any law are left out.
pub(crate) fn scalings(evidence: &Evidence) -> Vec<Scaling> {
    groups(evidence).into_iter().filter_map(|group| of_ladder(&Ladder::of(group))).collect()
}

/// One of them.
pub(super) fn of_ladder(ladder: &Ladder<'_>) -> Option<Scaling> {
    let (loads, laws) = (&ladder.usable, ladder.laws.as_ref()?);
    if distinct(loads.iter().map(|load| load.connections as f64)) < FEWEST_LEVELS {
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
fn curves(laws: &Comparison, highest: f64) -> Vec<ScalingCurve> {
    let mut fits: Vec<_> = laws.fits.iter().collect();
    fits.sort_by_key(|fit| (fit.model != laws.best, fit.model.parameters()));
    let along = |at: usize| 1.0 + (highest - 1.0) * at as f64 / (POINTS - 1) as f64;
    let curve = |fit: &&fathom_stats::Fit| ScalingCurve {
        law: fit.model.name(),
        aicc: fit.aicc,
        points: (0..POINTS).map(|at| (along(at), fit.curve.throughput_at(along(at)))).collect(),
    };
    fits.iter().map(curve).collect()
}
