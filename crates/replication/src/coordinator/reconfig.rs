//! Puts a configuration into effect (mongodb/mongo:src/mongo/db/repl/topology_coordinator.cpp, updateConfig).

use super::member::MemberPeer;
use super::{Action, Coordinator, ElectionOutcome, StepDownReason};
use crate::config::ReplicaSetConfig;
use crate::monotonic_time::MonotonicTime;

impl Coordinator {
    /// The driver has stored a configuration durably: from `replSetInitiate` or `replSetReconfig` here, from before a restart, or
    /// from another member. `own_index` is our index in it, if it contains us. A configuration older than ours is ignored.
    pub fn config_installed(
        &mut self,
        now: MonotonicTime,
        config: ReplicaSetConfig,
        own_index: Option<usize>,
    ) {
        if self.installing.is_some_and(|version| version <= config.version) {
            self.installing = None;
        }
        if self.config.as_ref().is_some_and(|old| old.version > config.version) {
            return;
        }
        let first = self.config.is_none();
        if first {
            // A vote may be of a later term than any entry; MongoDB does not consider it, and relies on other members for the term.
            self.term = 0.max(self.last_vote.term).max(self.own.applied.term);
        }
        self.end_election(ElectionOutcome::Abandoned);
        self.rebuild_peers(now, &config);
        self.own_index = own_index.filter(|index| *index < config.members.len());
        self.config = Some(config);
        self.forced_source = None;
        self.link_members(now);
        let electable = self.own_member().is_some_and(crate::config::Member::is_electable);
        if !self.is_leader() {
            // The next heartbeats show which member is primary.
            self.primary_index = None;
        } else if electable {
            self.primary_index = self.own_index;
        } else {
            self.primary_index = self.own_index;
            self.begin_step_down(StepDownReason::Reconfigured);
        }
        self.takeovers.clear();
        self.check_source_is_member();
        self.announce(now);
        self.restart_election_timer(now);
        self.note_progress();
        self.settle(now);
    }

    /// The driver could not install the configuration of [`Action::InstallConfig`]; the action is repeated when a heartbeat brings it again.
    pub fn config_refused(&mut self, version: i64) {
        if self.installing == Some(version) {
            self.installing = None;
        }
    }

    /// Rebuilds the list of members; the state of members that remain is kept.
    fn rebuild_peers(&mut self, now: MonotonicTime, config: &ReplicaSetConfig) {
        let mut old = std::mem::take(&mut self.peers);
        for member in &config.members {
            let known = old.iter().position(|peer| peer.id == member.id && peer.host == member.host);
            let peer = known.map(|index| old.swap_remove(index));
            self.peers.push(peer.unwrap_or_else(|| MemberPeer::new(member.id, member.host.clone(), now)));
        }
    }

    fn check_source_is_member(&mut self) {
        let Some(source) = &self.sync_source else { return };
        let is_member = self.config.as_ref().is_some_and(|config| config.index_of_host(source).is_some());
        if !is_member || self.own_index.is_none() {
            self.sync_source = None;
            self.actions.push(Action::ReconsiderSyncSource);
        }
    }
}
