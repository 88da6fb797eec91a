//! Computes the rhythm of a series at every period, and its autocorrelation at every lag: the data of a rhythm chart.
//!
//! The statistic is the one that `periodicity` judges by, so that the chart and the verdict cannot disagree, with the line that
//! noise of the same memory stays below in 95 % of cases, all periods together. It draws no conclusion.

use crate::autoregression::autocovariances;
use crate::periodicity::{MAX_ORDER, MIN_SECONDS, PeriodSearch, prepared};
use crate::summary::quantile;
use crate::{Autoregression, SeededRandom};

/// Of so many surrogates the second highest is the 95 % line: 2 / (1 + 39).
const SURROGATES: usize = 39;
const BAND: f64 = 0.95;
/// Lags beyond this, in seconds, say nothing that shorter ones do not.
const MAX_LAG: usize = 300;
/// The number of periods kept: the most rhythmic of each step of a logarithmic scale.
const PERIODS: usize = 240;

/// A series by period and by lag.
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrum {
    /// Periods in seconds, rising, and -log10 of the chance of so much rhythm at that one in noise of the same memory.
    pub by_period: Vec<(f64, f64)>,
    /// The bound that the most rhythmic period of such noise stays below in 95 % of cases.
    pub band: f64,
    /// Lags in seconds from 1 on, and the autocorrelation there.
    pub by_lag: Vec<(f64, f64)>,
    /// The bound that memory alone stays below in 95 % of cases, lag by lag.
    pub lag_band: Vec<f64>,
}

/// The spectrum of `values`, one for each second, without gaps. `None` if [`crate::find_period`] has no answer either.
pub fn spectrum(values: &[f64], stream: &mut SeededRandom) -> Option<Spectrum> {
    if values.len() < MIN_SECONDS || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let series = prepared(values)?;
    let search = PeriodSearch::over(series.len());
    let model = Autoregression::fit(&series, MAX_ORDER)?;
    let lags = (series.len() / 2).min(MAX_LAG);
    let (mut most, mut by_lag) = (Vec::new(), vec![Vec::new(); lags]);
    let mut surrogate = vec![0.0; series.len()];
    for _ in 0..SURROGATES {
        model.draw(&mut surrogate, stream);
        let drawn = prepared(&surrogate)?;
        let own = Autoregression::fit(&drawn, MAX_ORDER)?;
        let [(score, _), _] = search.scores(&drawn, &own, &[], &own);
        most.push(score / std::f64::consts::LN_10);
        for (heard, correlation) in by_lag.iter_mut().zip(correlations(&drawn, lags)) {
            heard.push(correlation);
        }
    }
    Some(Spectrum {
        by_period: thinned(search.by_period(&series, &model)),
        band: quantile(&most, BAND)?,
        by_lag: (1..=lags).map(|lag| lag as f64).zip(correlations(&series, lags)).collect(),
        lag_band: by_lag.iter().filter_map(|heard| quantile(heard, BAND)).collect(),
    })
}

/// The autocorrelations at lags 1 to `lags`.
fn correlations(centred: &[f64], lags: usize) -> Vec<f64> {
    let covariances = autocovariances(centred, lags);
    let spread = covariances.first().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
    covariances.iter().skip(1).map(|covariance| covariance / spread).collect()
}

/// The most rhythmic period of each step, rising, in powers of ten.
fn thinned(mut by_period: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    by_period.reverse();
    let ends = by_period.first().zip(by_period.last()).map(|(first, last)| (first.0.ln(), last.0.ln()));
    let Some((first, last)) = ends else { return Vec::new() };
    let step = |period: f64| ((period.ln() - first) / (last - first) * PERIODS as f64) as usize;
    let chunks = by_period.chunk_by(|one, other| step(one.0) == step(other.0));
    let best = chunks.filter_map(|chunk| chunk.iter().max_by(|one, other| one.1.total_cmp(&other.1)));
    best.map(|(period, score)| (*period, score / std::f64::consts::LN_10)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spikes every 30 s stand out at 30 s and nowhere does noise; the echo is at 30, 60, 90 s.
    #[test]
    fn a_rhythm_stands_above_the_line_and_noise_below_it() {
        let mut stream = SeededRandom::from_seed(5);
        let noise: Vec<f64> = (0..600).map(|_| 0.1 * stream.normal()).collect();
        let spiky: Vec<f64> =
            noise.iter().enumerate().map(|(at, value)| value + if at % 30 < 3 { 0.6 } else { 0.0 }).collect();
        let found = spectrum(&spiky, &mut stream).unwrap();
        let best = found.by_period.iter().max_by(|one, other| one.1.total_cmp(&other.1)).unwrap();
        assert!(best.1 > 3.0 * found.band, "{best:?} {}", found.band);
        assert!((best.0 / 30.0).fract().min(1.0 - (best.0 / 30.0).fract()) < 0.05, "{best:?}");
        assert!(found.by_period.windows(2).all(|pair| pair[0].0 < pair[1].0) && found.by_period.len() <= 241);
        assert_eq!(found.by_lag.len(), 300);
        assert!(found.by_lag[29].1 > 0.3 && found.by_lag[29].1 > found.lag_band[29]);
        assert!(found.by_lag[14].1 < found.lag_band[14]);
        assert_eq!(spectrum(&spiky[..20], &mut stream), None);
    }

    /// Of 60 series of noise with memory about 3 reach the line that 95 % stay below; more than 9 would be a wrong line.
    #[test]
    fn the_line_is_reached_by_about_one_in_twenty_of_noises() {
        let mut reached = 0;
        for seed in 0..60 {
            let mut stream = SeededRandom::from_seed(100 + seed);
            let mut last = 0.0;
            let noise: Vec<f64> = (0..240)
                .map(|_| {
                    last = 0.6 * last + stream.normal();
                    last
                })
                .collect();
            let found = spectrum(&noise, &mut stream).unwrap();
            reached += usize::from(found.by_period.iter().any(|(_, score)| *score > found.band));
        }
        assert!(reached <= 9, "{reached} of 60");
    }
}
