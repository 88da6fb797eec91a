//! A member's view of the set: for administrators in `replSetGetStatus`, for drivers in `hello`
//! (mongodb/mongo:src/mongo/db/repl/topology_coordinator.cpp, prepareStatusResponse, and is_master_response.cpp; fields and order
//! of the status are those of a captured reply of mongod 4.0.3).

use std::time::Duration;

use bson::oid::ObjectId;
use bson::{Bson, Document, doc};
use fathom_wire::{Code, Failure};

use super::Coordinator;
use super::member::{Health, MemberPeer};
use super::role::MemberRole;
use crate::config::{Member, ReplicaSetConfig};
use crate::fields;
use crate::host::Host;
use crate::member_state::MemberState;
use crate::monotonic_time::Clocks;
use crate::optime::{OpTime, to_bson};

/// The time for which our own message is shown.
const MESSAGE_SHOWN: Duration = Duration::from_secs(120);

/// The parts of the status that a coordinator does not know.
#[derive(Clone, Copy, Debug)]
pub struct StatusContext {
    pub clocks: Clocks,
    /// The uptime of the server.
    pub uptime: Duration,
    /// The newest entry that majority reads see, if any.
    pub majority_snapshot: Option<OpTime>,
    /// The timestamp of the last stable checkpoint, if the engine has one.
    pub stable_checkpoint: Option<u64>,
}

impl Coordinator {
    /// The reply without `ok`. Fails with NotYetInitialized before there is a configuration, and InvalidReplicaSetConfig if the
    /// configuration does not contain us.
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
        peer: &MemberPeer,
    ) -> Document {
        let up = peer.health == Health::Up;
        // The last known state of a member that is down is not its current state.
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

/// Writes `syncingTo` and the newer names of the field.
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

/// `electionId` of a term: drivers compare these to tell an old primary from a new one (mongodb/mongo:src/mongo/bson/oid.cpp, fromTerm).
pub fn election_id(term: i64) -> ObjectId {
    let mut bytes = [0; 12];
    let (mark, number) = bytes.split_at_mut(4);
    mark.copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
    number.copy_from_slice(&term.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

impl Coordinator {
    /// The fields of a set in `hello`, `isMaster` and `serverStatus.repl`, in mongod's order. `primary_field` is
    /// `isWritablePrimary` or `ismaster`. A primary that does not accept writes yet, or no longer does, appears as a secondary.
    /// `majority` is the newest entry that majority reads see, if any.
    pub fn hello_fields(&self, primary_field: &str, majority: Option<OpTime>) -> Document {
        let state = self.state();
        let (Some(config), Some(own)) = (&self.config, self.own_member()) else {
            return self.no_config_fields(primary_field);
        };
        if state == MemberState::Removed {
            return self.no_config_fields(primary_field);
        }
        let mut fields = Document::new();
        let shown = || config.members.iter().filter(|member| !member.hidden && member.delay.is_zero());
        let mut list = |name: &str, which: &dyn Fn(&Member) -> bool| {
            let hosts: Vec<Bson> =
                shown().filter(|member| which(member)).map(|member| member.host.as_str().into()).collect();
            if !hosts.is_empty() {
                fields.insert(name, hosts);
            }
        };
        list("hosts", &Member::is_electable);
        list("passives", &|member| !member.is_electable() && !member.arbiter);
        list("arbiters", &|member| member.arbiter);
        let writable = self.can_accept_writes();
        fields.insert("setName", &config.name);
        fields.insert("setVersion", fields::int_or_long(config.version));
        fields.insert(primary_field, writable);
        fields.insert(
            "secondary",
            state == MemberState::Secondary || (state == MemberState::Primary && !writable),
        );
        if let Some(primary) = self.primary() {
            fields.insert("primary", primary.as_str());
        }
        self.own_fields(own, &mut fields);
        fields.insert("me", own.host.as_str());
        if matches!(self.role, MemberRole::Leader(_)) {
            fields.insert("electionId", election_id(self.term));
        }
        let mut last =
            doc! { "opTime": self.own.applied.to_document(), "lastWriteDate": self.own.applied.date() };
        if let Some(majority) = majority {
            last.insert("majorityOpTime", majority.to_document());
            last.insert("majorityWriteDate", majority.date());
        }
        fields.insert("lastWrite", last);
        fields
    }

    /// The fields for the special properties of this member.
    fn own_fields(&self, own: &Member, fields: &mut Document) {
        if own.arbiter {
            fields.insert("arbiterOnly", true);
        } else if own.priority == 0.0 {
            fields.insert("passive", true);
        }
        if own.hidden {
            fields.insert("hidden", true);
        }
        if !own.build_indexes {
            fields.insert("buildIndexes", false);
        }
        if !own.delay.is_zero() {
            fields.insert("slaveDelay", fields::int_or_long(fields::seconds(own.delay)));
        }
        if !own.tags.is_empty() {
            fields.insert("tags", own.tags_document());
        }
    }

    /// The fields of a member without a set; drivers call it a ghost.
    fn no_config_fields(&self, primary_field: &str) -> Document {
        let mut fields = Document::new();
        if let Some(config) = &self.config {
            fields.insert("setName", &config.name);
        }
        fields.insert(primary_field, false);
        fields.insert("secondary", false);
        fields.insert("info", "Does not have a valid replica set config");
        fields.insert("isreplicaset", true);
        fields
    }
}
