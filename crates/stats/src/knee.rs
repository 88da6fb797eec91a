//! The knee of a device by asymptotic bounds, and which concurrency to measure next to find it.
//!
//! Throughput is at most min(N / R1, Xmax), where R1 is the latency of a lone request (Lazowska and others,
//! Quantitative System Performance, 1984, chapter 5). The bounds cross at N* = Xmax R1: below it latency is flat
//! and concurrency buys throughput, above it concurrency buys only queueing (docs/methods.md#the-knee-of-a-disk). It refuses to guess R1
//! if no level with one request in flight was measured.

use crate::summary::median;

/// Throughput within this share of the highest belongs to the plateau.
const MIN_PLATEAU_SHARE: f64 = 0.9;
/// Two levels support each other only if their concurrencies are at least this far apart; neighbours from a
/// bisection have similar throughput anywhere on the curve.
const MIN_CONCURRENCY_RATIO: f64 = 1.5;
/// A knee bracketed this narrowly is located.
const MAX_BRACKET_RATIO: f64 = 1.25;

/// One measured level of a ladder. Repeats are several with the same concurrency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LadderLevel {
    /// The mean number of requests in flight.
    pub concurrency: u32,
    /// Completed requests a second.
    pub throughput_per_s: f64,
    /// Mean latency in nanoseconds.
    pub mean_latency_ns: f64,
}

/// The point above which more concurrency adds no throughput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KneeEstimate {
    /// R1: mean latency with one request in flight (the median of its repeats).
    pub latency_at_one_ns: f64,
    /// Xmax: the median of the plateau's levels.
    pub throughput_max_per_s: f64,
    /// N* = Xmax R1.
    pub concurrency_at_knee: f64,
    /// Whether two levels support the plateau. If not, throughput was still rising at the end of the ladder: Xmax
    /// is the highest measured and N* a lower bound.
    pub plateau_reached: bool,
}

/// The highest throughput that a ladder confirms.
#[derive(Clone, Copy, Debug)]
struct Plateau {
    throughput_per_s: f64,
    reached: bool,
}

/// Computes the knee. `None` if no level with concurrency 1 was measured, or a value of a level is not a
/// positive finite number.
pub fn knee(levels: &[LadderLevel]) -> Option<KneeEstimate> {
    let plateau = plateau(&medians(levels)?)?;
    let alone: Vec<f64> =
        levels.iter().filter(|level| level.concurrency == 1).map(|level| level.mean_latency_ns).collect();
    let latency_at_one_ns = median(&alone)?;
    if latency_at_one_ns <= 0.0 {
        return None;
    }
    Some(KneeEstimate {
        latency_at_one_ns,
        throughput_max_per_s: plateau.throughput_per_s,
        concurrency_at_knee: plateau.throughput_per_s * latency_at_one_ns / 1e9,
        plateau_reached: plateau.reached,
    })
}

/// The next concurrency to measure: the geometric middle of the last level below 90 % of Xmax and the first at or above it. `None`
/// if the two are within a ratio of 1.25 or no integer lies between them, if the first level is on the plateau already, or if there
/// is no plateau.
pub fn pick_bisection(levels: &[LadderLevel]) -> Option<u32> {
    let medians = medians(levels)?;
    let plateau = plateau(&medians).filter(|plateau| plateau.reached)?;
    let there = medians.iter().position(|(_, rate)| *rate >= MIN_PLATEAU_SHARE * plateau.throughput_per_s)?;
    let (high, _) = *medians.get(there)?;
    let (low, _) = *medians.get(there.checked_sub(1)?)?;
    if f64::from(high) / f64::from(low) <= MAX_BRACKET_RATIO || high - low < 2 {
        return None;
    }
    let middle = (f64::from(low) * f64::from(high)).sqrt().round() as u32;
    Some(middle.clamp(low + 1, high - 1))
}

/// The median throughput of each concurrency, ascending; `None` without a level, or if a value is unusable.
fn medians(levels: &[LadderLevel]) -> Option<Vec<(u32, f64)>> {
    let usable = |level: &LadderLevel| {
        level.concurrency > 0 && level.throughput_per_s.is_finite() && level.throughput_per_s > 0.0
    };
    if levels.is_empty() || !levels.iter().all(usable) {
        return None;
    }
    let mut sorted = levels.to_vec();
    sorted.sort_by_key(|level| level.concurrency);
    sorted
        .chunk_by(|one, two| one.concurrency == two.concurrency)
        .map(|chunk| {
            let rates: Vec<f64> = chunk.iter().map(|level| level.throughput_per_s).collect();
            Some((chunk.first()?.concurrency, median(&rates)?))
        })
        .collect()
}

/// The highest pair of levels, clearly apart in concurrency, that agree within 10 %; the plateau is everything
/// that reaches 90 % of it, and Xmax its median. A single high level (a burst, a cached round) supports nothing
/// by itself. Pairs under half of the highest level are coincidences on the way up.
fn plateau(medians: &[(u32, f64)]) -> Option<Plateau> {
    let highest = medians.iter().map(|(_, rate)| *rate).max_by(f64::total_cmp)?;
    let pairs = medians.iter().enumerate().filter_map(|(index, (concurrency, rate))| {
        let next = medians
            .iter()
            .skip(index + 1)
            .find(|(other, _)| f64::from(*other) >= MIN_CONCURRENCY_RATIO * f64::from(*concurrency));
        let (_, other) = next?;
        let (least, most) = (rate.min(*other), rate.max(*other));
        (least >= MIN_PLATEAU_SHARE * most && most >= highest / 2.0).then_some(most)
    });
    let Some(borne_out) = pairs.max_by(f64::total_cmp) else {
        return Some(Plateau { throughput_per_s: highest, reached: false });
    };
    let members: Vec<f64> =
        medians.iter().map(|(_, rate)| *rate).filter(|rate| *rate >= MIN_PLATEAU_SHARE * borne_out).collect();
    Some(Plateau { throughput_per_s: median(&members)?, reached: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRandom;

    /// A device of `parallel` servers with 1 ms each: X = min(N, parallel) x 1000, Little's law for latency.
    fn device(parallel: f64, concurrency: u32, noise: f64) -> LadderLevel {
        let n = f64::from(concurrency);
        let throughput_per_s = 1000.0 * n.min(parallel) * noise;
        LadderLevel { concurrency, throughput_per_s, mean_latency_ns: n / throughput_per_s * 1e9 }
    }

    fn doubling() -> impl Iterator<Item = u32> {
        (0..=10).map(|step| 1 << step)
    }

    #[test]
    fn bisection_brackets_the_knee_of_any_device() {
        let mut stream = SeededRandom::from_seed(3);
        for parallel in [2.0, 3.0, 5.0, 7.0, 11.0, 32.0, 48.0, 100.0, 300.0] {
            let mut levels: Vec<LadderLevel> =
                doubling().map(|n| device(parallel, n, 1.0 + 0.01 * stream.normal())).collect();
            let mut measured = 0;
            while let Some(next) = pick_bisection(&levels) {
                assert!(levels.iter().all(|level| level.concurrency != next), "{next} again for {parallel}");
                levels.push(device(parallel, next, 1.0 + 0.01 * stream.normal()));
                measured += 1;
                assert!(measured <= 3, "{parallel}: too many steps");
            }
            let found = knee(&levels).unwrap();
            assert!(found.plateau_reached);
            assert!((found.concurrency_at_knee / parallel - 1.0).abs() < 0.05, "{found:?} for {parallel}");
            assert!((found.throughput_max_per_s / (1000.0 * parallel) - 1.0).abs() < 0.03);
            // The level that reaches 90 % of the plateau brackets 0.9 x parallel within a ratio of 1.25.
            let first = levels.iter().filter(|level| level.throughput_per_s >= 900.0 * parallel * 0.99);
            let first = f64::from(first.map(|level| level.concurrency).min().unwrap());
            assert!(
                first >= 0.87 * parallel && first <= (1.25 * parallel).max(parallel + 1.0),
                "{first} for {parallel}"
            );
        }
    }

    #[test]
    fn one_lucky_level_is_not_the_maximum() {
        let mut levels: Vec<LadderLevel> = doubling().map(|n| device(8.0, n, 1.0)).collect();
        levels[6].throughput_per_s *= 1.4;
        let found = knee(&levels).unwrap();
        assert!((found.throughput_max_per_s - 8000.0).abs() < 1.0, "{found:?}");
        assert!((found.concurrency_at_knee - 8.0).abs() < 0.01);
    }

    #[test]
    fn a_ladder_that_still_rises_says_so() {
        let levels: Vec<LadderLevel> = doubling().map(|n| device(1e9, n, 1.0)).collect();
        let found = knee(&levels).unwrap();
        assert!(!found.plateau_reached && (found.concurrency_at_knee - 1024.0).abs() < 0.01);
        assert_eq!(pick_bisection(&levels), None);
    }

    #[test]
    fn what_cannot_be_judged_is_not() {
        assert_eq!(knee(&[]), None);
        assert_eq!(pick_bisection(&[]), None);
        assert_eq!(knee(&[device(4.0, 2, 1.0), device(4.0, 4, 1.0)]), None, "no lone request");
        assert_eq!(knee(&[device(4.0, 1, 1.0), device(4.0, 4, 0.0)]), None, "nothing completed");
        // A cap below one request's speed: the plateau starts at 1 and there is nothing to bisect.
        let levels: Vec<LadderLevel> = doubling().map(|n| device(1.0, n, 1.0)).collect();
        assert_eq!(pick_bisection(&levels), None);
        assert!((knee(&levels).unwrap().concurrency_at_knee - 1.0).abs() < 1e-9);
    }
}
