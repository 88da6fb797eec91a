//! The rates that a search for the highest one tries, and how sure it must be: for `ycsb --find-max`, and for a capacity in few short steps or confirmed.

use serde::{Deserialize, Serialize};

/// The rates that a search tries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchRates {
    /// The first rate, as a share of what a closed loop reaches.
    pub first_share: f64,
    /// The factor from a rate that was sustained to the next. Without one, what the closed loop reached counts as a rate that is not sustained (the same
    /// connections cannot do more, and a throttle passes more for seconds after a rest), and no rate above nine tenths of it is tried.
    pub climb: Option<f64>,
    /// The divisor from a rate that was not sustained to the next, while none was.
    pub descent: f64,
    /// The first pass ends when the lowest rate that was not sustained is at most this factor above the highest that was.
    pub bracket: f64,
    /// Whether the first pass tries a rate that was too slow a second time, in a step as long as those of the second pass: a rate that broke
    /// because of one stall holds then.
    pub is_retried: bool,
    /// The second pass ends at this factor.
    pub precision: f64,
    /// The most steps of the second pass; without any the first one counts.
    pub confirmations: u32,
    /// The part of the objective by which a percentile of the second pass must lie below it, or above it, to decide about a rate. Where the percentile
    /// rises slowly with the rate, chance would decide within it.
    pub tolerance: f64,
    /// The factor by which the share of operations that were too slow must lie below what the objective allows, or above it, for a step of the second
    /// pass to decide about a rate. One stall in a checkpoint's cycle makes about as many slow at any rate, and chance would decide (1: always decides).
    pub share_factor: f64,
    /// The factor by which the two ends of the answer are moved apart before they are stated. A step of a few seconds judges rates close to
    /// the true one by chance, so an answer without a second pass needs it.
    pub margin: f64,
}

impl Default for SearchRates {
    /// From a quarter of the closed loop in steps of a quarter, to 3 %.
    fn default() -> SearchRates {
        SearchRates {
            first_share: 0.25,
            climb: Some(1.25),
            descent: 3.0,
            bracket: 1.03,
            is_retried: false,
            precision: 1.03,
            confirmations: 6,
            tolerance: 0.0,
            share_factor: 1.0,
            margin: 1.0,
        }
    }
}

impl SearchRates {
    /// Rates for a capacity in few and short steps: the first pass counts, with a margin.
    pub fn coarse() -> SearchRates {
        SearchRates {
            first_share: 0.7,
            climb: None,
            descent: 1.43,
            bracket: 1.45,
            is_retried: true,
            precision: 1.0,
            confirmations: 0,
            tolerance: 0.0,
            share_factor: 1.0,
            margin: 1.2,
        }
    }

    /// Rates for a capacity to a precision, confirmed by a second pass.
    pub fn confirmed(precision: f64) -> SearchRates {
        SearchRates {
            first_share: 0.6,
            climb: None,
            descent: 1.6,
            bracket: 1.35,
            is_retried: false,
            precision,
            confirmations: 7,
            tolerance: 0.1,
            share_factor: 2.0,
            margin: 1.0,
        }
    }
}
