//! What the server counts of itself and says about itself.

pub(crate) mod build;
pub(crate) mod collection_stats;
mod counters;
pub(crate) mod current_op;
pub(crate) mod database_stats;
pub(crate) mod diagnostic_data;
mod finish;
mod latency;
mod profiler;
pub(crate) mod server_status;
pub(crate) mod slow;
pub(crate) mod stages;
mod usage;

pub(crate) use counters::Counters;
pub(crate) use finish::{Finished, finish};
pub(crate) use latency::LatencyHistogram;
pub(crate) use profiler::Profiler;
pub(crate) use usage::Usage;
