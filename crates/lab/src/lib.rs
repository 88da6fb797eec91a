//! Runs designed experiments: a study's file becomes trials, trials become values, and values become answers with intervals.
//!
//! A trial consists of steps that users run by hand: storage is built, servers are started by `fathom_cluster`, and this program's
//! own verbs load and probe them as child processes, each with its own run folder. Every figure of a study can therefore be examined
//! again, and a trial that fails does no other harm. A study that cannot be run here is refused with its line before anything is
//! made. A difference is never stated without its interval and the noise.

mod answer;
mod bench;
mod factors;
mod feasibility;
mod included_studies;
mod journal;
mod level;
mod metrics;
mod plan;
mod run;
mod setup;
mod study;
mod trial;

pub use answer::{answer, fewest_blocks, planned_shortage};
pub use bench::Bench;
pub use factors::{FACTORS, Factor, TrialPart};
pub use feasibility::{Estimate, estimate, planned_blindness};
pub use included_studies::{IncludedStudy, STUDIES};
pub use journal::{Journal, StudyProgress, TrialRecord, TrialResult};
pub use metrics::{METRICS, Measures, TrialMetric};
pub use plan::{Trial, TrialPlan};
pub use run::{StudyEnd, TrialProgress, run};
pub use setup::Setup;
pub use study::{Design, Study};
