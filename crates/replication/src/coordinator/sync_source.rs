//! Chooses the sync source (mongodb/mongo:src/mongo/db/repl/topology_coordinator.cpp: chooseNewSyncSource, shouldChangeSyncSource).

use std::time::Duration;

use bson::{Document, doc};
use fathom_wire::{Code, Failure};

use super::member::{HostLink, MemberPeer};
use super::{Action, Coordinator};
use crate::config::{Member, ReplicaSetConfig};
use crate::host::Host;
use crate::messages::{OplogQueryMetadata, ReplicationMetadata};
use crate::monotonic_time::MonotonicTime;
use crate::optime::OpTime;

/// The average number of heartbeats to each other member before the nearest is chosen.
const MIN_PINGS_EACH: u64 = 2;
/// The time for which a source is avoided whose oplog begins after our last entry, as in mongod (sync_source_resolver.h).
const TOO_STALE_DENIAL: Duration = Duration::from_secs(60);

impl Coordinator {
    /// The member to fetch from, if one is ahead of `fetched`, our newest entry. It remains our sync source until the next call. A
    /// primary has one only during its catch-up.
    pub fn choose_sync_source(&mut self, now: MonotonicTime, fetched: OpTime) -> Option<Host> {
        let chosen = self.find_source(now, fetched);
        if let Some(host) = &chosen {
            self.say(now, format!("syncing from: {host}"));
        }
        self.sync_source.clone_from(&chosen);
        chosen
    }

    /// The current sync source.
    pub fn sync_source(&self) -> Option<&Host> {
        self.sync_source.as_ref()
    }

    fn find_source(&mut self, now: MonotonicTime, fetched: OpTime) -> Option<Host> {
        let config = self.config.as_ref()?;
        let own = config.members.get(self.own_index?)?;
        if self.is_leader() && self.catch_up.is_none() {
            return None;
        }
        if let Some(host) = self.forced_source.take() {
            return Some(host);
        }
        let others = u64::try_from(config.members.len()).unwrap_or(u64::MAX).saturating_sub(1);
        let pings: u64 = self.links.values().map(HostLink::hits).sum();
        if pings < others.saturating_mul(MIN_PINGS_EACH) {
            return None;
        }
        // A primary in catch-up takes entries that it lacks from any member.
        if !config.settings.chaining_allowed && !self.is_leader() {
            return self.primary_as_source(now, config, fetched);
        }
        let strict = self.nearest(now, config, own, fetched, true);
        let found = strict.or_else(|| self.nearest(now, config, own, fetched, false));
        if found.is_none() {
            self.say(now, "could not find member to sync from".to_owned());
        }
        found
    }

    fn primary_as_source(
        &self,
        now: MonotonicTime,
        config: &ReplicaSetConfig,
        fetched: OpTime,
    ) -> Option<Host> {
        let (member, peer) = self.other_primary(config)?;
        let good = !self.is_denied(now, &member.host) && peer.heartbeat.applied >= fetched;
        good.then(|| member.host.clone())
    }

    /// The nearest of the qualified members. `strict` excludes those that are only better than no source.
    fn nearest(
        &self,
        now: MonotonicTime,
        config: &ReplicaSetConfig,
        own: &Member,
        fetched: OpTime,
        strict: bool,
    ) -> Option<Host> {
        let oldest = self.oldest_acceptable();
        let members = config.members.iter().zip(&self.peers).enumerate();
        let candidates = members.filter(|(index, (member, peer))| {
            let will_do = Some(*index) != self.own_index
                && peer.is_up()
                && peer.state.is_readable()
                && (member.build_indexes || !own.build_indexes)
                && peer.heartbeat.applied > fetched
                && !self.is_denied(now, &member.host);
            let good = (member.is_voter() || !own.is_voter())
                && !member.hidden
                && peer.heartbeat.applied >= oldest
                && member.delay <= own.delay;
            will_do && (good || !strict)
        });
        let ping = |host: &Host| self.ping(host).unwrap_or(Duration::MAX);
        candidates.map(|(_, (member, _))| &member.host).min_by_key(|host| ping(host)).cloned()
    }

    /// The oldest newest entry that a source may have without being too far behind the primary.
    fn oldest_acceptable(&self) -> OpTime {
        let primary = self.primary_index.filter(|index| Some(*index) != self.own_index);
        let Some(peer) = primary.and_then(|index| self.peers.get(index)) else { return OpTime::NULL };
        let newest = peer.heartbeat.applied;
        match u64::from(newest.seconds()).checked_sub(self.options.max_sync_source_lag.as_secs()) {
            Some(seconds) => OpTime::new(seconds << 32, newest.term),
            // Its first heartbeat has not come yet.
            None => OpTime::NULL,
        }
    }

    /// The average round-trip time of a heartbeat.
    pub(super) fn ping(&self, host: &Host) -> Option<Duration> {
        self.links.get(host).and_then(HostLink::ping)
    }

    fn is_denied(&self, now: MonotonicTime, host: &Host) -> bool {
        self.denied.get(host).is_some_and(|until| *until > now)
    }

    /// Avoids a sync source until the given time: it does not answer, or its log has lost entries that we need.
    pub fn deny_sync_source(&mut self, now: MonotonicTime, host: &Host, until: MonotonicTime) {
        self.denied.retain(|_, until| *until > now);
        self.denied.insert(host.clone(), until);
    }

    /// Avoids a source whose oplog begins after `fetched`, our newest entry: it may have been copied a moment ago, and the oplog of
    /// another member may begin earlier. Returns `true` if no other member is left to fetch from, which makes this member too
    /// stale. The primary counts as a source even if its last heartbeat did not show it ahead of us: the next one will.
    pub fn deny_stale_source(&mut self, now: MonotonicTime, source: &Host, fetched: OpTime) -> bool {
        self.deny_sync_source(now, source, now + TOO_STALE_DENIAL);
        self.choose_sync_source(now, fetched).is_none() && !self.may_fetch_from_primary(now)
    }

    fn may_fetch_from_primary(&self, now: MonotonicTime) -> bool {
        let primary = self.config.as_ref().and_then(|config| self.other_primary(config));
        primary.is_some_and(|(member, peer)| peer.is_up() && !self.is_denied(now, &member.host))
    }

    /// The primary, unless it is this member.
    fn other_primary<'c>(&'c self, config: &'c ReplicaSetConfig) -> Option<(&'c Member, &'c MemberPeer)> {
        let index = self.primary_index.filter(|index| Some(*index) != self.own_index)?;
        Some((config.members.get(index)?, self.peers.get(index)?))
    }

    /// Whether to look for a source other than the current one, which answered with this: it has another configuration, or ours
    /// does not contain it; it has no newer entries and no source of its own; or another member is far ahead of it.
    pub fn should_change_sync_source(
        &self,
        now: MonotonicTime,
        metadata: &ReplicationMetadata,
        query: Option<&OplogQueryMetadata>,
    ) -> bool {
        let (Some(config), Some(own)) = (&self.config, self.own_member()) else { return false };
        if self.forced_source.is_some() {
            return true;
        }
        let Some(source) = &self.sync_source else { return true };
        let Some(index) = config.index_of_host(source) else { return true };
        if metadata.config_version != config.version {
            return true;
        }
        let told = query.map_or(metadata.last_visible, |query| query.last_applied);
        let heard = self.peers.get(index).map_or(OpTime::NULL, |peer| peer.heartbeat.applied);
        let reached = told.max(heard);
        if reached.is_null() {
            return false;
        }
        let (its_source, its_primary) = query
            .map_or((metadata.sync_source_index, metadata.primary_index), |q| {
                (q.sync_source_index, q.primary_index)
            });
        if its_source.is_none() && reached <= self.own.applied && its_primary != Some(index) {
            return true;
        }
        let goal = u64::from(reached.seconds()) + self.options.max_sync_source_lag.as_secs();
        config.members.iter().zip(&self.peers).enumerate().any(|(index, (member, peer))| {
            Some(index) != self.own_index
                && peer.is_up()
                && peer.state.is_readable()
                && (member.is_voter() || !own.is_voter())
                && (member.build_indexes || !own.build_indexes)
                && !self.is_denied(now, &member.host)
                && u64::from(peer.heartbeat.applied.seconds()) > goal
        })
    }

    /// Switches to the member that the command names (`replSetSyncFrom`). Returns further fields of the reply. Fails with
    /// NotSecondary, NodeNotFound, InvalidOptions, Unauthorized or HostUnreachable.
    pub fn sync_from(&mut self, target: &Host) -> Result<Document, Failure> {
        let refuse = |code: Code, why: String| Err(Failure::new(code, why));
        let (Some(config), Some(own_index), Some(own)) = (&self.config, self.own_index, self.own_member())
        else {
            return refuse(Code::NotSecondary, "Removed and uninitialized nodes do not sync".to_owned());
        };
        if own.arbiter || self.is_leader() {
            let who = if own.arbiter { "arbiters" } else { "primaries" };
            return refuse(Code::NotSecondary, format!("{who} don't sync"));
        }
        let found = config.index_of_host(target);
        let Some((member, peer, index)) =
            found.and_then(|index| Some((config.members.get(index)?, self.peers.get(index)?, index)))
        else {
            return refuse(Code::NodeNotFound, format!("Could not find member \"{target}\" in replica set"));
        };
        if index == own_index {
            return refuse(Code::InvalidOptions, "I cannot sync from myself".to_owned());
        }
        let against = [
            (member.arbiter, "it is an arbiter"),
            (!member.build_indexes && own.build_indexes, "it does not build indexes"),
            (own.is_voter() && !member.is_voter(), "it is not a voter"),
        ];
        if let Some((_, why)) = against.into_iter().find(|(is, _)| *is) {
            return refuse(Code::InvalidOptions, format!("Cannot sync from \"{target}\" because {why}"));
        }
        if peer.unauthorized {
            return refuse(Code::Unauthorized, format!("not authorized to communicate with {target}"));
        }
        if !peer.is_up() {
            return refuse(Code::HostUnreachable, format!("I cannot reach the requested member: {target}"));
        }
        let mut reply = doc! { "syncFromRequested": target.as_str() };
        if u64::from(peer.heartbeat.applied.seconds()) + 10 < u64::from(self.own.applied.seconds()) {
            let warning = format!("requested member \"{target}\" is more than 10 seconds behind us");
            reply.insert("warning", warning);
        }
        if let Some(source) = &self.sync_source {
            reply.insert("prevSyncTarget", source.as_str());
        }
        self.forced_source = Some(target.clone());
        self.actions.push(Action::ReconsiderSyncSource);
        Ok(reply)
    }
}
