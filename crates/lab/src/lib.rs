//! Designed experiments: a study's file becomes trials, trials become values, values become answers with intervals.
//!
//! A trial is made of what users run by hand: storage is built, servers are started by `fathom_cluster`, and this program's own verbs
//! load and probe them as child processes, each into a run folder of its own. So every figure of a study can be looked at again, and a
//! trial that goes wrong takes nothing with it. It refuses a study that cannot be run here before it makes anything, and says in which
//! line; it never calls a difference without its interval and without the noise beside it.

mod answer;
mod bench;
mod factors;
mod feasibility;
mod journal;
mod level;
mod metrics;
mod plan;
mod run;
mod setup;
mod shipped;
mod study;
mod trial;

pub use answer::{answer, fewest_blocks, planned_shortage};
pub use bench::Bench;
pub use factors::{FACTORS, Factor, Place};
pub use feasibility::{Estimate, estimate, planned_blindness};
pub use journal::{Journal, Resumed, TrialRecord, TrialResult};
pub use metrics::{METRICS, Measures, Metric};
pub use plan::{Plan, Trial};
pub use run::{Ended, Progress, run};
pub use setup::Setup;
pub use shipped::{STUDIES, Shipped};
pub use study::{Design, Study};
