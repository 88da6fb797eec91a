//! The log of a mongod or mongos: parses lines, and reads the slow operations of whole files.
//!
//! The sampler that follows a log and the reader of stored files use the same line parser.

mod json_fields;
mod log_files;
mod log_line;
mod log_lines;
mod log_owner;
mod log_source;
mod operation_shape;
mod slow_operations;
#[cfg(test)]
mod tests;
mod wrapping;

pub use log_files::{is_log, logs_beside};
pub use log_line::{LogEvent, LogLine, LoggedOperation, read_log_line};
pub(crate) use log_line::{duration_ms, event_of, may_be_slow, named_shape};
pub use log_owner::LogOwner;
pub use log_source::{LogSource, is_log_text};
pub(crate) use operation_shape::plan_shape;
pub use slow_operations::{LogReading, SlowOperationEvent, read_slow_operations};
