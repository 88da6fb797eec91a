//! Judges one rung: whether it is full, whether more wait above it than it lets through, and whether the wait grows with their number.

use fathom_record::queue::QueueRung;
use fathom_stats::{RankCorrelation, SeededRandom, coefficient_of_variation, quantile, spearman};
use fathom_units::decimal;

use crate::path::Seconds;
use crate::seconds::mean;

/// A queue is full at this share of its cap: the gauge is read a moment before or after the queue's peak.
pub(super) const MIN_FILL_OF_CAP: f64 = 0.95;
/// A queue that is full for a smaller share of the time does not hold operations back.
const MIN_FULL_SHARE: f64 = 0.10;
/// Fewer waiting above it than this share of its cap are the noise of sampling.
const MIN_WAITING_ABOVE: f64 = 0.05;
const MIN_RHO: f64 = 0.5;
const MAX_P: f64 = 0.01;
/// The most seconds that are correlated, evenly picked: more would take long and add no information.
const MAX_PAIRS: usize = 600;
const MIN_PAIRS: usize = 10;
const PERMUTATIONS: usize = 999;
/// If the number waiting or the wait varies by less than this, ranks of seconds are noise, and the mean wait is compared
/// with Little's law instead.
const MAX_STEADY_VARIATION: f64 = 0.25;
/// The least share that the wait seen must be of the wait that Little's law gives for the number waiting.
const MIN_SEEN_WAIT: f64 = 0.5;

/// The readings of one rung.
pub(super) struct RungReadings {
    pub(super) name: String,
    pub(super) cap: Option<f64>,
    /// Every sample of the number within.
    pub(super) values: Vec<f64>,
    /// Share of a second's samples at which it was full.
    pub(super) full: Seconds,
    /// The number that waited above it.
    pub(super) above: Seconds,
    /// The time that operations took, or waited, in microseconds.
    pub(super) wait_us: Seconds,
    /// The number that it let through a second.
    pub(super) per_s: Seconds,
}

/// Judges a rung; `None` if it was never sampled.
pub(super) fn judge(seen: &RungReadings, stream: &mut SeededRandom) -> Option<QueueRung> {
    let mut rung = QueueRung {
        name: seen.name.clone(),
        cap: seen.cap,
        samples: seen.values.len() as u64,
        mean: mean(seen.values.iter().copied())?,
        p95: quantile(&seen.values, 0.95)?,
        share_at_cap: None,
        waiting_above: None,
        wait_follows: None,
        limits: false,
        words: String::new(),
    };
    let Some(cap) = seen.cap.filter(|cap| *cap > 0.0) else {
        rung.words =
            "How many it lets through could not be read, so whether it is full cannot be determined.".into();
        return Some(rung);
    };
    let at_cap = seen.values.iter().filter(|value| **value >= MIN_FILL_OF_CAP * cap).count();
    let share = at_cap as f64 / seen.values.len() as f64;
    rung.share_at_cap = Some(share);
    if share < MIN_FULL_SHARE {
        rung.words = format!(
            "It was full {:.0} % of the time, which is too little to hold anything back.",
            100.0 * share
        );
        return Some(rung);
    }
    // Requests above can only wait while it is full.
    let both = seen.full.iter().zip(&seen.above).filter_map(|(full, above)| Some(((*full)?, (*above)?)));
    let (shares, waiting) = both.fold((0.0, 0.0), |sums, (full, above)| (sums.0 + full, sums.1 + above));
    rung.waiting_above = (shares > 0.0).then(|| waiting / shares);
    let Some(above) = rung.waiting_above else {
        rung.words =
            format!("It was full {:.0} % of the time; what waits above it could not be seen.", 100.0 * share);
        return Some(rung);
    };
    if above < (MIN_WAITING_ABOVE * cap).max(1.0) {
        rung.words = format!(
            "It was full {:.0} % of the time, but hardly more asked for it than it lets through.",
            100.0 * share
        );
        return Some(rung);
    }
    let correlated = follows(seen, stream);
    rung.wait_follows = correlated.map(|found| (found.rho, found.p));
    let (limits, why) = waits(seen, correlated);
    rung.limits = limits;
    rung.words = format!(
        "It was full {:.0} % of the time, with {} more above it then; {why}.",
        100.0 * share,
        decimal(above)
    );
    Some(rung)
}

/// Whether the wait grows with the number waiting.
fn follows(seen: &RungReadings, stream: &mut SeededRandom) -> Option<RankCorrelation> {
    let pairs: Vec<(f64, f64)> = seen
        .above
        .iter()
        .zip(&seen.wait_us)
        .filter_map(|(above, wait)| Some(((*above)?, (*wait)?)))
        .collect();
    if pairs.len() < MIN_PAIRS {
        return None;
    }
    let stride = pairs.len().div_ceil(MAX_PAIRS).max(1);
    let picked: Vec<(f64, f64)> = pairs.into_iter().step_by(stride).collect();
    spearman(&picked, PERMUTATIONS, stream)
}

/// The third condition, and how it was met or missed.
fn waits(seen: &RungReadings, correlated: Option<RankCorrelation>) -> (bool, String) {
    if let Some(found) = correlated.filter(|found| found.rho > MIN_RHO && found.p < MAX_P) {
        let why =
            format!("the more there are, the longer they wait (Spearman {:.2}, p {:.3})", found.rho, found.p);
        return (true, why);
    }
    let is_steady = |values: &Seconds| {
        let values: Vec<f64> = values.iter().flatten().copied().collect();
        coefficient_of_variation(&values).is_some_and(|variation| variation < MAX_STEADY_VARIATION)
    };
    let steady = is_steady(&seen.above) || is_steady(&seen.wait_us);
    let all = |values: &Seconds| mean(values.iter().flatten().copied());
    let little = all(&seen.above).zip(all(&seen.per_s).filter(|per_s| *per_s > 0.0));
    let (Some((above, per_s)), Some(wait_us)) = (little, all(&seen.wait_us)) else {
        return (false, "how long they wait could not be seen".to_owned());
    };
    let expected_us = above / per_s * 1e6;
    let figures =
        format!("{} of the {} us that so many must wait are seen", decimal(wait_us), decimal(expected_us));
    if steady && wait_us >= MIN_SEEN_WAIT * expected_us && expected_us > 0.0 {
        return (true, format!("their number or their wait is steady, and {figures}"));
    }
    (
        false,
        format!(
            "but the wait does not grow with the number of them ({figures}), so the queue does not hold them back"
        ),
    )
}
