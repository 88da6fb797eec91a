//! Bounded least squares for the shapes of `curve`: Levenberg and Marquardt's method in at most two dimensions.
//!
//! On the logarithmic scale the gain is an intercept, whose best value is known for any shape, so only the shape's
//! one or two parameters are searched (variable projection: Golub and Pereyra, SIAM J. Numer. Anal. 10, 1973).
//! Least squares over replicates equals weighted least squares over level means, so a fit costs microseconds and
//! a bootstrap of hundreds is affordable. Several starts stand against local minima.

use super::curve::Model;

const MAX_STEPS: usize = 60;
/// A relative gain smaller than this ends the search.
const MIN_RELATIVE_GAIN: f64 = 1e-10;

/// All measurements at one concurrency, on the logarithmic scale.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConcurrencyGroup {
    pub(crate) concurrency: f64,
    pub(crate) logs: Vec<f64>,
    pub(crate) mean_log: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Solution {
    /// ln(g), the fitted intercept.
    pub(crate) intercept: f64,
    /// Logarithms of the shape's parameters.
    pub(crate) shape: [f64; 2],
    /// Weighted squares of the level means around the curve.
    pub(crate) loss: f64,
}

/// The best of the searches from a grid of starts.
pub(crate) fn from_many_starts(model: Model, groups: &[ConcurrencyGroup]) -> Solution {
    best_of(model, groups, &starts(model, groups))
}

/// The best of the searches from `starts`.
pub(crate) fn best_of(model: Model, groups: &[ConcurrencyGroup], starts: &[[f64; 2]]) -> Solution {
    let first = residuals(model, groups, [0.0, 0.0]).solution;
    let searched = starts.iter().map(|start| search(model, groups, *start));
    searched.min_by(|one, two| one.loss.total_cmp(&two.loss)).unwrap_or(first)
}

fn ends(groups: &[ConcurrencyGroup]) -> (f64, f64) {
    let lowest = groups.first().map_or(1.0, |group| group.concurrency);
    (lowest, groups.last().map_or(lowest, |group| group.concurrency))
}

/// Starts spread over what a ladder can show.
fn starts(model: Model, groups: &[ConcurrencyGroup]) -> Vec<[f64; 2]> {
    let (lowest, highest) = ends(groups);
    let pairs = |first: &[f64], second: &[f64]| -> Vec<[f64; 2]> {
        first.iter().flat_map(|a| second.iter().map(|b| [a.ln(), b.ln()])).collect()
    };
    match model {
        Model::Linear => vec![[0.0, 0.0]],
        Model::Amdahl => pairs(&[0.001, 0.03, 0.5], &[1.0]),
        Model::Usl => {
            // A coherency of 1 / N^2 puts the peak near N.
            let peaks = [lowest.max(2.0), (lowest * highest).sqrt().max(2.0), highest.max(2.0)];
            pairs(&[1e-4, 0.01, 0.2], &peaks.map(|peak| 1.0 / (peak * peak)))
        }
        Model::Cap => {
            let steps = 5;
            let knee = |step: i32| lowest * (highest / lowest).powf(f64::from(step) / f64::from(steps));
            let knees: Vec<f64> = (0..=steps).map(knee).collect();
            pairs(&knees, &[4.0, 24.0])
        }
    }
}

/// Residuals and derivatives at one point, the intercept already removed from both.
struct Residuals {
    solution: Solution,
    /// J'J and J'r of the normal equations, weighted.
    normal: [[f64; 2]; 2],
    gradient: [f64; 2],
}

fn residuals(model: Model, groups: &[ConcurrencyGroup], shape: [f64; 2]) -> Residuals {
    let (mut weight, mut mean, mut mean_slopes) = (0.0, 0.0, [0.0; 2]);
    for group in groups {
        let (log, slopes) = model.log_shape(shape, group.concurrency);
        let share = group.logs.len() as f64;
        weight += share;
        mean += share * (group.mean_log - log);
        mean_slopes = add(mean_slopes, slopes, share);
    }
    mean /= weight;
    mean_slopes = mean_slopes.map(|slope| slope / weight);
    let (mut loss, mut normal, mut gradient) = (0.0, [[0.0; 2]; 2], [0.0; 2]);
    for group in groups {
        let (log, slopes) = model.log_shape(shape, group.concurrency);
        let share = group.logs.len() as f64;
        let residual = group.mean_log - log - mean;
        let centered = add(slopes, mean_slopes, -1.0);
        loss += share * residual * residual;
        gradient = add(gradient, centered, share * residual);
        for (row, slope) in normal.iter_mut().zip(centered) {
            *row = add(*row, centered, share * slope);
        }
    }
    Residuals { solution: Solution { intercept: mean, shape, loss }, normal, gradient }
}

fn add(one: [f64; 2], two: [f64; 2], factor: f64) -> [f64; 2] {
    let ([a, b], [c, d]) = (one, two);
    [a + factor * c, b + factor * d]
}

/// Descends from `start`, clamped into the model's bounds.
fn search(model: Model, groups: &[ConcurrencyGroup], start: [f64; 2]) -> Solution {
    let (lowest, highest) = ends(groups);
    let bounds = model.bounds(lowest, highest);
    let clamp = |[a, b]: [f64; 2]| {
        let [first, second] = &bounds;
        [a.clamp(*first.start(), *first.end()), b.clamp(*second.start(), *second.end())]
    };
    let mut here = residuals(model, groups, clamp(start));
    if model.shape_parameters() == 0 {
        return here.solution;
    }
    let mut damping = 1e-3;
    for _ in 0..MAX_STEPS {
        let step = damped_step(&here, damping, &bounds);
        let there = residuals(model, groups, clamp(add(here.solution.shape, step, 1.0)));
        if there.solution.loss < here.solution.loss {
            let gained = here.solution.loss - there.solution.loss;
            let enough = gained <= MIN_RELATIVE_GAIN * here.solution.loss;
            here = there;
            damping = (damping / 5.0_f64).max(1e-9);
            if enough {
                break;
            }
        } else {
            damping *= 4.0;
            if damping > 1e9 {
                break;
            }
        }
    }
    here.solution
}

/// The Levenberg-Marquardt step. A parameter that is at a bound and is pushed beyond it is held, so that the
/// other one is not dragged along.
fn damped_step(here: &Residuals, damping: f64, bounds: &[std::ops::RangeInclusive<f64>; 2]) -> [f64; 2] {
    let [[a, b], [_, d]] = here.normal;
    let [p, q] = here.gradient;
    let [x, y] = here.solution.shape;
    let [first, second] = bounds;
    let held = |value: f64, push: f64, range: &std::ops::RangeInclusive<f64>| {
        (value <= *range.start() && push <= 0.0) || (value >= *range.end() && push >= 0.0)
    };
    let alone = |curvature: f64, push: f64| {
        let damped = curvature * (1.0 + damping);
        if damped > 0.0 { (push / damped).clamp(-4.0, 4.0) } else { 0.0 }
    };
    match (held(x, p, first), held(y, q, second)) {
        (true, true) => [0.0, 0.0],
        (true, false) => [0.0, alone(d, q)],
        (false, true) => [alone(a, p), 0.0],
        (false, false) => {
            let (a, d) = (a * (1.0 + damping), d * (1.0 + damping));
            let determinant = a * d - b * b;
            if determinant <= 1e-14 * a * d {
                return [alone(a, p), alone(d, q)];
            }
            // A step of 4 in a logarithm is a factor of 55: further would only leave the region of trust.
            let step = [(p * d - q * b) / determinant, (q * a - p * b) / determinant];
            step.map(|part| part.clamp(-4.0, 4.0))
        }
    }
}
