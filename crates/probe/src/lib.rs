//! The disk probe: what a disk can do for a database, where its knee is, and what spoils it.
//!
//! Invariant: it writes only to files it made (or to a device whose name was typed), each recorded in the ledger
//! before it exists; the page cache is bypassed unless somebody asked for it; a latency is never measured by a
//! thread that had to wait for a CPU without the result saying so.

mod buffer;
mod clock;
mod crew;
mod engine;
#[cfg(test)]
mod faulty;
mod file;
pub mod judge;
mod ladder;
mod layout;
pub mod mongoperf;
mod objective;
mod place;
mod profile;
mod requests;
mod session;
mod shape;
pub mod stamp;
mod summary;
mod target;
mod tracks;
mod window;

pub use engine::uring::available as io_uring_available;
pub use fathom_stats::Slo;
pub use ladder::{Climb, LadderPlan};
pub use layout::LayoutPlan;
pub use place::{Permits, Place};
pub use profile::{Pace, Profile};
pub use session::{Interval, Outcome, Session, Sink};
pub use shape::{DEPTH_MAX, Durable, Engine, Job, Pattern, WindowPlan};
pub use target::{DATA_FILE, JOURNAL_FILE, Needs, Target};
pub use tracks::{Track, Tracks};
