//! A configuration takes effect (mongodb/mongo:src/mongo/db/repl/topology_coordinator.cpp, updateConfig).

use super::member::Peer;
use super::{Action, Coordinator, ElectionOutcome, StepDownReason};
use crate::config::ReplicaSetConfig;
use crate::moment::Moment;

impl Coordinator {
    /// The driver has stored a configuration durably: our own by `replSetInitiate` or `replSetReconfig`, what was stored before a
    /// restart, or another member's. `own_index` is our place in it, if we are in it. What is older than ours is ignored.
    pub fn config_installed(&mut self, now: Moment, config: ReplicaSetConfig, own_index: Option<usize>) {
        if self.installing.is_some_and(|version| version <= config.version) {
            self.installing = None;
        }
        if self.config.as_ref().is_some_and(|old| old.version > config.version) {
            return;
        }
        let first = self.config.is_none();
        if first {
            // A vote may be of a later term than any entry; MongoDB forgets that, and relies on others to tell the term.
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
            // Who is primary shows with the next heartbeats.
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

    /// The driver could not install the configuration of [`Action::InstallConfig`]; it is offered again when it comes again.
    pub fn config_refused(&mut self, version: i64) {
        if self.installing == Some(version) {
            self.installing = None;
        }
    }

    /// What is known of members that stay, stays.
    fn rebuild_peers(&mut self, now: Moment, config: &ReplicaSetConfig) {
        let mut old = std::mem::take(&mut self.peers);
        for member in &config.members {
            let known = old.iter().position(|peer| peer.id == member.id && peer.host == member.host);
            let peer = known.map(|index| old.swap_remove(index));
            self.peers.push(peer.unwrap_or_else(|| Peer::new(member.id, member.host.clone(), now)));
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
