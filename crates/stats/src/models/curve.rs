//! The four laws of throughput X against concurrency N, their shapes and derivatives on the logarithmic scale.
//!
//! Every law is a gain g (throughput per unit of concurrency at the start) times a shape with at most two further
//! parameters, which are handled as logarithms so that they stay positive:
//!
//! - linear: g N
//! - Amdahl: g N / (1 + s (N - 1)); Amdahl, AFIPS 30, 1967, as written by Gunther
//! - cap: g N / (1 + (N / K)^p)^(1/p) with knee K = C / g: the bound min(g N, C) with its corner rounded. The
//!   sharpness p is fitted between 2 and 64 because the corner's roundness is the waiting near the knee, which
//!   depends on how regular the service is: in exact mean value analysis of a random limiter behind a fixed delay,
//!   throughput at a knee of N = 2 is 0.8 of the cap (p = 3), while a token bucket leaves a sharp corner. At p = 1
//!   it would be Amdahl's law, hence the lower bound
//! - USL: g N / (1 + s (N - 1) + k N (N - 1)); Gunther, Guerrilla Capacity Planning (2007)

use std::ops::RangeInclusive;

/// A law of throughput against concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// Every unit of concurrency adds the same.
    Linear,
    /// A serial share limits it.
    Amdahl,
    /// A hard ceiling: a provisioned rate, or a saturated device.
    Cap,
    /// A serial share, and a cost of coordination that makes throughput fall in the end.
    Usl,
}

impl Model {
    /// All, fewest parameters first.
    pub const ALL: [Model; 4] = [Model::Linear, Model::Amdahl, Model::Cap, Model::Usl];

    /// The number of parameters of the curve.
    pub fn parameters(self) -> usize {
        1 + self.shape_parameters()
    }

    pub(crate) fn shape_parameters(self) -> usize {
        match self {
            Model::Linear => 0,
            Model::Amdahl => 1,
            Model::Cap | Model::Usl => 2,
        }
    }

    /// Its name in running text.
    pub fn name(self) -> &'static str {
        match self {
            Model::Linear => "linear",
            Model::Amdahl => "Amdahl",
            Model::Cap => "cap",
            Model::Usl => "USL",
        }
    }

    /// The ranges for the logarithms of the shape's parameters, for a ladder from `lowest` to `highest`.
    pub(crate) fn bounds(self, lowest: f64, highest: f64) -> [RangeInclusive<f64>; 2] {
        // Below these a contention or coherency changes nothing at any concurrency a ladder reaches.
        let contention = MIN_CONTENTION.ln()..=0.0;
        let coherency = MIN_COHERENCY.ln()..=0.0;
        match self {
            Model::Linear => [0.0..=0.0, 0.0..=0.0],
            Model::Amdahl => [contention, 0.0..=0.0],
            Model::Usl => [contention, coherency],
            // A knee further outside of the ladder than this leaves no trace in it.
            Model::Cap => [(lowest / 4.0).ln()..=(highest * 4.0).ln(), 2f64.ln()..=64f64.ln()],
        }
    }

    /// The natural logarithm of the shape at concurrency `n`, and its derivatives by the two log-parameters.
    pub(crate) fn log_shape(self, shape: [f64; 2], n: f64) -> (f64, [f64; 2]) {
        let [first, second] = shape;
        match self {
            Model::Linear => (n.ln(), [0.0, 0.0]),
            Model::Amdahl => {
                let serial = first.exp() * (n - 1.0);
                let divisor = 1.0 + serial;
                (n.ln() - divisor.ln(), [-serial / divisor, 0.0])
            }
            Model::Usl => {
                let serial = first.exp() * (n - 1.0);
                let coherent = second.exp() * n * (n - 1.0);
                let divisor = 1.0 + serial + coherent;
                (n.ln() - divisor.ln(), [-serial / divisor, -coherent / divisor])
            }
            Model::Cap => {
                let sharpness = second.exp();
                let distance = n.ln() - first;
                let exponent = sharpness * distance;
                // ln(1 + e^x) and e^x / (1 + e^x), written so that neither overflows.
                let softplus = exponent.max(0.0) + (-exponent.abs()).exp().ln_1p();
                let past = 1.0 / (1.0 + (-exponent).exp());
                (n.ln() - softplus / sharpness, [past, softplus / sharpness - distance * past])
            }
        }
    }
}

const MIN_CONTENTION: f64 = 1e-9;
const MIN_COHERENCY: f64 = 1e-14;

/// A law with its parameters. `gain` is throughput per unit of concurrency without queueing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Curve {
    /// X = gain N.
    Linear {
        /// g, the throughput of one request at a time.
        gain: f64,
    },
    /// X = gain N / (1 + contention (N - 1)).
    Amdahl {
        /// g, the throughput of one request at a time.
        gain: f64,
        /// s, the serial share, 0 to 1.
        contention: f64,
    },
    /// X = min(gain N, ceiling) with a rounded corner.
    Cap {
        /// g, the throughput of one request at a time.
        gain: f64,
        /// C, in the unit of throughput.
        ceiling: f64,
        /// p, 2 (round) to 64 (sharp).
        sharpness: f64,
    },
    /// X = gain N / (1 + contention (N - 1) + coherency N (N - 1)).
    Usl {
        /// g, the throughput of one request at a time.
        gain: f64,
        /// s, 0 to 1.
        contention: f64,
        /// k, which is not negative.
        coherency: f64,
    },
}

impl Curve {
    /// From ln(gain) and the logarithms of the shape's parameters; a parameter at its lower bound is zero.
    pub(crate) fn new(model: Model, log_gain: f64, shape: [f64; 2]) -> Curve {
        let [first, second] = shape.map(f64::exp);
        let gain = log_gain.exp();
        let zeroed = |value: f64, least: f64| if value < 10.0 * least { 0.0 } else { value };
        let contention = zeroed(first, MIN_CONTENTION);
        match model {
            Model::Linear => Curve::Linear { gain },
            Model::Amdahl => Curve::Amdahl { gain, contention },
            Model::Cap => Curve::Cap { gain, ceiling: gain * first, sharpness: second },
            Model::Usl => Curve::Usl { gain, contention, coherency: zeroed(second, MIN_COHERENCY) },
        }
    }

    /// The throughput that the law gives at a positive concurrency, in the unit it was fitted in.
    pub fn throughput_at(&self, concurrency: f64) -> f64 {
        let n = concurrency;
        match *self {
            Curve::Linear { gain } => gain * n,
            Curve::Amdahl { gain, contention } => gain * n / (1.0 + contention * (n - 1.0)),
            Curve::Cap { gain, ceiling, sharpness } => {
                let exponent = sharpness * (gain * n / ceiling).ln();
                let softplus = exponent.max(0.0) + (-exponent.abs()).exp().ln_1p();
                gain * n * (-softplus / sharpness).exp()
            }
            Curve::Usl { gain, contention, coherency } => {
                gain * n / (1.0 + contention * (n - 1.0) + coherency * n * (n - 1.0))
            }
        }
    }

    /// N* = sqrt((1 - s) / k), where a USL has its highest throughput; `None` for the other laws and where
    /// k = 0 or s = 1.
    pub fn peak_concurrency(&self) -> Option<f64> {
        match *self {
            Curve::Usl { contention, coherency, .. } if coherency > 0.0 && contention < 1.0 => {
                Some(((1.0 - contention) / coherency).sqrt())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_agree_with_differences() {
        for model in [Model::Amdahl, Model::Cap, Model::Usl] {
            let second = if model == Model::Cap { 1.2 } else { -9.0 };
            for shape in [[-3.0, second], [-1.5, second + 1.0], [3.0, second + 2.0]] {
                for n in [1.0, 7.0, 300.0] {
                    let (_, slopes) = model.log_shape(shape, n);
                    for (which, slope) in slopes.iter().enumerate().take(model.shape_parameters()) {
                        let (mut up, mut down) = (shape, shape);
                        up[which] += 1e-6;
                        down[which] -= 1e-6;
                        let difference = (model.log_shape(up, n).0 - model.log_shape(down, n).0) / 2e-6;
                        assert!((difference - slope).abs() < 1e-6, "{model:?} {shape:?} {n} {which}");
                    }
                }
            }
        }
    }

    #[test]
    fn curve_and_shape_are_the_same_function() {
        for (model, shape) in [
            (Model::Linear, [0.0, 0.0]),
            (Model::Amdahl, [-4.0, 0.0]),
            (Model::Cap, [3.0, 2.0]),
            (Model::Usl, [-4.0, -9.0]),
        ] {
            let curve = Curve::new(model, 5.0, shape);
            for n in [1.0, 16.0, 1024.0] {
                let log = 5.0 + model.log_shape(shape, n).0;
                assert!((curve.throughput_at(n).ln() - log).abs() < 1e-12, "{model:?} at {n}");
            }
        }
    }

    #[test]
    fn the_cap_rounds_the_corner_and_nothing_else() {
        let cap = Curve::Cap { gain: 100.0, ceiling: 3200.0, sharpness: 64.0 };
        assert!((cap.throughput_at(8.0) - 800.0).abs() < 1e-9);
        assert!((cap.throughput_at(1e6) - 3200.0).abs() < 1e-9);
        assert!((cap.throughput_at(32.0) / 3200.0 - 2f64.powf(-1.0 / 64.0)).abs() < 1e-12);
        let usl = Curve::Usl { gain: 1.0, contention: 0.02, coherency: 0.0005 };
        assert!((usl.peak_concurrency().unwrap() - (0.98f64 / 0.0005).sqrt()).abs() < 1e-12);
        assert_eq!(cap.peak_concurrency(), None);
    }
}
