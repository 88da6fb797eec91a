//! Terms: they only grow, and whoever hears of a later one follows it.

use super::{Coordinator, ElectionOutcome, Role, StepDownReason};
use crate::moment::Moment;

impl Coordinator {
    /// Somebody is in this term: a client's `$replData`, a command, an entry that was fetched. A primary of an earlier term steps down,
    /// and takes on the term once it has.
    pub fn term_seen(&mut self, now: Moment, term: i64) {
        self.note_term(now, term);
        self.settle(now);
    }

    pub(super) fn note_term(&mut self, now: Moment, term: i64) {
        if self.config.is_none() || term <= self.term {
            return;
        }
        if self.is_leader() {
            self.pending_term = self.pending_term.max(Some(term));
            self.begin_step_down(StepDownReason::HigherTerm);
            return;
        }
        self.enter_term(now, term);
        if self.role == Role::Candidate {
            self.end_election(ElectionOutcome::Overtaken);
        }
    }

    /// Takes on a term. Plans for the old one are void.
    pub(super) fn enter_term(&mut self, now: Moment, term: i64) {
        self.term = term;
        self.takeovers.clear();
        self.restart_election_timer(now);
    }
}
