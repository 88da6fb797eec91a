//! Refines a rhythm that a periodogram has found: its exact period, its shape, and whether the series echoes itself.
//!
//! A periodogram names a multiple or a fraction of the true period more often than not (docs/methods.md#periodic-spikes), so
//! the series is folded at periods near the peak and near its multiples and fractions, with a slow drift of the
//! period allowed, and of those that fold nearly as well as the best the shortest is taken. The echo is a check by
//! other means: a rhythm resembles itself one and two periods later, more than its memory alone would.

use crate::autoregression::autocovariances;
use crate::summary::{median, quantile};
use crate::{Autoregression, SeededRandom};

/// Periods are resolved to a quarter of a second, if the series is long enough for that.
const GRID_S: f64 = 0.25;
/// A shorter period is taken if it folds this nearly as well as the best.
const MIN_FOLD_RATIO: f64 = 0.9;
/// Multiples of the peak's period that are folded.
const MULTIPLES: [f64; 6] = [0.25, 1.0 / 3.0, 0.5, 1.0, 2.0, 3.0];
/// Cycles by which a drifting period may run ahead in the middle of the series, and the step of the search.
const MAX_DRIFT_CYCLES: f64 = 1.0;
const DRIFT_STEP_CYCLES: f64 = 0.25;
/// Into how many parts each step of the search is divided in the end.
const FINER: i32 = 4;
/// Parts of a period whose means are compared.
const MAX_PHASES: f64 = 20.0;
const MIN_PHASES: f64 = 4.0;
/// Surrogates for the band of the echo, and which quantile of theirs it must clear.
const ECHO_SURROGATES: usize = 199;
const ECHO_BAND: f64 = 0.95;

/// One echo: the autocorrelation near a lag, and what memory alone reaches there in 95 % of surrogates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Echo {
    /// The autocorrelation, -1 to 1.
    pub correlation: f64,
    /// The 95 % quantile of it in surrogates.
    pub band: f64,
}

/// A rhythm: its period and the shape of the folded series.
#[derive(Clone, Debug, PartialEq)]
pub struct Rhythm {
    /// The mean period in seconds.
    pub period_s: f64,
    /// The last period over the first.
    pub drift: f64,
    /// The share of the variance that the fold explains, corrected for the number of its parts.
    pub explained: f64,
    /// The echoes one and two periods later.
    pub echoes: [Echo; 2],
    /// Whether both clear their bands.
    pub confirmed: bool,
    /// The stretches, in seconds from the series' start, in which the folded series is above the middle between its
    /// median and its highest part.
    pub high: Vec<(f64, f64)>,
}

/// One way of folding: cycles(t) = f t + c ((t/T)² - t/T).
#[derive(Clone, Copy)]
struct Fold {
    frequency: f64,
    drift_cycles: f64,
    phases: usize,
    explained: f64,
}

/// Refines the period near `peak_s` of a `series` with one centred value a second, whose memory is `model`.
pub(crate) fn refine(
    series: &[f64],
    model: &Autoregression,
    peak_s: f64,
    stream: &mut SeededRandom,
) -> Option<Rhythm> {
    let length_s = series.len() as f64;
    let folds: Vec<Fold> = MULTIPLES
        .iter()
        .map(|multiple| peak_s * multiple)
        .filter(|period_s| (4.0..=length_s / 4.0).contains(period_s))
        .filter_map(|period_s| best_fold(series, period_s))
        .collect();
    let best = folds.iter().map(|fold| fold.explained).fold(0.0, f64::max);
    let fold = folds.iter().find(|fold| fold.explained >= MIN_FOLD_RATIO * best && best > 0.0)?;
    let period_s = 1.0 / fold.frequency;
    let echoes = echoes(series, model, period_s, stream)?;
    let slope = fold.drift_cycles / length_s;
    Some(Rhythm {
        period_s,
        drift: (fold.frequency - slope) / (fold.frequency + slope),
        explained: fold.explained,
        confirmed: echoes.iter().all(|echo| echo.correlation > echo.band),
        echoes,
        high: fold.high(series)?,
    })
}

/// The best fold near `period_s`: first two steps of the series' resolution to either side, then more finely around
/// the best of these.
fn best_fold(series: &[f64], period_s: f64) -> Option<Fold> {
    let (length_s, frequency) = (series.len() as f64, 1.0 / period_s);
    let step = (GRID_S * frequency * frequency).clamp(1.0 / (32.0 * length_s), 1.0 / (8.0 * length_s));
    let phases = period_s.clamp(MIN_PHASES, MAX_PHASES).round() as usize;
    let start = Fold { frequency, drift_cycles: 0.0, phases, explained: 0.0 };
    let reach = (2.0 / (length_s * step)).ceil() as i32;
    let drifts = (MAX_DRIFT_CYCLES / DRIFT_STEP_CYCLES) as i32;
    let rough = start.best_around(series, (reach, step), (drifts, DRIFT_STEP_CYCLES))?;
    let fine = f64::from(FINER);
    rough.best_around(series, (FINER, step / fine), (FINER, DRIFT_STEP_CYCLES / fine))
}

impl Fold {
    /// The best of the folds so many steps to either side in frequency and drift, itself among them.
    fn best_around(self, series: &[f64], frequency: (i32, f64), drift: (i32, f64)) -> Option<Fold> {
        let folds = (-frequency.0..=frequency.0).flat_map(|offset| {
            (-drift.0..=drift.0).map(move |tilt| Fold {
                frequency: self.frequency + f64::from(offset) * frequency.1,
                drift_cycles: self.drift_cycles + f64::from(tilt) * drift.1,
                ..self
            })
        });
        folds
            .filter(|fold| fold.frequency > 0.0)
            .map(|fold| Fold { explained: fold.explains(series), ..fold })
            .max_by(|one, two| one.explained.total_cmp(&two.explained))
    }

    /// The part of the cycle that each value falls in.
    fn parts(self, values: usize) -> impl Iterator<Item = usize> {
        (0..values).map(move |second| {
            let middle_s = second as f64 + 0.5;
            let share = middle_s / values as f64;
            let cycles = self.frequency * middle_s + self.drift_cycles * share * (share - 1.0);
            ((cycles - cycles.floor()) * self.phases as f64) as usize
        })
    }

    /// Sum and count of each part.
    fn sums(self, series: &[f64]) -> Vec<(f64, f64)> {
        let mut sums = vec![(0.0, 0.0); self.phases];
        for (part, value) in self.parts(series.len()).zip(series) {
            if let Some(sum) = sums.get_mut(part) {
                *sum = (sum.0 + value, sum.1 + 1.0);
            }
        }
        sums
    }

    /// Omega squared of a one-way analysis of variance (Hays, Statistics, 1963): what the parts explain, less what
    /// as many parts explain of noise. The series is centred.
    fn explains(self, series: &[f64]) -> f64 {
        let total: f64 = series.iter().map(|value| value * value).sum();
        let sums = self.sums(series);
        let filled = || sums.iter().filter(|(_, count)| *count > 0.0);
        let between: f64 = filled().map(|(sum, count)| sum * sum / count).sum();
        let parts = filled().count() as f64;
        let within = (total - between) / (series.len() as f64 - parts).max(1.0);
        (between - (parts - 1.0) * within) / (total + within)
    }

    /// The stretches of the series whose part of the cycle is high.
    fn high(self, series: &[f64]) -> Option<Vec<(f64, f64)>> {
        let sums = self.sums(series);
        let means: Vec<f64> = sums.iter().map(|(sum, count)| sum / count.max(1.0)).collect();
        let base = median(&means)?;
        let top = means.iter().copied().fold(base, f64::max);
        let is_high = |part: usize| means.get(part).is_some_and(|mean| *mean > (base + top) / 2.0);
        let mut stretches: Vec<(f64, f64)> = Vec::new();
        for (second, part) in self.parts(series.len()).enumerate() {
            let begin_s = second as f64;
            match stretches.last_mut() {
                _ if !is_high(part) => {}
                Some(last) if last.1 == begin_s => last.1 += 1.0,
                _ => stretches.push((begin_s, begin_s + 1.0)),
            }
        }
        Some(stretches)
    }
}

/// The echoes of a series at one and two periods.
fn echoes(
    series: &[f64],
    model: &Autoregression,
    period_s: f64,
    stream: &mut SeededRandom,
) -> Option<[Echo; 2]> {
    let observed = echo(series, period_s);
    let mut surrogate = vec![0.0; series.len()];
    let (mut ones, mut twos) = (Vec::new(), Vec::new());
    for _ in 0..ECHO_SURROGATES {
        model.draw(&mut surrogate, stream);
        let [one, two] = echo(&surrogate, period_s);
        ones.push(one);
        twos.push(two);
    }
    let [one, two] = observed;
    Some([
        Echo { correlation: one, band: quantile(&ones, ECHO_BAND)? },
        Echo { correlation: two, band: quantile(&twos, ECHO_BAND)? },
    ])
}

/// The largest autocorrelation within a second, or 2 %, of each lag.
fn echo(series: &[f64], period_s: f64) -> [f64; 2] {
    let spread: f64 = autocovariances(series, 0).iter().sum();
    [1.0, 2.0].map(|periods| {
        let lag = periods * period_s;
        let reach = (0.02 * lag).max(1.0);
        let lags = (lag - reach).round() as usize..=(lag + reach).round() as usize;
        let correlation = |lag: usize| {
            let products = series.iter().zip(series.iter().skip(lag)).map(|(early, late)| early * late);
            products.sum::<f64>() / (spread * series.len() as f64).max(f64::MIN_POSITIVE)
        };
        lags.map(correlation).fold(f64::NEG_INFINITY, f64::max)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten cycles whose period falls from 66 s to 54 s: found as 60 s with that drift, and its spikes are located.
    #[test]
    fn a_drifting_period_and_its_spikes_are_found() {
        let mut stream = SeededRandom::from_seed(11);
        let mut series: Vec<f64> = (0..600).map(|_| 0.05 * stream.normal()).collect();
        let (mut begin_s, mut period_s) = (20.0, 66.0);
        let mut begins = Vec::new();
        while begin_s < 594.0 {
            begins.push(begin_s);
            (0..6).for_each(|second| series[begin_s as usize + second] += 1.0);
            begin_s += period_s;
            period_s -= 1.3;
        }
        let mean = series.iter().sum::<f64>() / 600.0;
        series.iter_mut().for_each(|value| *value -= mean);
        let model = Autoregression::fit(&series, 4).unwrap();
        let rhythm = refine(&series, &model, 121.0, &mut stream).unwrap();
        assert!((rhythm.period_s - 60.0).abs() < 1.5, "{rhythm:?}");
        assert!((0.7..0.95).contains(&rhythm.drift) && rhythm.explained > 0.7, "{rhythm:?}");
        let hit =
            |begin: &&f64| rhythm.high.iter().any(|high| high.0 < **begin + 5.0 && high.1 > **begin + 1.0);
        assert_eq!(begins.iter().filter(hit).count(), begins.len(), "{begins:?} {rhythm:?}");
    }

    #[test]
    fn noise_folds_to_nothing() {
        let mut stream = SeededRandom::from_seed(12);
        let series: Vec<f64> = (0..600).map(|_| stream.normal()).collect();
        let fold = Fold { frequency: 1.0 / 60.0, drift_cycles: 0.0, phases: 20, explained: 0.0 };
        assert!(fold.explains(&series).abs() < 0.03);
    }
}
