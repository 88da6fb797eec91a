//! `replSetGetStatus` (mongodb/mongo:src/mongo/db/repl/topology_coordinator.cpp, prepareStatusResponse; fields and order of a captured
//! reply of mongod 4.0.3).

use std::time::Duration;

use bson::{Bson, Document, doc};
use fathom_wire::{Code, Failure};

use super::Coordinator;
use super::member::{Health, Peer};
use crate::config::{Member, ReplicaSetConfig};
use crate::fields;
use crate::host::Host;
use crate::member_state::MemberState;
use crate::moment::Clocks;
use crate::optime::{OpTime, to_bson};

/// For how long our own message is shown.
const MESSAGE_SHOWN: Duration = Duration::from_secs(120);

/// What the status shows and a coordinator does not know.
#[derive(Clone, Copy, Debug)]
pub struct StatusContext {
    /// Now.
    pub clocks: Clocks,
    /// How long the server runs.
    pub uptime: Duration,
    /// The newest entry that majority reads see, once they see any.
    pub majority_snapshot: Option<OpTime>,
    /// The timestamp of the last stable checkpoint, where the engine has such.
    pub stable_checkpoint: Option<u64>,
}

impl Coordinator {
    /// The reply without `ok`. Fails with NotYetInitialized before there is a configuration, and InvalidReplicaSetConfig where we are not
    /// in it.
    pub fn status(&self, context: &StatusContext) -> Result<Document, Failure> {
        let Some(config) = &self.config else {
            return Err(Failure::new(Code::NotYetInitialized, "no replset config has been received"));
        };
        let state = self.state();
        if self.own_index.is_none() {
            let what = "Our replica set config is invalid or we are not a member of it";
            return Err(Failure::new(Code::InvalidReplicaSetConfig, what)
                .with("state", state.number())
                .with("stateStr", state.name()));
        }
        let clocks = &context.clocks;
        let mut status = doc! {
            "set": &config.name,
            "date": clocks.wall,
            "myState": state.number(),
            "term": self.term,
        };
        let source = self.sync_source.as_ref().filter(|_| state != MemberState::Primary);
        write_source(&mut status, config, source);
        if config.config_server {
            status.insert("configsvr", true);
        }
        status.insert("heartbeatIntervalMillis", fields::millis(config.settings.heartbeat_interval));
        let mut optimes = doc! { "lastCommittedOpTime": self.last_committed.to_document() };
        if let Some(snapshot) = context.majority_snapshot {
            optimes.insert("readConcernMajorityOpTime", snapshot.to_document());
        }
        optimes.insert("appliedOpTime", self.own.applied.to_document());
        optimes.insert("durableOpTime", self.own.durable.to_document());
        status.insert("optimes", optimes);
        if let Some(timestamp) = context.stable_checkpoint {
            status.insert("lastStableCheckpointTimestamp", to_bson(timestamp));
        }
        let mut members: Vec<(i32, Bson)> = Vec::new();
        for (index, (member, peer)) in config.members.iter().zip(&self.peers).enumerate() {
            let shown = if Some(index) == self.own_index {
                self.own_status(context, config, member, state)
            } else {
                self.peer_status(clocks, config, member, peer)
            };
            members.push((member.id, shown.into()));
        }
        members.sort_by_key(|(id, _)| *id);
        status.insert("members", members.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>());
        Ok(status)
    }

    fn own_status(
        &self,
        context: &StatusContext,
        config: &ReplicaSetConfig,
        own: &Member,
        state: MemberState,
    ) -> Document {
        let mut shown = doc! {
            "_id": own.id,
            "name": own.host.as_str(),
            "health": 1.0,
            "state": state.number(),
            "stateStr": state.name(),
            "uptime": fields::int_or_long(fields::seconds(context.uptime)),
        };
        if !own.arbiter {
            shown.insert("optime", self.own.applied.to_document());
            shown.insert("optimeDate", self.own.applied.date());
        }
        write_source(&mut shown, config, self.sync_source.as_ref().filter(|_| state != MemberState::Primary));
        if self.maintenance > 0 {
            shown.insert("maintenanceMode", i64::from(self.maintenance));
        }
        let (said, message) = &self.message;
        let fresh = context.clocks.now.since(*said) <= MESSAGE_SHOWN;
        shown.insert("infoMessage", if fresh { message.as_str() } else { "" });
        if state == MemberState::Primary {
            write_election(&mut shown, self.election_time);
        }
        shown.insert("configVersion", fields::int_or_long(config.version));
        shown.insert("self", true);
        shown.insert("lastHeartbeatMessage", "");
        shown
    }

    fn peer_status(
        &self,
        clocks: &Clocks,
        config: &ReplicaSetConfig,
        member: &Member,
        peer: &Peer,
    ) -> Document {
        let up = peer.health == Health::Up;
        // What a member that is down was says nothing of what it is.
        let name = if peer.health == Health::Down { "(not reachable/healthy)" } else { peer.state.name() };
        let uptime = peer.up_since.map_or(Duration::ZERO, |since| clocks.now.since(since));
        let mut shown = doc! {
            "_id": member.id,
            "name": member.host.as_str(),
            "health": if up { 1.0 } else if peer.health == Health::Down { 0.0 } else { -1.0 },
            "state": peer.state.number(),
            "stateStr": name,
            "uptime": fields::int_or_long(fields::seconds(uptime)),
        };
        if !member.arbiter {
            shown.insert("optime", peer.heartbeat.applied.to_document());
            shown.insert("optimeDurable", peer.heartbeat.durable.to_document());
            shown.insert("optimeDate", peer.heartbeat.applied.date());
            shown.insert("optimeDurableDate", peer.heartbeat.durable.date());
        }
        shown.insert("lastHeartbeat", clocks.date(peer.last_heartbeat));
        shown.insert("lastHeartbeatRecv", clocks.date(peer.last_heartbeat_received));
        shown.insert("pingMs", fields::millis(self.ping(&member.host).unwrap_or(Duration::ZERO)));
        shown.insert("lastHeartbeatMessage", peer.message.as_str());
        if peer.unauthorized {
            shown.insert("authenticated", false);
        }
        let source = peer.syncing_to.as_ref().filter(|_| peer.state != MemberState::Primary);
        write_source(&mut shown, config, source);
        shown.insert("infoMessage", "");
        if peer.state == MemberState::Primary {
            write_election(&mut shown, peer.election_time.unwrap_or(0));
        }
        shown.insert("configVersion", fields::int_or_long(peer.config_version));
        shown
    }
}

/// `syncingTo` and its newer names.
fn write_source(document: &mut Document, config: &ReplicaSetConfig, source: Option<&Host>) {
    let id = source.and_then(|host| config.index_of_host(host)).and_then(|index| config.members.get(index));
    let text = source.map_or("", Host::as_str);
    document.insert("syncingTo", text);
    document.insert("syncSourceHost", text);
    document.insert("syncSourceId", id.map_or(-1, |member| member.id));
}

fn write_election(document: &mut Document, timestamp: u64) {
    document.insert("electionTime", to_bson(timestamp));
    document.insert("electionDate", OpTime::new(timestamp, 0).date());
}
