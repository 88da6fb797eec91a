//! The run folder: the record of all measurements of a run, which is written before any output.
//!
//! ```text
//! 20261121T093000Z-disk-4711/
//!   manifest.json     schema version, command line without secrets, environment, state of the run
//!   results.jsonl     one typed result a line (layout, steps, knee, meaning), as they come
//!   series.parquet    every per-second reading with unit and window; series.jsonl during the run, and
//!                     series-00001.parquet, ... for each million readings of a long one
//!   latency/*.hlog    whole histograms, one per operation and interval (HdrHistogram log, version 2)
//!   findings.json     claims with their evidence
//! ```
//! The run folder of an imported recording has no files of readings: `recording/000/metrics.*` are the files of its first server, and
//! the series are read from them.
//!
//! All of it is written during the run, so that a killed run is readable up to its last second. A folder of an
//! older schema still opens; a newer schema is refused by its number. This crate neither judges nor prints.

pub mod amplification;
mod better;
pub mod budget;
pub mod bundle;
pub mod burst_allowance;
pub mod capacity;
pub mod catalog;
mod checksum_stream;
pub mod comparison;
pub mod disk;
mod entry;
pub mod figure;
mod files;
mod finding;
pub mod folders;
mod heartbeat_times;
pub mod history;
pub mod incident;
mod latency;
pub mod load;
mod manifest;
pub mod members;
pub mod pictures;
pub mod queue;
mod recording_copy;
mod redact;
mod redaction;
mod run;
mod run_lock;
mod run_verdict;
mod seal;
mod series;
mod series_parts;
mod server_event;
mod server_work;
mod slow_operation_table;
mod source_recording;
mod staging_folder;
pub mod study;
pub mod verdict;
mod writer;

#[cfg(test)]
mod series_tests;

pub use finding::{Confidence, Finding, FindingOrigin, Gain, Priority, Severity};
pub use heartbeat_times::{HeartbeatTimes, PeerTimes};
pub use latency::{LatencyLog, LatencyMap};
pub use manifest::{Manifest, SCHEMA, State};
pub use recording_copy::RecordingCopy;
pub use redact::{text_without_credentials, without_secrets};
pub use redaction::Redaction;
pub use run::{RecordingReader, Run};
pub use run_lock::RunLock;
pub use run_verdict::{RunVerdict, VerdictBasis, storage_causes};
pub use series::{Point, Reading, Series, SeriesSet, read_together};
pub use server_event::{ServerEvent, ServerEventKind, SlowOperation};
pub use server_work::{CollectionUse, OpenTransaction, OperationGroup, ServerWork, ThreadUse};
pub use slow_operation_table::{ShapeTotals, SlowOperationTable, most_frequent};
pub use source_recording::{SourceFile, SourceRecording};
pub use writer::RunWriter;
