//! Reimplements mongoperf, the disk test that came with MongoDB up to 3.6, with its input document and its output lines.
//!
//! Old notes, tickets and scripts contain its figures, so the grammar is kept and every difference is listed in docs/mongoperf.md.
//! Its defects are not kept: MB/s from a wrong record size, a buffer overrun, one unseeded generator behind a lock, lost counts, an
//! unmeasured tick, a file that compresses, silently buffered I/O. Source of the facts:
//! mongodb/mongo:src/mongo/client/examples/mongoperf.cpp.

mod config;
mod document;
mod lines;
mod run;
#[cfg(test)]
mod simulation_tests;
mod test_file;
mod worker;

pub use config::{MongoperfOptions, MongoperfPlan, ParsedOptions};
pub use lines::{Lines, MongoperfEvent, MongoperfStep, Second, Sync, percentiles};
pub use run::{MongoperfRun, run};
pub use test_file::{open, subject};
