//! What the server counts while it works, and which of its operations it looks at more closely: the counters of the whole server, the
//! use of each collection, latencies, and the settings of the profiler. `diagnostics` reads them.

mod counters;
pub(crate) mod output;
mod profiler;
mod usage;

pub(crate) use counters::{Counter, Counters, LatencyHistogram, elapsed_micros};
pub(crate) use profiler::Profiler;
pub(crate) use usage::{Usage, Use};
