//! Samplers of client, server, host and devices, on one clock.
//!
//! Each sampler reads one source and gives readings under the names of `fathom_record::catalog`; one table lists them all.
//! What a source lacks is left out, never zero, and said once as a note. Nothing here judges, and nothing here changes what it
//! watches.

mod host;
mod lane;
mod plan;
mod runner;
mod sampler;
mod server;
pub mod table;
mod trace;

pub use host::Devices;
pub use lane::{Cost, SamplerCost};
pub use plan::{Plan, Schedule, Scheduled};
pub use runner::Monitor;
pub use sampler::{Batch, Clock, Notes, Sampler, Sums};
pub use server::{
    LogLine, LogWhat, Namespace, Servers, Watched, WatchedRole, read_log_line, server_samplers, state_name,
};
