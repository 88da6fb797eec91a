//! Computes findings from the records of a run: the parts of an operation's mean time, the queue that is at its cap, the cause of
//! spikes, and the bytes written for each user byte. Findings say how sure they are, and what to look at next.
//!
//! It uses no device and no socket. Everything is computed from the series of a run, so that each verdict can be tested on simulations
//! whose truth is known, and an old run can be judged again. If the series do not support a verdict, it says so and names those that would.

mod amplification;
mod busy_seconds;
mod capacity;
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
mod heavy_work;
mod held_lock;
mod held_transactions;
mod history;
mod index_proposal;
mod journal_rate;
mod judgement;
mod ladder;
mod layers;
mod little;
mod logged_operations;
mod logged_work;
mod long_transaction;
mod member;
mod memory;
mod monitoring_cost;
mod need;
mod neighbour;
mod operation_standstill;
mod other_operations;
mod outside_server;
mod path;
mod pictures;
mod pricing;
mod processors;
pub mod queue;
pub mod recording;
mod removable;
mod rules;
mod run_noise;
mod seconds;
mod server_devices;
mod server_work;
mod slow_operations;
mod spikes;
mod stalls;
mod standstill;
mod storage_class;
mod verdict;
mod windows;
mod work_users;

pub use amplification::member_rows;
pub use capacity::{
    DIRECT_FACT, LimitReading, cached_reads, checkpoint_cost, device_reads_per_page, device_reads_per_s,
    disturbance, idle_pct, is_counted_by_process, limit_of,
};
pub use causes::cause_ids;
pub use comparison::{ReadRun, compare};
pub use evidence::Evidence;
pub use fail_condition::{ConditionAnswer, FailCondition};
pub use fingerprint::Fingerprint;
pub use guard::is_processor_shortage;
pub use history::{HistoryRun, histories, histories_up_to};
pub use judgement::Judgement;
pub use logged_work::LoggedWork;
pub use monitoring_cost::MonitoringCost;
pub use need::Need;
pub use pictures::pictures;
pub use rules::{RULES, Rule, judge, judge_in_turn};
pub use server_work::{
    ClientWork, ConnectionWork, WorkResource, WorkRow, WorkShare, WorkTable, WorkUse, work_table,
};
pub use slow_operations::SlowOperationCounter;
