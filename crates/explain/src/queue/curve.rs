//! The performance of a device at each depth: throughput X(q) and response time R(q), from a probe's ladder or from the run itself.
//!
//! Between measured depths both are interpolated on logarithmic scales. Beyond the deepest one throughput stays constant
//! and each further request only waits, so that no unmeasured gain is promised.

use fathom_record::disk::{Entry, Step};
use fathom_stats::{Level, fit, median};

/// Throughput within this share of the highest is flat: repeats of a step differ by as much.
const MIN_FLAT_THROUGHPUT: f64 = 0.95;
/// A step whose depth at the device was less than this share of the intended depth was held back above the device.
const MIN_REACHED_DEPTH: f64 = 0.8;
/// A law fitted to the run's own seconds is used up to this many times the deepest depth seen: beyond it nothing was measured.
const MAX_EXTRAPOLATION: f64 = 2.0;
/// A second counts as one depth only if its samples vary by less than this; over bursts a mean depth means nothing.
const MAX_STEADY_VARIATION: f64 = 0.3;
/// The fewest seconds of a depth, and the fewest depths.
const MIN_SECONDS: usize = 3;
const MIN_DEPTHS: usize = 3;
/// The most seconds of a depth that a law is fitted to.
const MAX_SECONDS_OF_DEPTH: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// The mean number of requests in flight.
    pub depth: f64,
    /// Completed requests a second.
    pub per_s: f64,
    /// Mean response time in microseconds.
    pub response_us: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DeviceCurve {
    points: Vec<CurvePoint>,
    /// Its source, for a sentence (`the probe's random reads of 4 KiB`).
    pub source: String,
}

impl DeviceCurve {
    /// A curve through points; several of one depth count as their medians. `None` without a usable one.
    pub fn new(mut points: Vec<CurvePoint>, source: impl Into<String>) -> Option<DeviceCurve> {
        let usable = |value: f64| value.is_finite() && value > 0.0;
        points.retain(|point| usable(point.depth) && usable(point.per_s) && usable(point.response_us));
        points.sort_by(|a, b| a.depth.total_cmp(&b.depth));
        let points: Vec<CurvePoint> = points
            .chunk_by(|a, b| a.depth == b.depth)
            .filter_map(|same| {
                let per_s: Vec<f64> = same.iter().map(|point| point.per_s).collect();
                let response_us: Vec<f64> = same.iter().map(|point| point.response_us).collect();
                Some(CurvePoint {
                    depth: same.first()?.depth,
                    per_s: median(&per_s)?,
                    response_us: median(&response_us)?,
                })
            })
            .collect();
        (!points.is_empty()).then(|| DeviceCurve { points, source: source.into() })
    }

    /// Completions a second with `depth` requests in flight.
    pub fn per_s(&self, depth: f64) -> f64 {
        self.at(
            depth,
            |point| point.per_s,
            |first, depth| first.per_s * depth / first.depth,
            |last, _| last.per_s,
        )
    }

    /// Mean response time with `depth` requests in flight, in microseconds.
    pub fn response_us(&self, depth: f64) -> f64 {
        self.at(
            depth,
            |point| point.response_us,
            |first, _| first.response_us,
            |last, depth| last.response_us * depth / last.depth,
        )
    }

    fn at(
        &self,
        depth: f64,
        value: impl Fn(&CurvePoint) -> f64,
        before: impl Fn(&CurvePoint, f64) -> f64,
        beyond: impl Fn(&CurvePoint, f64) -> f64,
    ) -> f64 {
        let next = self.points.partition_point(|point| point.depth < depth);
        match (next.checked_sub(1).and_then(|at| self.points.get(at)), self.points.get(next)) {
            (Some(low), Some(high)) => {
                let part = (depth / low.depth).ln() / (high.depth / low.depth).ln();
                (value(low).ln() * (1.0 - part) + value(high).ln() * part).exp()
            }
            (None, Some(first)) if first.depth > depth => before(first, depth),
            (None, Some(first)) => value(first),
            (Some(last), None) => beyond(last, depth),
            (None, None) => f64::NAN,
        }
    }

    /// The deepest depth that was measured.
    pub fn deepest(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.depth)
    }

    /// The fewest requests in flight that give 95 % of the highest throughput, and whether deeper ones were measured and gave no more.
    pub fn flat_from(&self) -> (f64, bool) {
        let highest = self.points.iter().map(|point| point.per_s).fold(0.0, f64::max);
        let from = self.points.iter().find(|point| point.per_s >= MIN_FLAT_THROUGHPUT * highest);
        let from = from.map_or(0.0, |point| point.depth);
        (from, self.deepest() >= 1.4 * from)
    }

    pub fn highest_per_s(&self) -> f64 {
        self.points.iter().map(|point| point.per_s).fold(0.0, f64::max)
    }
}

/// The curve of a device from the probe's steps in the run: random reads or writes at several depths. Steps that the queue's
/// own `cap` or a processor held back are left out.
pub(crate) fn from_steps(results: &[Entry], device: &str, cap: f64, writes: bool) -> Option<DeviceCurve> {
    let pattern = if writes { "randwrite" } else { "randread" };
    let mut by_block: Vec<(u64, Vec<CurvePoint>)> = Vec::new();
    for step in
        results.iter().filter_map(|entry| if let Entry::Step(step) = entry { Some(step) } else { None })
    {
        let [stream] = step.streams.as_slice() else { continue };
        let fits = stream.pattern == pattern && stream.rate_per_s.is_none() && stream.durable == "none";
        if !fits || step.cpu_bound() || !on_device(step, device) || held_back(step, device, cap) {
            continue;
        }
        let Some(latency_ns) = step.mean_latency_ns() else { continue };
        let point =
            CurvePoint { depth: f64::from(stream.depth), per_s: step.per_s(), response_us: latency_ns / 1e3 };
        match by_block.iter_mut().find(|(block, _)| *block == stream.block_bytes) {
            Some((_, points)) => points.push(point),
            None => by_block.push((stream.block_bytes, vec![point])),
        }
    }
    let (block, points) = by_block.into_iter().max_by_key(|(_, points)| points.len())?;
    if points.len() < 2 {
        return None;
    }
    let kind = if writes { "writes" } else { "reads" };
    DeviceCurve::new(points, format!("the probe's random {kind} of {}", fathom_units::Bytes(block)))
}

fn on_device(step: &Step, device: &str) -> bool {
    step.devices.is_empty() || step.devices.iter().any(|view| view.name == device)
}

/// Whether the queue's cap, not the device, limited a step deeper than the cap: the device then never saw that depth.
fn held_back(step: &Step, device: &str, cap: f64) -> bool {
    let depth = step.streams.first().map_or(0.0, |stream| f64::from(stream.depth));
    let seen = step.devices.iter().find(|view| view.name == device).map(|view| view.aqu_sz);
    depth > cap && seen.is_some_and(|seen| seen < MIN_REACHED_DEPTH * depth && seen <= 1.1 * cap)
}

/// One second of the run: mean depth, coefficient of variation of its samples, completions, and their mean time in microseconds.
pub(crate) type OwnSecond = (f64, f64, f64, f64);

/// The curve from the run's own seconds, if those were steady and of several depths. Beyond the deepest one the law that fits
/// best is used up to twice that depth.
pub(crate) fn from_seconds(seconds: &[OwnSecond]) -> Option<DeviceCurve> {
    let mut bins: Vec<(i64, Vec<&OwnSecond>)> = Vec::new();
    for second in seconds.iter().filter(|(depth, spread, ..)| *depth >= 0.5 && *spread < MAX_STEADY_VARIATION)
    {
        // Two bins for each doubling of the depth.
        let bin = (second.0.log2() * 2.0).round() as i64;
        match bins.iter_mut().find(|(one, _)| *one == bin) {
            Some((_, members)) => members.push(second),
            None => bins.push((bin, vec![second])),
        }
    }
    let of = |members: &[&OwnSecond], value: fn(&OwnSecond) -> f64| {
        median(&members.iter().map(|second| value(second)).collect::<Vec<f64>>())
    };
    bins.retain(|(_, members)| members.len() >= MIN_SECONDS);
    let mut points: Vec<CurvePoint> = bins
        .iter()
        .filter_map(|(_, members)| {
            let (depth, per_s) = (of(members, |one| one.0)?, of(members, |one| one.2)?);
            Some(CurvePoint { depth, per_s, response_us: of(members, |one| one.3)? })
        })
        .collect();
    if points.len() < MIN_DEPTHS {
        return None;
    }
    // The seconds of a bin are repeats of its depth.
    let levels: Vec<Level> = bins
        .iter()
        .zip(&points)
        .flat_map(|((_, members), point)| {
            let picked = members.iter().step_by(members.len().div_ceil(MAX_SECONDS_OF_DEPTH));
            picked.map(|one| Level { concurrency: point.depth, throughput: one.2 / one.0 * point.depth })
        })
        .filter(|level| level.throughput > 0.0)
        .collect();
    let deepest = points.iter().map(|point| point.depth).fold(0.0, f64::max);
    let mut source = "the run's own seconds of steady depth".to_owned();
    if let Some(law) = fit(&levels).ok().and_then(|laws| laws.best_fit().copied()) {
        let depth = MAX_EXTRAPOLATION * deepest;
        let per_s = law.curve.throughput_at(depth);
        points.push(CurvePoint { depth, per_s, response_us: depth / per_s * 1e6 });
        source = format!(
            "{source}, and beyond {deepest:.0} in flight the {} law fitted to them",
            law.model.name()
        );
    }
    DeviceCurve::new(points, source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(depths: &[f64], parallel: f64) -> Vec<CurvePoint> {
        let point = |depth: &f64| {
            let per_s = depth.min(parallel) * 10_000.0;
            CurvePoint { depth: *depth, per_s, response_us: depth / per_s * 1e6 }
        };
        depths.iter().map(point).collect()
    }

    #[test]
    fn between_depths_it_is_interpolated_and_beyond_them_nothing_is_promised() {
        let curve = DeviceCurve::new(line(&[1.0, 4.0, 16.0, 64.0], 16.0), "a test").unwrap();
        assert!((curve.per_s(2.0) - 20_000.0).abs() < 1e-6 && (curve.per_s(0.5) - 5_000.0).abs() < 1e-6);
        assert!((curve.per_s(1000.0) - 160_000.0).abs() < 1e-6);
        assert!(
            (curve.response_us(128.0) - 800.0).abs() < 1e-6 && (curve.response_us(0.5) - 100.0).abs() < 1e-6
        );
        assert_eq!(curve.flat_from(), (16.0, true));
        let rising = DeviceCurve::new(line(&[1.0, 4.0, 16.0], 64.0), "a test").unwrap();
        assert_eq!((rising.flat_from(), rising.deepest()), ((16.0, false), 16.0));
        assert_eq!(DeviceCurve::new(line(&[0.0, -1.0], 4.0), "a test"), None);
    }

    #[test]
    fn own_seconds_need_several_steady_depths() {
        let second = |depth: f64, spread: f64| (depth, spread, depth.min(100.0) * 1000.0, 1000.0);
        let steady: Vec<OwnSecond> =
            [1.0, 4.0, 16.0].iter().flat_map(|depth| [second(*depth, 0.1); 4]).collect();
        let curve = from_seconds(&steady).unwrap();
        assert!((curve.deepest() - 32.0).abs() < 1e-9 && curve.source.contains("linear"), "{curve:?}");
        assert!((curve.per_s(32.0) / 32_000.0 - 1.0).abs() < 0.01);
        let bursts: Vec<OwnSecond> = steady.iter().map(|one| (one.0, 2.0, one.2, one.3)).collect();
        assert_eq!(from_seconds(&bursts), None);
        assert_eq!(from_seconds(&steady[..8]), None);
    }
}
