//! What every process that answers MongoDB's protocol has: connections with a thread each or a loop for many, frames in and replies out, the
//! fields of commands with MongoDB's complaints about them, and the log.
//!
//! The lab server and the router are services; what a command does is theirs. A peer is believed nothing that it has not sent,
//! and bytes that are no message end its connection.

mod answer;
mod connection;
pub mod event_loop;
mod listener;
pub mod log;
pub mod parse;
mod process;
pub mod random;
mod stream;
mod traffic;
mod unattended;
pub mod version;

pub use answer::{Answer, Incoming, body_of, write_failure};
pub use listener::{Limits, Listener, Service, bind};
pub use process::ProcessFigures;
pub use traffic::{CommandCounter, CompressionCounters, Counter, Traffic};
pub use unattended::{Answered, Received, Unattended};

/// What functions that answer a client return: the failure is what the client sees.
pub type Result<T, E = fathom_wire::Failure> = std::result::Result<T, E>;
