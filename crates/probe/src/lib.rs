//! The disk probe: measures what a disk can do for a database, finds its knee, and detects what distorts the figures.
//!
//! Invariants: it writes only to files that it made (or to a device whose name was typed), each recorded in the ledger before it
//! exists; the page cache is bypassed unless the user asked for it; if a measuring thread had to wait for a CPU, the result says
//! so.

mod buffer;
mod clock;
mod engine;
#[cfg(test)]
mod faulty;
mod file;
pub mod judge;
mod ladder;
mod layout;
pub mod mongoperf;
mod objective;
mod passage_log;
mod probe_location;
mod profile;
mod rate_watch;
mod requests;
mod schedule;
mod session;
mod shape;
pub mod stamp;
mod summary;
mod sustain;
mod target;
mod tracks;
mod window;
mod worker_context;

pub use engine::uring::available as io_uring_available;
pub use fathom_stats::Slo;
pub use ladder::{Climb, LadderPlan};
pub use layout::LayoutPlan;
pub use probe_location::{Permits, ProbeLocation};
pub use profile::{Pace, Profile};
pub use schedule::StepProgress;
pub use session::{ProbeSecond, ProbeSession, Sink, StepOutcome};
pub use shape::{IoEngine, Job, MAX_DEPTH, Pattern, WindowPlan, WriteSync};
pub use sustain::SustainPlan;
pub use target::{DATA_FILE, JOURNAL_FILE, ProbeTarget, TargetNeeds};
pub use tracks::{Track, Tracks};
