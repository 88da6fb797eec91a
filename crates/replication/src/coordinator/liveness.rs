//! Who is there: members that were not heard of for an election timeout are down to a primary, and a primary without a majority
//! steps down.

use super::{Coordinator, LeaderMode, Role, StepDownReason};
use crate::moment::Moment;

impl Coordinator {
    /// Marks members that were silent for too long.
    pub(super) fn check_liveness(&mut self, now: Moment) {
        let timeout = self.election_timeout();
        let own = self.own_index;
        let leads = matches!(self.role, Role::Leader(mode) if mode != LeaderMode::SteppingDown);
        let mut lost = false;
        for (index, peer) in self.peers.iter_mut().enumerate() {
            if Some(index) == own || peer.stale || now.since(peer.heard) < timeout {
                continue;
            }
            peer.stale = true;
            if leads {
                peer.set_down(now, "no response within election timeout period");
                lost = true;
            }
        }
        if lost && !self.majority_is_up() {
            self.begin_step_down(StepDownReason::LostMajority);
        }
    }

    /// When the next member becomes silent for too long.
    pub(super) fn next_stale(&self) -> Option<Moment> {
        let timeout = self.election_timeout();
        let others = self.peers.iter().enumerate().filter(|(index, _)| Some(*index) != self.own_index);
        others.filter(|(_, peer)| !peer.stale).map(|(_, peer)| peer.heard + timeout).min()
    }

    /// All members count as heard of, as when we begin to lead.
    pub(super) fn trust_all(&mut self, now: Moment) {
        self.peers.iter_mut().for_each(|peer| peer.heard_of(now));
    }

    /// Whether voters that are up, and we, are a majority.
    pub(super) fn majority_is_up(&self) -> bool {
        let Some(config) = &self.config else { return false };
        let up = config
            .members
            .iter()
            .zip(&self.peers)
            .enumerate()
            .filter(|(index, (member, peer))| {
                member.is_voter() && (Some(*index) == self.own_index || peer.is_up())
            })
            .count();
        up * 2 > config.voters()
    }
}
