//! Samplers of client, server, host and devices, on one clock.
//!
//! Each sampler reads one source and gives readings under the names of `fathom_record::catalog`; one table lists them all.
//! What a source lacks is left out, never zero, and said once as a note. Nothing here judges, and nothing here changes what it
//! watches.

mod batch;
mod clock;
mod cost;
mod host;
mod lane;
mod notes;
mod plan;
mod runner;
mod sampler;
mod scheduled;
mod server;
mod sums;
pub mod table;
mod trace;
mod watcher;

pub use batch::Batch;
pub use clock::Clock;
pub use cost::{Cost, SamplerCost};
pub use host::Devices;
pub use notes::Notes;
pub use plan::{Plan, Schedule};
pub use runner::Monitor;
pub use sampler::Sampler;
pub use scheduled::Scheduled;
pub use server::{
    LogLine, LogWhat, Namespace, Servers, Watched, WatchedRole, read_log_line, server_samplers, state_name,
};
pub use sums::Sums;
