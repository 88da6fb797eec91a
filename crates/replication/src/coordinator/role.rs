//! The role of a member, and the state of its changes of role: elections, takeovers, catch-up and step-down.
//!
//! Plain data with deadlines; the file of each concept uses its own part.

use std::collections::BTreeSet;

use super::action::ElectionReason;
use crate::host::Host;
use crate::monotonic_time::MonotonicTime;

/// Whether a member leads, and the state of its leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberRole {
    Follower,
    Candidate,
    Leader(LeaderMode),
}

/// The mode of a primary, from its election to its step-down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaderMode {
    /// Elected; in catch-up and drain.
    Elect,
    /// It accepts writes of clients.
    Writable,
    /// `replSetStepDown` waits for others to catch up; `was_writable` tells the mode before.
    Attempting { was_writable: bool },
    /// Steps down unconditionally; the driver ends its writes.
    SteppingDown,
}

/// An election in which we are the candidate.
#[derive(Debug)]
pub(super) struct Election {
    pub(super) reason: ElectionReason,
    pub(super) stage: ElectionStage,
    /// The term of the election.
    pub(super) term: i64,
    pub(super) round: u64,
    pub(super) deadline: MonotonicTime,
    /// Votes for us, our own included.
    pub(super) votes: usize,
    /// The members that have not answered.
    pub(super) pending: BTreeSet<Host>,
    /// The member whose vote is required regardless of the others: a primary from which we take over during its catch-up.
    pub(super) consent: Option<Host>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElectionStage {
    DryRun,
    Storing,
    Voting,
}

impl Election {
    pub(super) fn deadline(&self) -> MonotonicTime {
        self.deadline
    }
}

/// Planned takeovers of the primary's role.
#[derive(Debug, Default)]
pub(super) struct Takeovers {
    pub(super) priority: Option<MonotonicTime>,
    pub(super) catch_up: Option<MonotonicTime>,
}

impl Takeovers {
    pub(super) fn next(&self) -> Option<MonotonicTime> {
        self.priority.into_iter().chain(self.catch_up).min()
    }

    pub(super) fn clear(&mut self) {
        *self = Takeovers::default();
    }
}

/// The catch-up of a new primary.
#[derive(Debug)]
pub(super) struct CatchUp {
    /// When it stops trying.
    pub(super) deadline: Option<MonotonicTime>,
}

impl CatchUp {
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.deadline
    }
}

/// A `replSetStepDown` that waits for other members.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepDownAttempt {
    pub(super) wait_until: MonotonicTime,
    pub(super) step_down_until: MonotonicTime,
    pub(super) force: bool,
}

impl StepDownAttempt {
    pub(super) fn next_event(&self) -> MonotonicTime {
        self.wait_until.min(self.step_down_until)
    }
}
