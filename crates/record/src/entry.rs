//! A line of `results.jsonl`.

use serde::{Deserialize, Serialize};

use crate::burst_allowance::BurstAllowance;
use crate::capacity::{Capacity, NeedAnswer};
use crate::disk::{DiskFitness, Knee, Layout, Meaning, Objective, ProbeSubject, Step};

/// One line of `results.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Entry {
    /// The subject of a probe.
    Subject(ProbeSubject),
    /// The test file was written.
    Layout(Layout),
    /// One shape that ran for one window.
    Step(Step),
    /// The point at which throughput stops growing.
    Knee(Knee),
    /// The highest rate that holds a latency objective.
    Objective(Objective),
    /// Whether a rate of the disk lasts.
    BurstAllowance(Box<BurstAllowance>),
    /// The capacity of a server for one kind of load.
    Capacity(Box<Capacity>),
    /// Whether capacities cover a need.
    Need(Box<NeedAnswer>),
    /// The meaning of a figure for a user's data.
    Meaning(Meaning),
    /// The probe's judgement of a disk.
    #[serde(rename = "verdict")]
    Fitness(DiskFitness),
    /// A load on a server.
    Load(crate::load::Load),
    /// The layers of the mean time of operations.
    Budget(crate::budget::Budget),
    /// An operation that a server logged as slow.
    SlowOperation(Box<crate::SlowOperation>),
    /// A checkpoint or a stall that a server logged.
    ServerEvent(crate::ServerEvent),
    /// The work of a server while something waited or a resource was busy.
    ServerWork(Box<crate::ServerWork>),
    /// The queues from the client down to a device.
    Queue(crate::queue::QueueLadder),
    /// Bytes written and read for each byte of a user.
    Amplification(crate::amplification::Amplification),
    /// One of several servers that are compared.
    Member(crate::members::MemberRow),
    /// The results of a study.
    Study(Box<crate::study::StudyResult>),
    /// Whether something holds the system back.
    Judged(Box<crate::verdict::Verdict>),
}

/// The capacities among results.
pub fn capacities(results: &[Entry]) -> Vec<&Capacity> {
    results
        .iter()
        .filter_map(|entry| if let Entry::Capacity(one) = entry { Some(one.as_ref()) } else { None })
        .collect()
}

/// The answers to needs among results.
pub fn need_answers(results: &[Entry]) -> Vec<&NeedAnswer> {
    results
        .iter()
        .filter_map(|entry| if let Entry::Need(answer) = entry { Some(answer.as_ref()) } else { None })
        .collect()
}

/// The last result on how long the rates of the disk last.
pub fn burst_allowance(results: &[Entry]) -> Option<&BurstAllowance> {
    results
        .iter()
        .rev()
        .find_map(|entry| if let Entry::BurstAllowance(one) = entry { Some(one.as_ref()) } else { None })
}
