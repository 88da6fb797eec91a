//! The gain of another cap of a device's queue (docs/methods.md#queues-and-what-a-deeper-one-would-bring):
//! R(q) = E[R_dev(min(N, q)) + max(0, N - q) / X_dev(q)] over the backlog N.
//!
//! A request's time in the device is that of the depth at which it entered. In a burst that depth is as much of the burst's height as the
//! queue admits, also for requests that are still there when few are left: R_dev(min(H, q)) with the height H, which is N without a burst.
//!
//! The backlog is sampled in time, while a request counts when it is served. So each sample is weighted by the requests served while it
//! lasts, X_dev(min(N, q)), and the mean is that of requests. The forecast assumes an unchanged backlog: bursts, and clients
//! that wait for their replies, keep their number when they are served faster; work that arrives at a rate of its own would gain more.

use std::iter::successors;

use fathom_record::queue::{ForecastOption, QueueForecast};
use fathom_stats::{SeededRandom, quantile};

use super::curve::DeviceCurve;

/// Draws of seconds for an interval.
const DRAWS: usize = 400;
const CONFIDENCE_TAIL: f64 = 0.025;

/// The backlog at one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backlog {
    /// The number of requests, in the queue and above it.
    pub requests: f64,
    /// The number at the height of the burst that these requests are the rest of; without a burst, the same number.
    pub height: f64,
}

impl Backlog {
    /// A backlog that is not the rest of a higher one.
    pub fn level(requests: f64) -> Backlog {
        Backlog { requests, height: requests }
    }
}

/// The backlog at each sample of one second.
pub type BacklogSecond = Vec<Backlog>;

/// Weighted sum of response times with a cap, and the sum of weights, over one second's samples.
fn second(curve: &DeviceCurve, backlog: &[Backlog], cap: f64) -> (f64, f64) {
    let full_per_s = curve.per_s(cap);
    backlog.iter().filter(|one| one.requests > 0.0).fold((0.0, 0.0), |(sum, weights), one| {
        let weight = curve.per_s(one.requests.min(cap));
        let within_us = curve.response_us(one.height.max(one.requests).min(cap));
        let time_us = within_us + (one.requests - cap).max(0.0) / full_per_s * 1e6;
        (sum + weight * time_us, weights + weight)
    })
}

/// Mean time of a request with a cap, including its wait above the queue, in microseconds; `None` without any backlog.
pub fn mean_us(curve: &DeviceCurve, backlog: &[BacklogSecond], cap: f64) -> Option<f64> {
    let parts = backlog.iter().map(|samples| second(curve, samples, cap));
    let (sum, weights) = parts.fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
    (weights > 0.0 && sum.is_finite()).then(|| sum / weights)
}

/// The caps to try: each doubling up to the one at which the device gains no more, and that one. A plateau begins
/// at a depth that depends on its noise, so a smaller cap that suffices must be found for requests that wait.
fn options(curve: &DeviceCurve, cap: f64) -> Vec<f64> {
    let flat_from = curve.flat_from().0.ceil();
    let doublings = successors(Some(2.0 * cap), |other| Some(2.0 * other));
    let mut caps: Vec<f64> = doublings.take_while(|other| *other < flat_from).collect();
    caps.extend((flat_from > cap).then_some(flat_from));
    caps
}

/// Forecasts caps above the present one. `None` without a backlog.
pub fn forecast(
    curve: &DeviceCurve,
    backlog: &[BacklogSecond],
    cap: f64,
    stream: &mut SeededRandom,
) -> Option<QueueForecast> {
    let now_us = mean_us(curve, backlog, cap)?;
    let now: Vec<(f64, f64)> = backlog.iter().map(|samples| second(curve, samples, cap)).collect();
    let mut found = Vec::new();
    for other in options(curve, cap) {
        let then: Vec<(f64, f64)> = backlog.iter().map(|samples| second(curve, samples, other)).collect();
        let mean_us = mean_us(curve, backlog, other)?;
        let share = 1.0 - mean_us / now_us;
        let interval = interval(&now, &then, stream).unwrap_or((share, share));
        found.push(ForecastOption { cap: other, mean_us, share, interval });
    }
    let (flat_from, flat_seen) = curve.flat_from();
    let basis = vec![
        format!("Throughput and time at each depth are from {}.", curve.source),
        "The backlog is taken to come as it came; the interval is from resampling the seconds of the run, with the device's \
         curve taken as exact."
            .to_owned(),
    ];
    Some(QueueForecast { cap, mean_us: now_us, options: found, flat_from, flat_seen, basis })
}

/// 95 % of the shares when seconds are drawn again with replacement, both caps over the same ones.
fn interval(now: &[(f64, f64)], then: &[(f64, f64)], stream: &mut SeededRandom) -> Option<(f64, f64)> {
    let pairs: Vec<((f64, f64), (f64, f64))> = now.iter().copied().zip(then.iter().copied()).collect();
    let mut shares = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let mut sums = [0.0; 4];
        for _ in 0..pairs.len() {
            let ((a, b), (c, d)) = stream.pick(&pairs)?;
            for (sum, value) in sums.iter_mut().zip([a, b, c, d]) {
                *sum += value;
            }
        }
        let [now, now_weight, then, then_weight] = sums;
        if now > 0.0 && then_weight > 0.0 {
            shares.push(1.0 - (then / then_weight) / (now / now_weight));
        }
    }
    Some((quantile(&shares, CONFIDENCE_TAIL)?, quantile(&shares, 1.0 - CONFIDENCE_TAIL)?))
}

#[cfg(test)]
mod tests {
    use super::super::curve::CurvePoint;
    use super::*;

    /// A device of `parallel` servers of 100 us each.
    fn curve(parallel: f64) -> DeviceCurve {
        let point = |step: i32| {
            let depth = 2f64.powi(step);
            let per_s = depth.min(parallel) * 10_000.0;
            CurvePoint { depth, per_s, response_us: depth / per_s * 1e6 }
        };
        DeviceCurve::new((0..9).map(point).collect(), "a test").unwrap()
    }

    /// A closed loop of 64 on a device of 64: R = 100 us if all are served at once, N / X = 200 us with a cap of 32.
    #[test]
    fn a_constant_backlog_follows_littles_law() {
        let backlog = vec![vec![Backlog::level(64.0); 20]; 30];
        let mut stream = SeededRandom::from_seed(1);
        let found = forecast(&curve(64.0), &backlog, 16.0, &mut stream).unwrap();
        assert!((found.mean_us - 400.0).abs() < 1e-6, "{found:?}");
        let caps: Vec<(f64, f64)> = found.options.iter().map(|one| (one.cap, one.mean_us.round())).collect();
        assert_eq!(caps, [(32.0, 200.0), (64.0, 100.0)]);
        let best = found.options.last().unwrap();
        assert!((best.share - 0.75).abs() < 1e-9 && (best.interval.0 - 0.75).abs() < 1e-9, "{best:?}");
        assert_eq!((found.flat_from, found.flat_seen), (64.0, true));
    }

    #[test]
    fn gains_end_where_the_device_does() {
        let backlog = vec![vec![Backlog::level(64.0); 20]; 30];
        let found = forecast(&curve(16.0), &backlog, 16.0, &mut SeededRandom::from_seed(1)).unwrap();
        assert_eq!(found.options, []);
        assert_eq!(
            forecast(&curve(16.0), &[vec![Backlog::level(0.0); 20]], 16.0, &mut SeededRandom::from_seed(1)),
            None
        );
    }
}
