//! One rung judged: is it full, do more wait above it than it lets through, and do they wait the longer the more they are?

use fathom_record::queue::QueueRung;
use fathom_stats::{RankCorrelation, Seeded, coefficient_of_variation, quantile, spearman};
use fathom_units::decimal;

use crate::path::Seconds;
use crate::seconds::mean;

/// At this share of its cap a queue is full.
pub(super) const FULL: f64 = 0.95;
/// A queue that is full for a smaller share of the time is not what holds operations back.
const OFTEN: f64 = 0.10;
/// Fewer than this waiting above it, of its cap, is the noise of sampling.
const ABOVE: f64 = 0.05;
const RHO: f64 = 0.5;
const P: f64 = 0.01;
/// The most seconds that are correlated, evenly picked: more would take long and tell no more.
const MOST_PAIRS: usize = 600;
const FEWEST_PAIRS: usize = 10;
const PERMUTATIONS: usize = 999;
/// Where the number waiting or the wait varies by less than this, ranks of seconds are noise, and the mean wait is held
/// against Little's law instead.
const STEADY: f64 = 0.25;
/// The wait that must be seen, of what Little's law says that the number waiting takes.
const SEEN_WAIT: f64 = 0.5;

/// What was seen of one rung.
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) cap: Option<f64>,
    /// Every sample of how many were within.
    pub(super) values: Vec<f64>,
    /// Share of a second's samples at which it was full.
    pub(super) full: Seconds,
    /// How many waited above it.
    pub(super) above: Seconds,
    /// How long operations took, or waited, in microseconds.
    pub(super) wait_us: Seconds,
    /// How many it let through a second.
    pub(super) per_s: Seconds,
}

/// Judges a rung; `None` where it was never sampled.
pub(super) fn judge(seen: &Seen, stream: &mut Seeded) -> Option<QueueRung> {
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
            "How many it lets through could not be read, so whether it is full cannot be told.".into();
        return Some(rung);
    };
    let at_cap = seen.values.iter().filter(|value| **value >= FULL * cap).count();
    let share = at_cap as f64 / seen.values.len() as f64;
    rung.share_at_cap = Some(share);
    if share < OFTEN {
        rung.words = format!(
            "It was full {:.0} % of the time, which is too little to hold anything back.",
            100.0 * share
        );
        return Some(rung);
    }
    // What waits above can only wait while it is full.
    let both = seen.full.iter().zip(&seen.above).filter_map(|(full, above)| Some(((*full)?, (*above)?)));
    let (shares, waiting) = both.fold((0.0, 0.0), |sums, (full, above)| (sums.0 + full, sums.1 + above));
    rung.waiting_above = (shares > 0.0).then(|| waiting / shares);
    let Some(above) = rung.waiting_above else {
        rung.words =
            format!("It was full {:.0} % of the time; what waits above it could not be seen.", 100.0 * share);
        return Some(rung);
    };
    if above < (ABOVE * cap).max(1.0) {
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
fn follows(seen: &Seen, stream: &mut Seeded) -> Option<RankCorrelation> {
    let pairs: Vec<(f64, f64)> = seen
        .above
        .iter()
        .zip(&seen.wait_us)
        .filter_map(|(above, wait)| Some(((*above)?, (*wait)?)))
        .collect();
    if pairs.len() < FEWEST_PAIRS {
        return None;
    }
    let stride = pairs.len().div_ceil(MOST_PAIRS).max(1);
    let picked: Vec<(f64, f64)> = pairs.into_iter().step_by(stride).collect();
    spearman(&picked, PERMUTATIONS, stream)
}

/// The third condition, and how it was met or missed.
fn waits(seen: &Seen, correlated: Option<RankCorrelation>) -> (bool, String) {
    if let Some(found) = correlated.filter(|found| found.rho > RHO && found.p < P) {
        let why =
            format!("the more there are, the longer they wait (Spearman {:.2}, p {:.3})", found.rho, found.p);
        return (true, why);
    }
    let is_steady = |values: &Seconds| {
        let values: Vec<f64> = values.iter().flatten().copied().collect();
        coefficient_of_variation(&values).is_some_and(|variation| variation < STEADY)
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
    if steady && wait_us >= SEEN_WAIT * expected_us && expected_us > 0.0 {
        return (true, format!("their number or their wait is steady, and {figures}"));
    }
    (
        false,
        format!(
            "but they do not wait the longer the more they are ({figures}), so it is not what holds them back"
        ),
    )
}
