//! The run folder: everything that was measured, before anything is shown.
//!
//! ```text
//! 20261121T093000Z-disk-4711/
//!   manifest.json     schema version, command line without secrets, environment, state of the run
//!   results.jsonl     one typed result a line (layout, steps, knee, meaning), as they come
//!   series.parquet    every per-second reading with unit and window; series.jsonl while the run goes, and
//!                     series-00001.parquet, ... for each million readings of a long one
//!   latency/*.hlog    whole histograms, one per operation and interval (HdrHistogram log, version 2)
//!   findings.json     claims with their evidence
//! ```
//!
//! All of it is written as the run goes, so that a killed run is readable up to its last second. A folder of an
//! older schema still opens; one of a newer schema is refused by name. Nothing here judges or prints.

pub mod amplification;
mod better;
pub mod budget;
pub mod bundle;
pub mod catalog;
pub mod comparison;
pub mod disk;
mod entry;
pub mod figure;
mod files;
mod finding;
pub mod folders;
pub mod history;
mod latency;
pub mod load;
mod manifest;
pub mod members;
pub mod pictures;
pub mod queue;
mod redact;
mod run;
mod run_lock;
mod seal;
mod series;
mod series_parts;
mod server_event;
pub mod study;
pub mod verdict;
mod writer;

#[cfg(test)]
mod series_tests;

pub use finding::{Confidence, Finding, Gain, Severity};
pub use latency::{LatencyLog, LatencyMap};
pub use manifest::{Manifest, SCHEMA, State};
pub use redact::{text_without_credentials, without_secrets};
pub use run::Run;
pub use run_lock::RunLock;
pub use series::{Point, Reading, Series, SeriesSet, read_together};
pub use server_event::{ServerEvent, ServerEventKind, SlowOperation};
pub use writer::RunWriter;
