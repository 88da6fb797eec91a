//! What charts of a run show that no series holds as it is: computed when a run is shown, never stored, never a verdict.

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

/// What a run looks like around an event that comes again and again: every cycle laid over the others.
pub mod cycles {
    /// The cycles of one kind of event on one server.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SuperposedCycles {
        /// The server's number; empty where none was watched.
        pub member: String,
        /// What the event is: `checkpoint`, `flush`, `compaction`.
        pub event: &'static str,
        /// How many cycles were laid over each other.
        pub cycles: usize,
        /// The median distance between the beginnings of events, in seconds.
        pub period_s: f64,
        /// The middle of each step, in seconds from the beginning of the event; below 0 before it.
        pub offsets_s: Vec<f64>,
        /// What was read in each step, one measure after the other.
        pub measures: Vec<CycleMeasure>,
    }

    /// One measure over the cycle. A step in which no cycle has a reading is a gap.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CycleMeasure {
        /// `latency`, for links.
        pub id: &'static str,
        /// For people.
        pub name: String,
        /// Its unit.
        pub unit: &'static str,
        /// How many readings it was made of.
        pub readings: usize,
        /// The mean of the cycles, step by step.
        pub mean: Vec<Option<f64>>,
        /// What nine tenths of the cycles are above.
        pub low: Vec<Option<f64>>,
        /// What nine tenths of the cycles are below.
        pub high: Vec<Option<f64>>,
    }
}

/// How rhythmic the latency of a run is at each period, for people to see what a verdict rests on.
pub mod rhythm {
    /// The latency of one server, by period and by lag.
    #[derive(Clone, Debug, PartialEq)]
    pub struct LatencyRhythm {
        /// The server's number; empty where none was watched.
        pub member: String,
        /// Whose latency: `latency at the client`.
        pub of: &'static str,
        /// How many seconds it was made of, and from when on, in seconds since the run's start.
        pub seconds: usize,
        /// When the first of them begins, in seconds since the run's start.
        pub begin_s: f64,
        /// Periods in seconds, rising, and -log10 of the chance of so much rhythm at that one.
        pub by_period: Vec<(f64, f64)>,
        /// What the most rhythmic period of noise with the same memory stays below in 95 % of cases.
        pub band: f64,
        /// Lags in seconds and the autocorrelation there.
        pub by_lag: Vec<(f64, f64)>,
        /// What memory alone stays below in 95 % of cases, lag by lag.
        pub lag_band: Vec<f64>,
    }
}

/// Throughput over concurrency, and the laws of scaling fitted to it.
pub mod scaling {
    /// The loads of one server at rising concurrency.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Scaling {
        /// The server and its workload, for people.
        pub of: String,
        /// Connections and operations a second of each load, rising.
        pub levels: Vec<(f64, f64)>,
        /// The laws that could be fitted, the best first.
        pub curves: Vec<ScalingCurve>,
        /// Where throughput is highest with its 95 % interval, or why that is not claimed.
        pub peak: Result<(f64, (f64, f64)), String>,
    }

    /// One law.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ScalingCurve {
        /// Its name: `USL`, `cap`.
        pub law: &'static str,
        /// The corrected criterion of Akaike: lower is better.
        pub aicc: f64,
        /// Connections and operations a second along it.
        pub points: Vec<(f64, f64)>,
    }
}
