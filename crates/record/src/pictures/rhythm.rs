//! How rhythmic the latency of a run is at each period, for people to see what a verdict rests on.

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
