//! Heartbeats: when to send one to which member, the reply to one, the evaluation of a reply, and which members are up.
//!
//! A primary considers members down that it has not heard of for an election timeout, and steps down without a majority.

use std::time::Duration;

use fathom_wire::{Code, Failure};

use super::member::{Flight, HostLink};
use super::role::{LeaderMode, MemberRole};
use super::{Action, Coordinator, StepDownReason};
use crate::config::{NO_VERSION, ReplicaSetConfig};
use crate::host::Host;
use crate::member_state::MemberState;
use crate::messages::{HeartbeatArguments, HeartbeatReply};
use crate::monotonic_time::MonotonicTime;

impl Coordinator {
    /// Answers a heartbeat of another member. Fails with InconsistentReplicaSetNames, BadValue for our own `_id`, and
    /// InvalidReplicaSetConfig if our configuration does not contain us.
    pub fn heartbeat_received(
        &mut self,
        now: MonotonicTime,
        arguments: &HeartbeatArguments,
    ) -> Result<HeartbeatReply, Failure> {
        let ours = self.config.as_ref().map_or(&self.options.set_name, |config| &config.name);
        if *ours != arguments.set_name {
            let theirs = &arguments.set_name;
            let what = format!("Our set name of {ours} does not match name {theirs} reported by remote node");
            return Err(Failure::new(Code::InconsistentReplicaSetNames, what));
        }
        self.note_term(now, arguments.term);
        let version = self.config.as_ref().map_or(NO_VERSION, |config| config.version);
        if self.own_index.is_none() || version < arguments.config_version {
            // The sender may have a configuration that contains us.
            self.ask_now(now, arguments.from.as_ref());
        }
        self.settle(now);
        if self.state() == MemberState::Removed {
            let what = "Our replica set configuration is invalid or does not include us";
            return Err(Failure::new(Code::InvalidReplicaSetConfig, what));
        }
        if self.own_member().is_some_and(|own| i64::from(own.id) == arguments.from_id) {
            let what = format!(
                "Received heartbeat from member with the same member ID as ourself: {}",
                arguments.from_id
            );
            return Err(Failure::new(Code::BadValue, what));
        }
        if version == arguments.config_version
            && let Some(index) = self.config.as_ref().and_then(|config| config.index_of_id(arguments.from_id))
            && let Some(peer) = self.peers.get_mut(index)
        {
            peer.last_heartbeat_received = Some(now);
            peer.heard_of(now);
        }
        Ok(self.heartbeat_reply(arguments, version))
    }

    fn heartbeat_reply(&self, arguments: &HeartbeatArguments, version: i64) -> HeartbeatReply {
        let config = self.config.as_ref();
        let state = self.state();
        let primary = config.zip(self.primary_index).and_then(|(config, index)| config.members.get(index));
        HeartbeatReply {
            set_name: arguments.set_name.clone(),
            state,
            config_version: version,
            config: config
                .filter(|config| config.version > arguments.config_version)
                .map(ReplicaSetConfig::to_document),
            term: self.term,
            primary_id: primary.map(|member| i64::from(member.id)),
            syncing_to: self.sync_source.clone(),
            applied: self.own.applied,
            durable: self.own.durable,
            election_time: (state == MemberState::Primary).then_some(self.election_time),
            has_data: arguments.check_empty.then_some(!self.own.applied.is_null()),
            metadata: config.is_some().then(|| self.metadata(self.own.applied)),
        }
    }

    /// A heartbeat was answered, or failed. `round_trip` is the time it took.
    pub fn heartbeat_answered(
        &mut self,
        now: MonotonicTime,
        from: &Host,
        sequence: u64,
        round_trip: Duration,
        answer: Result<HeartbeatReply, Failure>,
    ) {
        self.take_answer(now, from, sequence, round_trip, answer);
        self.settle(now);
    }

    fn take_answer(
        &mut self,
        now: MonotonicTime,
        from: &Host,
        sequence: u64,
        round_trip: Duration,
        answer: Result<HeartbeatReply, Failure>,
    ) {
        if self.links.get(from).and_then(|link| link.flight).is_none_or(|flight| flight.sequence != sequence)
        {
            return;
        }
        if let Ok(reply) = &answer {
            // This comes first: the entries of a member in a later term may belong to another history.
            self.note_term(now, reply.term);
            if let Some(metadata) = &reply.metadata {
                self.note_metadata(metadata);
            }
        }
        let failed_for_good = self.schedule_next(now, from, round_trip, &answer);
        if let Ok(HeartbeatReply { config: Some(document), .. }) = &answer
            && self.take_config(document)
        {
            return;
        }
        let index = self.config.as_ref().and_then(|config| config.index_of_host(from));
        let Some(index) = index.filter(|index| self.own_index.is_some_and(|own| own != *index)) else {
            return;
        };
        let Some(peer) = self.peers.get_mut(index) else { return };
        let mut further = false;
        match &answer {
            Ok(reply) => further = peer.set_up(now, reply),
            Err(failure) if is_unauthorized(failure) => peer.set_unauthorized(now),
            Err(failure) if failed_for_good => peer.set_down(now, failure.message()),
            Err(_) => {}
        }
        if further {
            self.note_progress();
        }
        self.update_primary(now, index);
        if let Ok(reply) = &answer
            && reply.state == MemberState::Primary
            && reply.term == self.term
        {
            self.restart_election_timer(now);
        }
    }

    /// Schedules the next heartbeat. Returns whether a failure is final.
    fn schedule_next(
        &mut self,
        now: MonotonicTime,
        to: &Host,
        round_trip: Duration,
        answer: &Result<HeartbeatReply, Failure>,
    ) -> bool {
        let interval = self.heartbeat_interval();
        let patience = self.heartbeat_timeout();
        let Some(link) = self.links.get_mut(to) else { return false };
        link.flight = None;
        let answered = match answer {
            Ok(_) => true,
            Err(failure) => is_unauthorized(failure),
        };
        if answered {
            link.hit(round_trip);
            link.due = now + interval;
            return false;
        }
        let late = link.trying_since.is_none_or(|since| now.since(since) >= patience);
        let last = link.miss();
        link.due = if last || late { now + interval } else { now };
        if late {
            link.trying_since = None;
        }
        last || late
    }

    /// Members without a sync source send heartbeats more often, to find one; arbiters do so to notice the loss of a primary in time.
    fn heartbeat_interval(&self) -> Duration {
        let settings = self.settings();
        let half = settings.election_timeout / 2;
        if self.state() == MemberState::Arbiter {
            half.min(settings.heartbeat_interval)
        } else if self.sync_source.is_none() && !self.is_leader() {
            half.min(settings.heartbeat_interval / 4)
        } else {
            settings.heartbeat_interval
        }
    }

    fn heartbeat_timeout(&self) -> Duration {
        self.settings().heartbeat_timeout
    }

    /// Hands a newer configuration to the driver. Returns whether it did.
    fn take_config(&mut self, document: &bson::Document) -> bool {
        let Ok(config) = ReplicaSetConfig::parse(document) else { return false };
        let newest = self.config.as_ref().map_or(NO_VERSION, |config| config.version);
        if config.version <= newest || config.validate().is_err() {
            return false;
        }
        let name = self.config.as_ref().map_or(&self.options.set_name, |config| &config.name);
        if config.name != *name {
            return false;
        }
        if self.installing.is_none_or(|version| version < config.version) {
            self.installing = Some(config.version);
            self.actions.push(Action::InstallConfig(Box::new(config)));
        }
        true
    }

    pub(super) fn send_due_heartbeats(&mut self, now: MonotonicTime) {
        let late: Vec<(Host, u64)> = self
            .links
            .iter()
            .filter_map(|(host, link)| {
                Some((host.clone(), link.flight.filter(|f| f.deadline <= now)?.sequence))
            })
            .collect();
        for (host, sequence) in late {
            let failure =
                Failure::new(Code::NetworkTimeout, format!("no answer to the heartbeat from {host} in time"));
            self.take_answer(now, &host, sequence, Duration::ZERO, Err(failure));
        }
        let due: Vec<Host> = self
            .links
            .iter()
            .filter(|(_, link)| link.flight.is_none() && link.due <= now)
            .map(|(host, _)| host.clone())
            .collect();
        for host in due {
            self.send_heartbeat(now, host);
        }
    }

    fn send_heartbeat(&mut self, now: MonotonicTime, to: Host) {
        let patience = self.heartbeat_timeout();
        let arguments = self.heartbeat_arguments();
        let Some(link) = self.links.get_mut(&to) else { return };
        let since = match link.trying_since {
            Some(since) if now.since(since) < patience => since,
            _ => {
                link.failures = 0;
                now
            }
        };
        link.trying_since = Some(since);
        let timeout = patience.saturating_sub(now.since(since));
        self.sequence += 1;
        link.flight = Some(Flight { sequence: self.sequence, deadline: now + timeout });
        self.actions.push(Action::SendHeartbeat { to, sequence: self.sequence, arguments, timeout });
    }

    fn heartbeat_arguments(&self) -> HeartbeatArguments {
        let own = self.own_member();
        HeartbeatArguments {
            set_name: self.config.as_ref().map_or(&self.options.set_name, |config| &config.name).clone(),
            config_version: self.config.as_ref().map_or(NO_VERSION, |config| config.version),
            from: own.map(|own| own.host.clone()),
            from_id: own.map_or(-1, |own| i64::from(own.id)),
            term: self.term.max(0),
            check_empty: false,
        }
    }

    /// Sends a heartbeat to a host at the next tick, whether or not the configuration contains it.
    fn ask_now(&mut self, now: MonotonicTime, host: Option<&Host>) {
        let Some(host) = host else { return };
        let link = self.links.entry(host.clone()).or_insert_with(|| HostLink::new(now));
        if link.flight.is_none() {
            link.due = now;
        }
    }

    /// Sends heartbeats to all other members of the configuration from now on, and to no other.
    pub(super) fn link_members(&mut self, now: MonotonicTime) {
        let own = self.own_index;
        let members = self.config.iter().flat_map(|config| config.members.iter().enumerate());
        let hosts: Vec<Host> =
            members.filter(|(index, _)| Some(*index) != own).map(|(_, member)| member.host.clone()).collect();
        self.links.retain(|host, _| hosts.contains(host));
        for host in hosts {
            self.ask_now(now, Some(&host));
        }
    }
}

fn is_unauthorized(failure: &Failure) -> bool {
    matches!(failure.code(), Code::Unauthorized | Code::AuthenticationFailed)
}

impl Coordinator {
    /// Marks members that have been silent for too long.
    pub(super) fn check_liveness(&mut self, now: MonotonicTime) {
        let timeout = self.election_timeout();
        let own = self.own_index;
        let leads = matches!(self.role, MemberRole::Leader(mode) if mode != LeaderMode::SteppingDown);
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

    /// The time at which the next member will have been silent for too long.
    pub(super) fn next_stale(&self) -> Option<MonotonicTime> {
        let timeout = self.election_timeout();
        let others = self.peers.iter().enumerate().filter(|(index, _)| Some(*index) != self.own_index);
        others.filter(|(_, peer)| !peer.stale).map(|(_, peer)| peer.heard + timeout).min()
    }

    /// Counts all members as heard of now, as when we become primary.
    pub(super) fn trust_all(&mut self, now: MonotonicTime) {
        self.peers.iter_mut().for_each(|peer| peer.heard_of(now));
    }

    /// Whether the voters that are up, including us, are a majority.
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
