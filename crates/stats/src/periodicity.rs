//! Tests whether a per-second series has a rhythm, without knowing when its cause acts: the blind path of
//! docs/methods.md#periodic-spikes.
//!
//! The periodogram is divided by the spectrum of an autoregressive model, which makes noise with memory flat; four
//! harmonics are summed, because spikes are no sines; and the largest sum over all periods is compared with the
//! largest in surrogates that have the same memory and no rhythm, each with a model of its own, as the series had.
//! Only a found rhythm is refined (see `rhythm.rs`). It refuses series under [`MIN_SECONDS`], and periods under
//! 5 s or above a fifth of the series. It is weak for periods that drift, and below +35 % with ten cycles: where the
//! times of the cause are known, `paired_events` sees much more.

use std::f64::consts::TAU;

use crate::fourier::Fourier;
use crate::rhythm::{Rhythm, refine};
use crate::summary::quantile_of_sorted;
use crate::{Autoregression, SeededRandom};

/// The shortest period looked for, in seconds.
pub const MIN_PERIOD_S: f64 = 5.0;
/// The longest period looked for is the series over this: with fewer cycles everything looks like one.
pub const MIN_CYCLES: f64 = 5.0;
/// Shorter series have no answer.
pub const MIN_SECONDS: usize = 60;
/// One less than the shortest period: a longer memory would remember the rhythm that it is compared with.
pub(crate) const MAX_ORDER: usize = 4;
/// Spikes have power at multiples of their frequency.
const HARMONICS: usize = 4;
/// Values outside of the middle 99 % are pulled in, so that one stall is not a rhythm.
const WINSOR_QUANTILE: f64 = 0.995;
/// Points of the transform for each value, so that the fourth multiple of a frequency lies near a point too.
const PADDING: usize = 4;
/// Once this many surrogates are as rhythmic as the series it is not going to be a finding (Besag and Clifford,
/// Biometrika 78, 1991).
const MAX_EXCEEDING: usize = 20;
/// Above this p the series has no rhythm worth refining.
const MAX_REFINED_P: f64 = 0.05;

/// The most rhythmic period of a series, whether significant or not: see `p`.
#[derive(Clone, Debug, PartialEq)]
pub struct Periodicity {
    /// The chance of so much rhythm at any period in a series that has the same memory and none: (1 + b) / (1 + B),
    /// never zero.
    pub p: f64,
    /// B: the number of surrogates drawn; fewer than requested if 20 exceeded the series.
    pub surrogates: usize,
    /// The period with most of the rhythm, in seconds; often a multiple or a fraction of the true one.
    pub peak_period_s: f64,
    /// The period, its shape and its confirmation, if p is at most 5 %.
    pub rhythm: Option<Rhythm>,
}

/// Looks for a rhythm in `values`, one for each second, without gaps; ratios are best seen on logarithms. At most `surrogates` (B;
/// 999 resolves 0.1 %) are drawn from `stream`. `None` under 60 values, or if they are constant or not finite.
pub fn find_period(values: &[f64], surrogates: usize, stream: &mut SeededRandom) -> Option<Periodicity> {
    if values.len() < MIN_SECONDS || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let series = prepared(values)?;
    let search = PeriodSearch::over(series.len());
    let model = Autoregression::fit(&series, MAX_ORDER)?;
    let [observed, _] = search.scores(&series, &model, &[], &model);
    let mut pair = [vec![0.0; series.len()], vec![0.0; series.len()]];
    let (mut exceeding, mut drawn) = (0usize, 0usize);
    while drawn < surrogates && exceeding < MAX_EXCEEDING {
        for series in &mut pair {
            model.draw(series, stream);
            *series = prepared(series)?;
        }
        let [one, two] = &pair;
        let own = |series: &[f64]| Autoregression::fit(series, MAX_ORDER);
        for score in search.scores(one, &own(one)?, two, &own(two)?).iter().take(surrogates - drawn) {
            exceeding += usize::from(score.0 >= observed.0);
            drawn += 1;
        }
    }
    let p = (1 + exceeding) as f64 / (1 + drawn) as f64;
    let peak_period_s = search.fourier.size() as f64 / observed.1 as f64;
    let rhythm = (p <= MAX_REFINED_P).then(|| refine(&series, &model, peak_period_s, stream)).flatten();
    Some(Periodicity { p, surrogates: drawn, peak_period_s, rhythm })
}

/// The values winsorised, and without their straight line, which would leak into every low frequency.
pub(crate) fn prepared(values: &[f64]) -> Option<Vec<f64>> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = |q: f64| quantile_of_sorted(&sorted, q);
    let (low, high) = (at(1.0 - WINSOR_QUANTILE)?, at(WINSOR_QUANTILE)?);
    let pulled: Vec<f64> = values.iter().map(|value| value.clamp(low, high)).collect();
    let middle = (pulled.len() - 1) as f64 / 2.0;
    let mean = pulled.iter().sum::<f64>() / pulled.len() as f64;
    let places = || (0..pulled.len()).map(|place| place as f64 - middle);
    let slope = places().zip(&pulled).map(|(x, y)| x * y).sum::<f64>() / places().map(|x| x * x).sum::<f64>();
    Some(places().zip(&pulled).map(|(x, y)| y - mean - slope * x).collect())
}

/// A search over all periods of series of one length.
pub(crate) struct PeriodSearch {
    fourier: Fourier,
    values: f64,
    /// cos(2 pi i / size), for the spectra.
    cosines: Vec<f64>,
    /// Points of the transform whose periods are examined.
    fundamentals: std::ops::RangeInclusive<usize>,
}

impl PeriodSearch {
    pub(crate) fn over(values: usize) -> PeriodSearch {
        let fourier = Fourier::at_least(PADDING * values);
        let size = fourier.size() as f64;
        let lowest = (size * MIN_CYCLES / values as f64).ceil() as usize;
        let highest = (size / MIN_PERIOD_S).floor() as usize;
        let cosines = (0..fourier.size()).map(|place| (TAU * place as f64 / size).cos()).collect();
        PeriodSearch { fourier, values: values as f64, cosines, fundamentals: lowest..=highest }
    }

    /// The most rhythm at any period, as -ln of the chance of so much at that one, and its point; for two series.
    pub(crate) fn scores(
        &self,
        one: &[f64],
        model_one: &Autoregression,
        two: &[f64],
        model_two: &Autoregression,
    ) -> [(f64, usize); 2] {
        let [power_one, power_two] = self.fourier.powers(one, two);
        [self.score(power_one, model_one), self.score(power_two, model_two)]
    }

    fn score(&self, powers: Vec<f64>, model: &Autoregression) -> (f64, usize) {
        let mut best = (0.0, *self.fundamentals.start());
        for (place, score) in self.surprises(powers, model) {
            if score > best.0 {
                best = (score, place);
            }
        }
        best
    }

    /// The amount of rhythm at each examined period, in seconds, the longest first, as -ln of the chance of that much.
    pub(crate) fn by_period(&self, series: &[f64], model: &Autoregression) -> Vec<(f64, f64)> {
        let [powers, _] = self.fourier.powers(series, &[]);
        let size = self.fourier.size() as f64;
        self.surprises(powers, model).map(|(place, score)| (size / place as f64, score)).collect()
    }

    fn surprises(
        &self,
        mut powers: Vec<f64>,
        model: &Autoregression,
    ) -> impl Iterator<Item = (usize, f64)> + use<> {
        let around = self.cosines.len() - 1; // The size is a power of two: a mask.
        for (place, power) in powers.iter_mut().enumerate() {
            let cosine = |lag: usize| self.cosines.get((place * lag) & around).copied().unwrap_or(1.0);
            *power /= self.values * model.spectrum_by(cosine);
        }
        self.fundamentals.clone().map(move |place| {
            let heard = (1..=HARMONICS).filter_map(|multiple| powers.get(place * multiple));
            let (mut sum, mut harmonics) = (0.0, 0);
            heard.for_each(|power| (sum, harmonics) = (sum + power, harmonics + 1));
            (place, erlang_surprise(sum, harmonics))
        })
    }
}

/// -ln of the chance that `harmonics` exponential deviates of mean 1 add up to `sum` or more: what makes sums of
/// fewer harmonics, at periods near 5 s, comparable with the others.
fn erlang_surprise(sum: f64, harmonics: usize) -> f64 {
    let (mut term, mut terms) = (1.0, 1.0);
    for index in 1..harmonics {
        term *= sum / index as f64;
        terms += term;
    }
    sum - terms.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scipy.stats.gamma.sf(9, 4) = 0.02122649, gamma.sf(3, 2) = 0.19914827.
    #[test]
    fn sums_of_harmonics_are_scored_by_their_chance() {
        assert!((erlang_surprise(9.0, 4) + 0.021_226_49f64.ln()).abs() < 1e-6);
        assert!((erlang_surprise(3.0, 2) + 0.199_148_27f64.ln()).abs() < 1e-6);
    }

    fn spiky(period_s: usize, width_s: usize, height: f64, seed: u64) -> Vec<f64> {
        let mut stream = SeededRandom::from_seed(seed);
        (0..600).map(|s| 0.1 * stream.normal() + if s % period_s < width_s { height } else { 0.0 }).collect()
    }

    /// Periods from 7 s to 100 s, not a half nor a double of them.
    #[test]
    fn the_period_itself_is_found() {
        for (period_s, width_s) in [(7, 1), (12, 2), (30, 3), (60, 6), (61, 4), (100, 9)] {
            let values = spiky(period_s, width_s, 0.6, period_s as u64);
            let found = find_period(&values, 199, &mut SeededRandom::from_seed(1)).unwrap();
            let rhythm = found.rhythm.unwrap();
            let off = (rhythm.period_s / period_s as f64 - 1.0).abs();
            assert!(found.p <= 0.005 && off < 0.02 && rhythm.confirmed, "{period_s}: {rhythm:?}");
        }
    }

    #[test]
    fn stalls_and_trends_are_not_rhythms() {
        let mut stream = SeededRandom::from_seed(8);
        let mut values: Vec<f64> = (0..600).map(|s| 0.002 * f64::from(s) + 0.1 * stream.normal()).collect();
        values[100] += 3.0;
        values[371] += 4.0;
        let found = find_period(&values, 199, &mut stream).unwrap();
        assert!(found.p > 0.05 && found.rhythm.is_none() && found.surrogates < 199, "{found:?}");
    }

    #[test]
    fn what_cannot_be_searched_has_no_answer() {
        let mut stream = SeededRandom::from_seed(9);
        assert_eq!(find_period(&[1.0; 600], 99, &mut stream), None);
        assert_eq!(find_period(&[1.0, 2.0, 3.0], 99, &mut stream), None);
        assert_eq!(find_period(&[f64::NAN; 100], 99, &mut stream), None);
    }

    #[test]
    fn the_same_seed_gives_the_same_answer() {
        let values = spiky(40, 4, 0.3, 2);
        let once = find_period(&values, 99, &mut SeededRandom::from_seed(3));
        assert_eq!(once, find_period(&values, 99, &mut SeededRandom::from_seed(3)));
    }
}
