//! A line of `results.jsonl`.

use serde::{Deserialize, Serialize};

use crate::disk::{Knee, Layout, Meaning, Objective, Step, Subject, Verdict};

/// One line of `results.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Entry {
    /// What was probed.
    Subject(Subject),
    /// The test file was written.
    Layout(Layout),
    /// One shape ran for one window.
    Step(Step),
    /// Where throughput stops growing.
    Knee(Knee),
    /// The highest rate that holds a latency objective.
    Objective(Objective),
    /// What a figure means for somebody's data.
    Meaning(Meaning),
    /// The one sentence.
    Verdict(Verdict),
    /// A load on a server.
    Load(crate::load::Load),
    /// Where the mean time of operations went.
    Budget(crate::budget::Budget),
    /// An operation that a server logged as slow.
    SlowOperation(Box<crate::SlowOperation>),
    /// A checkpoint or a stall that a server logged.
    ServerEvent(crate::ServerEvent),
    /// The queues from the client down to a device.
    Queue(crate::queue::QueueLadder),
    /// What is written and read for each byte of a user.
    Amplification(crate::amplification::Amplification),
    /// One of several servers side by side.
    Member(crate::members::MemberRow),
    /// What a study came to.
    Study(Box<crate::study::Study>),
    /// Whether something holds the system back.
    Judged(Box<crate::verdict::Verdict>),
}
