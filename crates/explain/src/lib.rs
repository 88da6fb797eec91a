//! Records in, findings out: where the mean time of an operation lies, which queue is at its cap, what makes the spikes, how much
//! is written for each user byte; how sure, and what to look at next.
//!
//! No device and no socket: everything is computed from the series of a run, so that each verdict can be tested on simulations
//! whose truth is known, and an old run can be judged again. Where the series cannot bear a verdict it says so, and what would.

mod amplification;
mod busy_seconds;
mod caps;
mod causes;
mod client;
mod cluster;
mod comparison;
mod cost;
mod device;
mod evidence;
mod fail_condition;
mod fingerprint;
mod fsync_lock;
mod guard;
mod history;
mod journal_rate;
mod judgement;
mod ladder;
mod layers;
mod little;
mod member;
mod memory;
mod monitoring_cost;
mod neighbour;
mod path;
mod pictures;
mod pricing;
pub mod queue;
mod removable;
mod rules;
mod run_noise;
mod seconds;
mod spikes;
mod stalls;
mod standstill;
mod storage_class;
mod verdict;
mod windows;

pub use amplification::member_rows;
pub use causes::cause_ids;
pub use comparison::{ReadRun, compare};
pub use evidence::Evidence;
pub use fail_condition::{Answer, FailCondition};
pub use fingerprint::Fingerprint;
pub use history::{HistoryRun, histories, histories_up_to};
pub use judgement::Judgement;
pub use monitoring_cost::MonitoringCost;
pub use pictures::pictures;
pub use rules::{RULES, Rule, judge, judge_in_turn};
