//! The arithmetic of measurements: seeded chance, summaries, checks, laws of throughput, steps and trends.
//!
//! Pure: no clock, no files, no threads, and no randomness but a seeded one, so that a run folder judged twice gives
//! the same judgement. Each statistic carries its source and is tested on simulations whose truth is known.
//! Nothing here prints a verdict: it returns numbers, and `None` or a reason where the data cannot bear them.
//! p-values by resampling are (1 + b) / (1 + B) and never zero.

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
mod random;
mod rank;
mod rhythm;
mod sign_flip;
mod slo;
mod spectrum;
mod steady;
mod summary;

pub use autoregression::Autoregression;
pub use block_bootstrap::{Resampled, bootstrap_sums};
pub use changepoint::{FEWEST_VALUES, Step, find_step};
pub use histogram::Histogram;
pub use history::{
    FEWEST_TO_JUDGE, FEWEST_TO_SUSPECT, HistoryReach, HistoryVerdict, LevelChange, level_changes,
};
pub use knee::{Knee, LadderLevel, knee, pick_bisection};
pub use little::{LITTLE_TOLERANCE, LittleCheck};
pub use models::{AICC_MARGIN, Comparison, Curve, Fit, Level, Model, Peak, fit};
pub use multiple::{benjamini_hochberg, holm};
pub use paired_events::{
    EventCycle, EventEffect, EventVerdict, FEWEST_EVENTS, LatencyReading, paired_events,
};
pub use periodicity::{FEWEST_CYCLES, FEWEST_SECONDS, Periodicity, SHORTEST_PERIOD_S, find_period};
pub use random::Seeded;
pub use rank::{RankCorrelation, Trend, mann_kendall, spearman};
pub use rhythm::{Echo, Rhythm};
pub use sign_flip::{MOST_ENUMERATED_PAIRS, Shift, SignFlip, hodges_lehmann, sign_flip};
pub use slo::{MAX_CLIENT_CPU_SHARE, Slo};
pub use spectrum::{Spectrum, spectrum};
pub use steady::{STEADY_EXCURSION, STEADY_SLOPE_EXCURSION, STEADY_WINDOW, SteadyState, steady_state};
pub use summary::{
    Interval, bootstrap_mean, bootstrap_ratio, coefficient_of_variation, mean, median, quantile,
    standard_deviation, theil_sen_slope,
};
