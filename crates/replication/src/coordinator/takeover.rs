//! Decides when to stand for election: no primary for too long, or one that we should replace
//! (mongodb/mongo:src/mongo/db/repl/topology_coordinator.cpp, _updatePrimaryFromHBDataV1; replication_coordinator_impl_heartbeat.cpp).

use std::time::Duration;

use super::{Coordinator, ElectionReason};
use crate::member_state::MemberState;
use crate::monotonic_time::MonotonicTime;
use crate::optime::OpTime;

/// The largest random addition to the election timeout, in percent: it makes simultaneous candidacies rare
/// (replElectionTimeoutOffsetLimitFraction).
const MAX_RANDOM_PERCENT: u32 = 15;

/// The number of entries within one second that a member which takes over because of its priority may lag behind.
const MAX_LAG_INCREMENTS: u32 = 1000;

impl Coordinator {
    /// Restarts the election timeout, if we are an electable secondary.
    pub(super) fn restart_election_timer(&mut self, now: MonotonicTime) {
        let may = self.state() == MemberState::Secondary
            && self.own_member().is_some_and(crate::config::Member::is_electable);
        self.election_due = may.then(|| now + self.election_timeout() + self.random_delay());
    }

    /// Notes a primary that was not seen through its heartbeat: the sync source knows one.
    pub(super) fn primary_is_known(&mut self, now: MonotonicTime) {
        self.restart_election_timer(now);
    }

    fn random_delay(&mut self) -> Duration {
        let most = self.election_timeout() * MAX_RANDOM_PERCENT / 100;
        self.chance.span(most)
    }

    /// Calls an election if one is due.
    pub(super) fn check_election_timers(&mut self, now: MonotonicTime) {
        let due = |moment: Option<MonotonicTime>| moment.is_some_and(|moment| moment <= now);
        if due(self.election_due) {
            self.restart_election_timer(now);
            self.try_to_stand(now, ElectionReason::Timeout);
        }
        if due(self.takeovers.catch_up) {
            self.takeovers.catch_up = None;
            self.try_to_stand(now, ElectionReason::CatchUpTakeover);
        }
        if due(self.takeovers.priority) {
            self.takeovers.priority = None;
            self.try_to_stand(now, ElectionReason::PriorityTakeover);
        }
    }

    /// Tries to stand; if we may not, `replSetGetStatus` shows the reason, and we try again at the next occasion.
    fn try_to_stand(&mut self, now: MonotonicTime, reason: ElectionReason) {
        if let Err(failure) = self.stand(now, reason) {
            self.say(now, failure.message().to_owned());
        }
    }

    /// Determines the primary, after a heartbeat to the member at `updated`, and plans a takeover if we should replace it.
    pub(super) fn update_primary(&mut self, now: MonotonicTime, updated: usize) {
        if self.is_leader() {
            return;
        }
        let primaries = self
            .peers
            .iter()
            .enumerate()
            .filter(|(_, peer)| peer.is_up() && peer.state == MemberState::Primary);
        // Of several primaries, the one of the latest term; a term has at most one.
        let primary = primaries.max_by_key(|(index, peer)| (peer.term, std::cmp::Reverse(*index)));
        let primary = primary.map(|(index, peer)| (index, peer.term, peer.progress.applied));
        self.primary_index = primary.map(|(index, ..)| index);
        let Some((index, term, applied)) = primary else { return };
        if index != updated || term != self.term {
            return;
        }
        self.plan_takeover(now, index, applied);
    }

    fn plan_takeover(&mut self, now: MonotonicTime, primary: usize, primary_applied: OpTime) {
        let (Some(config), Some(own_index)) = (&self.config, self.own_index) else { return };
        let (Some(own), Some(theirs)) = (config.members.get(own_index), config.members.get(primary)) else {
            return;
        };
        // Once a member has an entry of this term, the primary has caught up.
        let caught_up = self.newest_known().term == self.term;
        if caught_up {
            self.takeovers.catch_up = None;
        }
        let electable = own.is_electable();
        let delay = config.settings.catch_up_takeover_delay;
        let catch_up = electable
            && !caught_up
            && config.settings.catch_up_timeout != Some(Duration::ZERO)
            && primary_applied < self.own.applied;
        let priority = electable && own.priority > theirs.priority;
        let first = priority && config.priority_rank(own.priority) == 0;
        let takeover_delay = config.takeover_delay(own_index);
        match delay.filter(|_| catch_up && !first) {
            Some(delay) => {
                self.takeovers.catch_up.get_or_insert(now + delay);
            }
            None if priority && self.takeovers.priority.is_none() => {
                self.takeovers.priority = Some(now + takeover_delay + self.random_delay());
            }
            None => {}
        }
    }

    /// The newest entry of all members that answer, including us.
    pub(super) fn newest_known(&self) -> OpTime {
        let others = self.peers.iter().enumerate().filter(|(index, peer)| {
            Some(*index) != self.own_index && peer.is_up() && peer.state != MemberState::Removed
        });
        others
            .map(|(_, peer)| peer.heartbeat.applied)
            .max()
            .map_or(self.own.applied, |other| other.max(self.own.applied))
    }

    /// Whether we are close enough to the newest entry to take over because of our priority: within the window; or within some
    /// entries of the same second, since the seconds stay equal after a primary's clock was once set far ahead.
    pub(super) fn is_fresh_for_priority(&self) -> bool {
        let (own, newest) = (self.own.applied, self.newest_known());
        if own.term != newest.term {
            return false;
        }
        if own.seconds() == newest.seconds() {
            return own.increment().saturating_add(MAX_LAG_INCREMENTS) >= newest.increment();
        }
        let window = self.options.takeover_freshness.as_secs();
        u64::from(own.seconds()) + window >= u64::from(newest.seconds())
    }

    /// Whether we are ahead of a primary in catch-up, and behind no member.
    pub(super) fn is_fresh_for_catch_up(&self) -> bool {
        let Some(primary) = self.primary_index.and_then(|index| self.peers.get(index)) else { return false };
        self.own.applied >= self.newest_known()
            && self.own.applied > primary.progress.applied
            && self.own.applied.term < self.term
    }
}
