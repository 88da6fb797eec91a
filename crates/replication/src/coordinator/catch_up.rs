//! What a new primary does before it accepts writes: it gets what others have and it lacks, applies all that it fetched, and writes the
//! first entry of its term (mongodb/mongo:src/mongo/db/repl/replication_coordinator_impl.cpp, CatchupState).

use std::time::Duration;

use fathom_wire::{Code, Failure};

use super::role::{CatchUp, LeaderMode, Role};
use super::{Action, Coordinator};
use crate::moment::Moment;
use crate::optime::OpTime;

impl Coordinator {
    pub(super) fn start_catch_up(&mut self, now: Moment) {
        let timeout = self.settings().catch_up_timeout;
        let deadline = timeout.map(|timeout| now + timeout);
        self.catch_up = Some(CatchUp { deadline });
        if timeout == Some(Duration::ZERO) {
            self.end_catch_up();
            return;
        }
        // What members said before may be out of date: all are asked again, and each has answered or failed before we know what there is
        // to get.
        self.peers.iter_mut().for_each(|peer| peer.asked_since_restart = false);
        self.links.values_mut().for_each(|link| link.restart(now));
    }

    /// Ends the catch-up where nothing is left to get.
    pub(super) fn check_catch_up(&mut self) {
        if self.catch_up.is_none() {
            return;
        }
        let others = || self.peers.iter().enumerate().filter(|(index, _)| Some(*index) != self.own_index);
        if !others().all(|(_, peer)| peer.asked_since_restart) {
            return;
        }
        let newest = others().filter(|(_, peer)| peer.is_up()).map(|(_, peer)| peer.heartbeat.applied).max();
        if newest.is_none_or(|newest| newest <= self.own.applied) {
            self.end_catch_up();
        }
    }

    pub(super) fn check_catch_up_deadline(&mut self, now: Moment) {
        if self.catch_up.as_ref().and_then(CatchUp::deadline).is_some_and(|deadline| deadline <= now) {
            self.end_catch_up();
        }
    }

    fn end_catch_up(&mut self) {
        if self.catch_up.take().is_some() {
            // What comes from a source after our first entry would not follow it.
            if self.sync_source.take().is_some() {
                self.actions.push(Action::ReconsiderSyncSource);
            }
            self.actions.push(Action::Drain { term: self.term });
        }
    }

    /// Gives up what could still be got (`replSetAbortPrimaryCatchUp`, or a source whose history is not ours). Fails with
    /// IllegalOperation where no catch-up is under way.
    pub fn abort_catch_up(&mut self, now: Moment) -> Result<(), Failure> {
        if self.catch_up.is_none() {
            return Err(Failure::new(Code::IllegalOperation, "The node is not in catch-up mode."));
        }
        self.end_catch_up();
        self.settle(now);
        Ok(())
    }

    /// Whether the "new primary" entry of this term may be written.
    pub fn may_complete_transition(&self, term: i64) -> bool {
        let mode = matches!(
            self.role,
            Role::Leader(LeaderMode::Elect | LeaderMode::Attempting { was_writable: false })
        );
        term == self.term && mode && self.pending_term.is_none() && self.catch_up.is_none()
    }

    /// The "new primary" entry is written: writes are accepted from now on. Fails with PrimarySteppedDown where we step down meanwhile.
    pub fn transition_completed(&mut self, now: Moment, first: OpTime) -> Result<(), Failure> {
        if !self.may_complete_transition(first.term) {
            return Err(Failure::new(
                Code::PrimarySteppedDown,
                "By the time this node was ready to complete its transition to PRIMARY it was no longer eligible to do so",
            ));
        }
        self.role = Role::Leader(match self.role {
            Role::Leader(LeaderMode::Attempting { .. }) => LeaderMode::Attempting { was_writable: true },
            _ => LeaderMode::Writable,
        });
        self.first_of_term = Some(first);
        self.own.applied = self.own.applied.max(first);
        self.own.durable = self.journaled.min(self.own.applied);
        self.note_progress();
        self.settle(now);
        Ok(())
    }
}
