//! mongoperf again: the disk test that came with MongoDB up to 3.6, its document in and its lines out.
//!
//! Old notes, tickets and scripts hold its figures, so the grammar is kept and every difference is listed in
//! docs/mongoperf.md. What it got wrong is not kept: MB/s from a wrong record size, a buffer overrun, one
//! unseeded generator behind a lock, lost counts, a tick nobody measured, a file that compresses, buffered I/O in
//! silence. Facts: mongodb/mongo:src/mongo/client/examples/mongoperf.cpp.

mod config;
mod document;
mod lines;
mod run;
mod test_file;
mod worker;

pub use config::{Options, Parsed, Plan};
pub use lines::{Event, Lines, Second, Step, Sync, percentiles};
pub use run::{Run, run};
pub use test_file::{open, subject};
