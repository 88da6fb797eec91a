//! What the server counts of itself and says about itself.

mod counters;
mod finish;
mod latency;
mod profiler;
mod usage;

pub(crate) use counters::Counters;
pub(crate) use finish::{Finished, finish};
pub(crate) use latency::LatencyHistogram;
pub(crate) use profiler::Profiler;
pub(crate) use usage::Usage;
