//! The catch-up of a new primary before it accepts writes: it fetches entries that others have and it lacks, applies all of them, and writes the
//! first entry of its term (mongodb/mongo:src/mongo/db/repl/replication_coordinator_impl.cpp, CatchupState).

use std::time::Duration;

use fathom_wire::{Code, Failure};

use super::role::{CatchUp, LeaderMode, MemberRole};
use super::{Action, Coordinator};
use crate::monotonic_time::MonotonicTime;
use crate::optime::OpTime;

impl Coordinator {
    pub(super) fn start_catch_up(&mut self, now: MonotonicTime) {
        let timeout = self.settings().catch_up_timeout;
        let deadline = timeout.map(|timeout| now + timeout);
        self.catch_up = Some(CatchUp { deadline });
        if timeout == Some(Duration::ZERO) {
            self.end_catch_up();
            return;
        }
        // Earlier replies of the members may be out of date: all are asked again, and we know what is left to fetch only once each
        // has answered or failed.
        self.peers.iter_mut().for_each(|peer| peer.asked_since_restart = false);
        self.links.values_mut().for_each(|link| link.restart(now));
    }

    /// Ends the catch-up if no entry is left to fetch.
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

    pub(super) fn check_catch_up_deadline(&mut self, now: MonotonicTime) {
        if self.catch_up.as_ref().and_then(CatchUp::deadline).is_some_and(|deadline| deadline <= now) {
            self.end_catch_up();
        }
    }

    fn end_catch_up(&mut self) {
        if self.catch_up.take().is_some() {
            // An entry fetched after our first entry would not fit behind it.
            if self.sync_source.take().is_some() {
                self.actions.push(Action::ReconsiderSyncSource);
            }
            self.actions.push(Action::Drain { term: self.term });
        }
    }

    /// Gives up entries that could still be fetched (`replSetAbortPrimaryCatchUp`, or a source with another history). Fails with
    /// IllegalOperation if no catch-up is in progress.
    pub fn abort_catch_up(&mut self, now: MonotonicTime) -> Result<(), Failure> {
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
            MemberRole::Leader(LeaderMode::Elect | LeaderMode::Attempting { was_writable: false })
        );
        term == self.term && mode && self.pending_term.is_none() && self.catch_up.is_none()
    }

    /// The "new primary" entry is written: writes are accepted from now on. Fails with PrimarySteppedDown if we are stepping down meanwhile.
    pub fn transition_completed(&mut self, now: MonotonicTime, first: OpTime) -> Result<(), Failure> {
        if !self.may_complete_transition(first.term) {
            return Err(Failure::new(
                Code::PrimarySteppedDown,
                "By the time this node was ready to complete its transition to PRIMARY it was no longer eligible to do so",
            ));
        }
        self.role = MemberRole::Leader(match self.role {
            MemberRole::Leader(LeaderMode::Attempting { .. }) => {
                LeaderMode::Attempting { was_writable: true }
            }
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
