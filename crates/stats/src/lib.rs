//! The arithmetic of measurements: seeded random numbers, summaries, checks, laws of throughput, steps and trends.
//!
//! Pure: no clock, no files, no threads, and no randomness but a seeded one, so that a run folder judged twice gives the same
//! judgement. Each statistic names its source and is tested on simulations whose truth is known. The crate prints no verdict: it
//! returns numbers, and `None` or a reason if the data do not support them. p-values by resampling are (1 + b) / (1 + B) and never
//! zero.

mod autoregression;
mod block_bootstrap;
mod changepoint;
mod distribution;
pub mod experiment;
mod fourier;
mod histogram;
mod history;
mod knee;
mod little;
mod models;
mod multiple;
mod paired_events;
mod periodicity;
mod proportion;
mod random;
mod rank;
mod rhythm;
mod sign_flip;
mod slo;
mod spectrum;
mod steady;
mod step_down;
mod summary;
mod token_bucket;

pub use autoregression::Autoregression;
pub use block_bootstrap::{BootstrapEstimate, bootstrap_sums};
pub use changepoint::{ChangePoint, MIN_VALUES, find_step};
pub use histogram::Histogram;
pub use history::{
    HistoryReach, HistoryVerdict, LevelChange, MIN_VALUES_TO_JUDGE, MIN_VALUES_TO_SUSPECT, level_changes,
};
pub use knee::{KneeEstimate, LadderLevel, knee, pick_bisection};
pub use little::{LittleCheck, MAX_LITTLE_GAP};
pub use models::{AICC_MARGIN, Curve, Fit, Level, Model, ModelComparison, Peak, fit};
pub use multiple::{benjamini_hochberg, holm};
pub use paired_events::{EventCycle, EventEffect, EventVerdict, LatencyReading, MIN_EVENTS, paired_events};
pub use periodicity::{MIN_CYCLES, MIN_PERIOD_S, MIN_SECONDS, Periodicity, find_period};
pub use proportion::wilson_interval;
pub use random::SeededRandom;
pub use rank::{RankCorrelation, Trend, mann_kendall, spearman};
pub use rhythm::{Echo, Rhythm};
pub use sign_flip::{MAX_ENUMERATED_PAIRS, Shift, SignFlip, hodges_lehmann, sign_flip};
pub use slo::{MAX_CLIENT_CPU_SHARE, Slo};
pub use spectrum::{Spectrum, spectrum};
pub use steady::{
    MAX_STEADY_EXCURSION, MAX_STEADY_SLOPE_EXCURSION, STEADY_WINDOW_ROUNDS, SteadyState, steady_state,
};
pub use step_down::{
    MIN_STEPS_AFTER, MIN_STEPS_BEFORE, StepDown, find_step_down, is_still_down, locate_step,
};
pub use summary::{
    Interval, bootstrap_mean, bootstrap_ratio, coefficient_of_variation, mean, median, quantile,
    standard_deviation, theil_sen_slope,
};
pub use token_bucket::{Passage, missing_tokens};
