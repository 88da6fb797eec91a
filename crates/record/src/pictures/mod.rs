//! What charts of a run show that no series holds as it is: computed when a run is shown, never stored, never a verdict.

pub mod cycles;
pub mod rhythm;
pub mod scaling;

use std::collections::BTreeMap;

use cycles::SuperposedCycles;
use rhythm::LatencyRhythm;
use scaling::Scaling;

/// All of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pictures {
    /// When checkpoints of each server ran, by its number: begin and end in seconds since the run's start.
    pub checkpoints: BTreeMap<String, Vec<(f64, f64)>>,
    /// Cycles of checkpoints or flushes, laid over each other.
    pub cycles: Vec<SuperposedCycles>,
    /// Latency by period and by lag.
    pub rhythms: Vec<LatencyRhythm>,
    /// Throughput over connections, with the laws fitted to it.
    pub scalings: Vec<Scaling>,
}
