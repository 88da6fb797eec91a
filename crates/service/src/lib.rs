//! The common parts of all processes that answer MongoDB's protocol: connections with a thread each or a loop for many, reading of frames
//! and writing of replies, the table of commands, requests and the fields of commands with MongoDB's error messages, and the log.
//!
//! The lab server and the router are services, which define the effects of commands. A peer's announcements are not trusted
//! before the bytes arrive, and bytes that are not a message end its connection.

mod command;
mod connection;
mod counters;
pub mod event_loop;
mod idle_connection;
mod listener;
pub mod log;
pub mod parse;
pub mod random;
mod request;
mod service;
mod stream;
pub mod version;

pub use command::{Command, CommandRegistry, CommandTable};
pub use counters::{
    CommandCounter, CommandCounters, CompressionCounters, Counter, NetworkCounters, ProcessFigures,
};
pub use idle_connection::{AnswerOutcome, BufferState};
pub use listener::{ConnectionLimits, Listener, bind};
pub use request::{GENERIC_ARGUMENTS, Request, check_database_name};
pub use service::{Answer, IdleConnection, RequestMessage, Service, body_of, spawn_thread, write_failure};

/// The result of functions that answer a client; the client sees the failure.
pub type Result<T, E = fathom_wire::Failure> = std::result::Result<T, E>;
