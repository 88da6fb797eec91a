//! Throughput over concurrency, and the laws of scaling fitted to it.

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
