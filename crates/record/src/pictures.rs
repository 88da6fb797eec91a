//! Data of a run's charts that no series contains directly. They are computed when a run is shown, never stored, and never a verdict.

use std::collections::BTreeMap;

use cycles::SuperposedCycles;
use rhythm::LatencyRhythm;
use scaling::Scaling;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pictures {
    /// The times of each server's checkpoints, by its number: begin and end in seconds since the run's start.
    pub checkpoints: BTreeMap<String, Vec<(f64, f64)>>,
    /// Cycles of checkpoints or flushes, laid over each other.
    pub cycles: Vec<SuperposedCycles>,
    /// Latency by period and by lag.
    pub rhythms: Vec<LatencyRhythm>,
    /// Throughput over connections, with the laws fitted to it.
    pub scalings: Vec<Scaling>,
}

/// The figures of a run around a recurring event: all cycles laid over each other.
pub mod cycles {
    /// The cycles of one kind of event on one server.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SuperposedCycles {
        /// The server's number; empty if no server was watched.
        pub member: String,
        /// The kind of event: `checkpoint`, `flush`, `compaction`.
        pub event: &'static str,
        /// The number of cycles that were laid over each other.
        pub cycles: usize,
        /// The median distance between the beginnings of events, in seconds.
        pub period_s: f64,
        /// The middle of each step, in seconds from the beginning of the event; below 0 before it.
        pub offsets_s: Vec<f64>,
        /// The readings of each step, one measure after the other.
        pub measures: Vec<CycleMeasure>,
    }

    /// One measure over the cycle. A step in which no cycle has a reading is a gap.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CycleMeasure {
        /// The anchor on the page: `latency`.
        pub id: &'static str,
        pub name: String,
        pub unit: &'static str,
        /// The number of readings that it was made of.
        pub readings: usize,
        /// The mean of the cycles, step by step.
        pub mean: Vec<Option<f64>>,
        /// The value that nine tenths of the cycles exceed.
        pub low: Vec<Option<f64>>,
        /// The value that nine tenths of the cycles are below.
        pub high: Vec<Option<f64>>,
    }
}

/// The strength of a rhythm of a run's latency at each period, to show the basis of a verdict.
pub mod rhythm {
    /// The latency of one server, by period and by lag.
    #[derive(Clone, Debug, PartialEq)]
    pub struct LatencyRhythm {
        /// The server's number; empty if no server was watched.
        pub member: String,
        /// The source of the latency: `latency at the client`.
        pub of: &'static str,
        /// The number of seconds that it was made of.
        pub seconds: usize,
        /// When the first of them begins, in seconds since the run's start.
        pub begin_s: f64,
        /// Periods in seconds, rising, and -log10 of the chance of a rhythm this strong at that period.
        pub by_period: Vec<(f64, f64)>,
        /// The 95th percentile of the strongest rhythm in noise with the same memory.
        pub band: f64,
        /// Lags in seconds and the autocorrelation there.
        pub by_lag: Vec<(f64, f64)>,
        /// The value that memory alone does not exceed in 95 % of cases, lag by lag.
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
        /// The connections at the highest throughput with the 95 % interval, or the reason why no peak is claimed.
        pub peak: Result<(f64, (f64, f64)), String>,
    }

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
