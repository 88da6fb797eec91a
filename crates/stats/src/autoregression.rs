//! Models the memory of a series: an autoregressive model, its spectrum, and surrogate series that have the same memory and no
//! other structure.
//!
//! Latency of one second resembles that of the last, so the surprise in a pattern can only be measured against noise with the same
//! memory (docs/methods.md#series-with-memory: white-noise tests call two thirds of such series periodic). The model solves the
//! Yule-Walker equations by the recursion of Levinson and Durbin; the surrogates draw the model's own innovations with replacement,
//! an autoregressive sieve (Bühlmann, Bernoulli 3, 1997). It refuses series that are constant or not finite, and orders above
//! [`MAX_COEFFICIENTS`].

use std::f64::consts::TAU;

use crate::SeededRandom;

/// The longest memory that can be drawn.
pub(crate) const MAX_COEFFICIENTS: usize = 8;
/// Values discarded before a surrogate starts, so that its first value does not remember a zero.
const BURN_IN: usize = 50;

/// An autoregressive model of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Autoregression {
    coefficients: Vec<f64>,
    innovations: Vec<f64>,
    variance: f64,
    /// The autocorrelation of 1, -phi_1, -phi_2 …, both signs of each lag: |1 - sum phi_k e^(-ik)|² as cosines.
    cosines: Vec<f64>,
}

impl Autoregression {
    /// The model of `values` whose order, from 0 to `highest_order` (8 at most), has the lowest Akaike criterion
    /// n ln(variance) + 2 order. `None` if there are not ten values for each coefficient, or they are constant
    /// or not finite.
    pub fn fit(values: &[f64], highest_order: usize) -> Option<Autoregression> {
        let highest_order = highest_order.min(MAX_COEFFICIENTS);
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        if values.len() < 10 * (highest_order + 1) || !mean.is_finite() {
            return None;
        }
        let centered: Vec<f64> = values.iter().map(|value| value - mean).collect();
        let covariances = autocovariances(&centered, highest_order);
        let spread = covariances.first().copied().filter(|spread| *spread > (1e-12 * mean).powi(2))?;
        let mut chosen = (n * spread.ln(), Vec::new(), spread);
        for (index, model) in levinson(&covariances, |partial, _| partial).into_iter().enumerate() {
            let criterion = n * model.variance.ln() + 2.0 * (index + 1) as f64;
            if criterion < chosen.0 {
                chosen = (criterion, model.coefficients, model.variance);
            }
        }
        let (_, coefficients, variance) = chosen;
        spread
            .is_finite()
            .then(|| Autoregression { variance, ..Autoregression::new(&centered, coefficients) })
    }

    /// The model with these coefficients, the innovations taken from centred `residuals`.
    pub(crate) fn new(residuals: &[f64], coefficients: Vec<f64>) -> Autoregression {
        let innovations = innovations(residuals, &coefficients);
        let squares: f64 = innovations.iter().map(|value| value * value).sum();
        let variance = squares / innovations.len().max(1) as f64;
        Autoregression { cosines: cosines(&coefficients), coefficients, innovations, variance }
    }

    /// The coefficients, starting with that of the latest value.
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// The power at `frequency`, in cycles for each value (0 to 0.5), in squares of the unit of the values; its
    /// mean over -0.5..0.5 is their variance.
    pub fn spectrum(&self, frequency: f64) -> f64 {
        self.spectrum_by(|lag| (TAU * frequency * lag as f64).cos())
    }

    /// [`Autoregression::spectrum`] if the cosine of each lag is known: variance / |1 - sum phi_k e^(-ik)|².
    pub(crate) fn spectrum_by(&self, cosine: impl Fn(usize) -> f64) -> f64 {
        let gain: f64 = self.cosines.iter().enumerate().map(|(lag, height)| height * cosine(lag)).sum();
        self.variance / gain.max(f64::MIN_POSITIVE)
    }

    /// Fills `series` with values that have this memory, a mean of zero, and no pattern.
    pub fn draw(&self, series: &mut [f64], stream: &mut SeededRandom) {
        let mut recent = [0.0; MAX_COEFFICIENTS];
        let mut next = || {
            let echo: f64 = self.coefficients.iter().zip(recent).map(|(phi, value)| phi * value).sum();
            let value = echo + stream.pick(&self.innovations).unwrap_or(0.0);
            recent.copy_within(..MAX_COEFFICIENTS - 1, 1);
            if let Some(newest) = recent.first_mut() {
                *newest = value;
            }
            value
        };
        for _ in 0..BURN_IN {
            next();
        }
        series.iter_mut().for_each(|value| *value = next());
    }
}

fn cosines(coefficients: &[f64]) -> Vec<f64> {
    let filter: Vec<f64> = std::iter::once(1.0).chain(coefficients.iter().map(|phi| -phi)).collect();
    let products = |lag: usize| filter.iter().zip(filter.iter().skip(lag)).map(|(one, two)| one * two);
    (0..filter.len()).map(|lag| products(lag).sum::<f64>() * if lag == 0 { 1.0 } else { 2.0 }).collect()
}

/// Mean products of centred values with those `0..=highest_lag` places later, all over the number of values, which
/// keeps the model stationary.
pub(crate) fn autocovariances(centered: &[f64], highest_lag: usize) -> Vec<f64> {
    let covariance = |lag: usize| {
        let products = centered.iter().zip(centered.iter().skip(lag)).map(|(early, late)| early * late);
        products.sum::<f64>() / centered.len() as f64
    };
    (0..=highest_lag).map(covariance).collect()
}

/// A model of one order: its coefficients, and the variance that it leaves.
pub(crate) struct Order {
    pub(crate) coefficients: Vec<f64>,
    pub(crate) variance: f64,
}

/// The models of order 1, 2, … that autocovariances give; `corrected` may remove the bias from each partial autocorrelation (with
/// its order). Ends early if no variance is left to explain.
pub(crate) fn levinson(covariances: &[f64], corrected: impl Fn(f64, usize) -> f64) -> Vec<Order> {
    let at = |lag: usize| covariances.get(lag).copied().unwrap_or(0.0);
    let (mut variance, mut coefficients, mut orders) = (at(0), Vec::<f64>::new(), Vec::new());
    for order in 1..covariances.len() {
        if variance <= 0.0 {
            break;
        }
        let echoes = coefficients.iter().enumerate();
        let predicted: f64 = echoes.map(|(index, phi)| phi * at(order - 1 - index)).sum();
        let partial = corrected((at(order) - predicted) / variance, order);
        let mirrored: Vec<f64> = coefficients.iter().rev().copied().collect();
        coefficients.iter_mut().zip(mirrored).for_each(|(phi, other)| *phi -= partial * other);
        coefficients.push(partial);
        variance *= 1.0 - partial * partial;
        orders.push(Order { coefficients: coefficients.clone(), variance });
    }
    orders
}

/// The residual of each value after its prediction, centred.
fn innovations(residuals: &[f64], coefficients: &[f64]) -> Vec<f64> {
    let order = coefficients.len();
    let mut left: Vec<f64> = residuals
        .windows(order + 1)
        .filter_map(|window| {
            let (newest, past) = window.split_last()?;
            let echo: f64 = coefficients.iter().zip(past.iter().rev()).map(|(phi, value)| phi * value).sum();
            Some(newest - echo)
        })
        .collect();
    let mean = left.iter().sum::<f64>() / left.len().max(1) as f64;
    left.iter_mut().for_each(|value| *value -= mean);
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 000 values of x = 0.5 x' + 0.3 x'' + noise.
    fn second_order() -> Vec<f64> {
        let mut stream = SeededRandom::from_seed(3);
        let (mut last, mut before) = (0.0, 0.0);
        let mut next = || {
            let value = 0.5 * last + 0.3 * before + stream.normal();
            (last, before) = (value, last);
            value
        };
        (0..20_000).map(|_| next()).collect()
    }

    #[test]
    fn a_known_memory_is_recovered_and_its_surrogates_have_it_too() {
        let model = Autoregression::fit(&second_order(), 6).unwrap();
        let near = |model: &Autoregression| {
            let [first, second] = [0, 1].map(|index| model.coefficients()[index]);
            (first - 0.5).abs() < 0.03 && (second - 0.3).abs() < 0.03
        };
        assert!(near(&model) && model.coefficients()[2..].iter().all(|phi| phi.abs() < 0.03), "{model:?}");
        let mut surrogate = vec![0.0; 20_000];
        model.draw(&mut surrogate, &mut SeededRandom::from_seed(4));
        assert!(near(&Autoregression::fit(&surrogate, 2).unwrap()));
    }

    /// Closed forms: 1 / |1 - 0.5 - 0.3|² at 0, 1 / |1 + 0.5 - 0.3|² at 0.5; and the mean of a spectrum is the
    /// variance of its series.
    #[test]
    fn the_spectrum_agrees_with_its_closed_form() {
        let model = Autoregression { variance: 1.0, ..Autoregression::new(&[], vec![0.5, 0.3]) };
        assert!((model.spectrum(0.0) - 25.0).abs() < 1e-9);
        assert!((model.spectrum(0.5) - 1.0 / 1.44).abs() < 1e-9);
        let fitted = Autoregression::fit(&second_order(), 2).unwrap();
        let mean = (0..1000).map(|step| fitted.spectrum(f64::from(step) / 1000.0)).sum::<f64>() / 1000.0;
        let spread = second_order().iter().map(|value| value * value).sum::<f64>() / 20_000.0;
        assert!((mean / spread - 1.0).abs() < 0.02, "{mean} {spread}");
    }

    #[test]
    fn what_has_no_memory_to_fit_has_none() {
        assert_eq!(Autoregression::fit(&[2.0; 100], 3), None);
        assert_eq!(Autoregression::fit(&[1.0, 2.0, 1.5], 1), None);
        let mut values = second_order();
        values[7] = f64::NAN;
        assert_eq!(Autoregression::fit(&values, 3), None);
        let mut stream = SeededRandom::from_seed(5);
        let white: Vec<f64> = (0..4000).map(|_| stream.normal()).collect();
        assert!(Autoregression::fit(&white, 4).unwrap().coefficients().iter().all(|phi| phi.abs() < 0.06));
    }
}
