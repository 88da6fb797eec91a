//! Whether a member leads, and what it has under way to become the leader or to stop being it.
//!
//! Plain data with its deadlines: what is done with each stands in the file of its concept.

use std::collections::BTreeSet;

use super::action::ElectionReason;
use crate::host::Host;
use crate::moment::Moment;

/// Whether a member leads, and how far that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Follower,
    Candidate,
    Leader(LeaderMode),
}

/// How far a primary has come in taking office, or leaving it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaderMode {
    /// Elected; catches up and drains.
    Elect,
    /// Accepts writes.
    Writable,
    /// `replSetStepDown` waits for others to catch up; was in this mode before.
    Attempting { was_writable: bool },
    /// Steps down for sure; the driver ends its writes.
    SteppingDown,
}

/// An election that we stand for.
#[derive(Debug)]
pub(super) struct Election {
    pub(super) reason: ElectionReason,
    pub(super) stage: Stage,
    /// The term that it is for.
    pub(super) term: i64,
    pub(super) round: u64,
    pub(super) deadline: Moment,
    /// Votes for us, our own included.
    pub(super) votes: usize,
    /// Who has not answered.
    pub(super) pending: BTreeSet<Host>,
    /// Who must be for us whatever the others say: a primary that is to let us take over in its catch-up.
    pub(super) consent: Option<Host>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    DryRun,
    Storing,
    Voting,
}

impl Election {
    pub(super) fn deadline(&self) -> Moment {
        self.deadline
    }
}

/// Planned takeovers.
#[derive(Debug, Default)]
pub(super) struct Takeovers {
    pub(super) priority: Option<Moment>,
    pub(super) catch_up: Option<Moment>,
}

impl Takeovers {
    pub(super) fn next(&self) -> Option<Moment> {
        self.priority.into_iter().chain(self.catch_up).min()
    }

    pub(super) fn clear(&mut self) {
        *self = Takeovers::default();
    }
}

/// A primary on its way to what others have.
#[derive(Debug)]
pub(super) struct CatchUp {
    /// When it stops trying.
    pub(super) deadline: Option<Moment>,
}

impl CatchUp {
    pub(super) fn deadline(&self) -> Option<Moment> {
        self.deadline
    }
}

/// A `replSetStepDown` that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepDownAttempt {
    pub(super) wait_until: Moment,
    pub(super) step_down_until: Moment,
    pub(super) force: bool,
}

impl StepDownAttempt {
    pub(super) fn next_event(&self) -> Moment {
        self.wait_until.min(self.step_down_until)
    }
}
