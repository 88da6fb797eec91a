//! The counters of a running server, and the operations that it records in detail: server-wide counters, the use of each
//! collection, latencies, and the settings of the profiler. `diagnostics` reads them.

mod counters;
pub(crate) mod output;
mod profiler;
mod usage;

pub(crate) use counters::{Counter, LatencyHistogram, ServerCounters, elapsed_micros, micros};
pub(crate) use profiler::{ProfileDecision, Profiler};
pub(crate) use usage::{Usage, Use};
