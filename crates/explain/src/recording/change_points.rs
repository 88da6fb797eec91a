//! Cuts a recording into stretches of like behaviour, where the level of a figure changes and remains so for hours
//! (docs/methods.md#stretches-of-a-recording).
//!
//! The normal of two hours is compared with that of the two hours before them. Incidents of up to an hour do not change either.

use super::normal::NormalLevel;

/// Bins on either side of a change: two hours. No stretch is shorter.
pub(super) const SIDE_BINS: usize = 720;
/// The bins between two places that are compared.
const STEP_BINS: usize = 60;
/// The least factor of a change, and its least size in spreads.
const MIN_RATIO: f64 = 1.25;
const MIN_SPREADS: f64 = 3.0;
/// The least share of the bins of a side that have a value.
const MIN_KNOWN_SHARE: f64 = 0.1;

/// A place at which the level of a figure changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ChangePoint {
    /// The first bin of the new level.
    pub(super) bin: usize,
    /// The logarithms of the usual figure in the two hours before it and after it.
    pub(super) before_log: f64,
    pub(super) after_log: f64,
}

/// The places at which the level of these logarithms changes, in the order of time.
pub(super) fn change_points(logs: &[Option<f64>]) -> Vec<ChangePoint> {
    let last = (logs.len() + 1).saturating_sub(SIDE_BINS);
    let mut candidates: Vec<ChangePoint> =
        (SIDE_BINS..last).step_by(STEP_BINS).filter_map(|at| candidate(logs, at)).collect();
    let size = |one: &ChangePoint| (one.after_log - one.before_log).abs();
    candidates.sort_by(|one, other| size(other).total_cmp(&size(one)));
    let mut found: Vec<ChangePoint> = Vec::new();
    for one in candidates {
        if found.iter().all(|known| known.bin.abs_diff(one.bin) >= SIDE_BINS) {
            found.push(one);
        }
    }
    found.sort_by_key(|one| one.bin);
    found
}

/// The change around a bin, if both sides differ.
fn candidate(logs: &[Option<f64>], at: usize) -> Option<ChangePoint> {
    let known = |from: usize, to: usize| -> Option<Vec<f64>> {
        let known: Vec<f64> = logs.get(from..to)?.iter().flatten().copied().collect();
        (known.len() as f64 >= MIN_KNOWN_SHARE * SIDE_BINS as f64).then_some(known)
    };
    let before = NormalLevel::from_logs(&known(at - SIDE_BINS, at)?)?;
    let after = NormalLevel::from_logs(&known(at, at + SIDE_BINS)?)?;
    let size = (after.log - before.log).abs();
    if size < MIN_RATIO.ln().max(MIN_SPREADS * before.spread.max(after.spread)) {
        return None;
    }
    // The sum of the distances from the middle of both levels turns at the change.
    let middle = f64::midpoint(before.log, after.log);
    let sign = (before.log - after.log).signum();
    let (mut sum, mut most, mut bin) = (0.0, 0.0, at);
    let (from, to) = (at - SIDE_BINS / 2, at + SIDE_BINS / 2);
    for (number, log) in logs.get(from..to)?.iter().enumerate() {
        // One stall must not outweigh minutes.
        sum += log.map_or(0.0, |log| (sign * (log - middle)).clamp(-size, size));
        if sum > most {
            (most, bin) = (sum, from + number + 1);
        }
    }
    Some(ChangePoint { bin, before_log: before.log, after_log: after.log })
}
