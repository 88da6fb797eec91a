//! What every process that answers MongoDB's protocol has: connections with a thread each or a loop for many, frames in and replies out, the
//! table of commands, requests and the fields of commands with MongoDB's complaints about them, and the log.
//!
//! The lab server and the router are services; what a command does is theirs. A peer is believed nothing that it has not sent,
//! and bytes that are no message end its connection.

mod command;
mod connection;
mod counters;
pub mod event_loop;
mod listener;
pub mod log;
pub mod parse;
pub mod random;
mod request;
mod service;
mod stream;
mod unattended;
pub mod version;

pub use command::{Command, CommandRegistry, CommandTable};
pub use counters::{CommandCounter, CommandCounters, CompressionCounters, Counter, ProcessFigures, Traffic};
pub use listener::{Limits, Listener, bind};
pub use request::{GENERIC_ARGUMENTS, Request};
pub use service::{Answer, Incoming, Service, Unattended, body_of, spawn_thread, write_failure};
pub use unattended::{Answered, Received};

/// What functions that answer a client return: the failure is what the client sees.
pub type Result<T, E = fathom_wire::Failure> = std::result::Result<T, E>;
