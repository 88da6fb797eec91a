//! Samplers of client, server, host and devices, on one clock.
//!
//! Each sampler reads one source and gives readings under the names of `fathom_record::catalog`; one table lists them all.
//! A series that a source lacks is left out, never zero, and noted once. Nothing here judges, and nothing here changes what it
//! watches.

mod clock;
mod host;
mod lane;
#[cfg(test)]
mod lane_tests;
mod log;
mod plan;
mod recording;
mod runner;
mod sampler;
mod server;
pub mod table;
mod trace;

pub use clock::Clock;
pub use host::Devices;
pub use lane::{SamplerCost, SamplingCost};
pub use log::{
    LogEvent, LogLine, LogOwner, LogReading, LogSource, LoggedOperation, SlowOperationEvent, is_log,
    is_log_text, logs_beside, read_log_line, read_slow_operations,
};
pub use plan::{MonitorPlan, SamplerPlan, Schedule};
pub use recording::{
    ClockStep, RecordedEvent, RecordedProcess, RecordedSegment, RecordingOwner, read_recorded_series,
    recorded_metrics,
};
pub use runner::Monitor;
pub use sampler::{Batch, Notes, Sampler, Sums};
pub use server::{Namespace, Servers, WatchedRole, WatchedServer, server_samplers, state_name};
