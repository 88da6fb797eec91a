//! The configuration of a replica set: its members, and the role and rights of each.
//!
//! A configuration is a value: read once from a document, checked, and never changed; a new one replaces it. This module neither
//! resolves names nor knows which member we are; the caller does both.

mod checks;
mod member;
mod settings;

use bson::oid::ObjectId;
use bson::{Bson, Document, doc};
use fathom_wire::{Code, Failure};

pub use checks::{check_electable, check_initiate, check_reconfig};
pub(crate) use member::invalid;
pub use member::{MAX_MEMBERS, MAX_VOTING_MEMBERS, Member};
pub use settings::{Settings, TagPattern};

use crate::fields;
use crate::host::Host;

/// The version that a member without a configuration reports to others.
pub const NO_VERSION: i64 = -2;

const LEGAL: [&str; 7] = [
    "_id",
    "version",
    "members",
    "settings",
    "protocolVersion",
    "configsvr",
    "writeConcernMajorityJournalDefault",
];

/// A configuration, as `local.system.replset` holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaSetConfig {
    /// `_id`: the name of the set.
    pub name: String,
    /// Grows with each change.
    pub version: i64,
    /// The election protocol; 1 is the only one since MongoDB 4.0.
    pub protocol_version: i64,
    /// In the order of the document, which is the order of `hosts` and what `primaryIndex` counts.
    pub members: Vec<Member>,
    /// Timeouts, chaining, custom write concerns.
    pub settings: Settings,
    /// Whether `w: "majority"` waits for the journal, and the commit point for durable optimes.
    pub majority_journals: bool,
    /// Whether this is the set of the config servers of a sharded cluster.
    pub config_server: bool,
}

impl ReplicaSetConfig {
    /// Reads a configuration, without the checks of [`ReplicaSetConfig::validate`]. Fails with InvalidReplicaSetConfig and the reason,
    /// as MongoDB's commands pass it on.
    pub fn parse(document: &Document) -> Result<ReplicaSetConfig, Failure> {
        read(document).map_err(|failure| invalid(failure.message().to_owned()))
    }

    /// The configuration for `replSetInitiate` without a document: this server as the only member.
    pub fn with_one_member(name: &str, host: Host) -> ReplicaSetConfig {
        ReplicaSetConfig {
            name: name.to_owned(),
            version: 1,
            protocol_version: 1,
            members: vec![Member::new(0, host)],
            settings: Settings::default(),
            majority_journals: true,
            config_server: false,
        }
    }

    /// The document, with all defaults written out and in mongod's order.
    pub fn to_document(&self) -> Document {
        let mut document = doc! { "_id": &self.name, "version": fields::int_or_long(self.version) };
        if self.config_server {
            document.insert("configsvr", true);
        }
        document.insert("protocolVersion", self.protocol_version);
        document.insert("writeConcernMajorityJournalDefault", self.majority_journals);
        let members: Vec<Bson> = self.members.iter().map(|member| member.to_document().into()).collect();
        document.insert("members", members);
        document.insert("settings", self.settings.to_document());
        document
    }

    /// The index of the member at a host.
    pub fn index_of_host(&self, host: &Host) -> Option<usize> {
        self.members.iter().position(|member| member.host == *host)
    }

    /// The index of the member with an `_id`.
    pub fn index_of_id(&self, id: i64) -> Option<usize> {
        self.members.iter().position(|member| i64::from(member.id) == id)
    }

    /// The number of voting members.
    pub fn voters(&self) -> usize {
        self.members.iter().filter(|member| member.is_voter()).count()
    }

    /// The number of votes that wins an election.
    pub fn majority_votes(&self) -> usize {
        self.voters() / 2 + 1
    }

    /// The number of data-bearing voters that `w: "majority"` needs: a majority of the voters, or all data-bearing voters if there
    /// are so many arbiters that these are fewer (repl_set_config.cpp, _calculateMajorities).
    pub fn write_majority(&self) -> usize {
        let arbiters = self.members.iter().filter(|member| member.arbiter).count();
        self.majority_votes().min(self.voters().saturating_sub(arbiters))
    }

    /// The number of members with a higher priority: 0 for the highest priority.
    pub fn priority_rank(&self, priority: f64) -> usize {
        self.members.iter().filter(|member| member.priority > priority).count()
    }

    /// The delay before the member at an index takes over from a primary of lower priority.
    pub(crate) fn takeover_delay(&self, index: usize) -> std::time::Duration {
        let rank = self.members.get(index).map_or(0, |member| self.priority_rank(member.priority));
        let turns = u32::try_from(rank + 1).unwrap_or(u32::MAX);
        self.settings.election_timeout.saturating_mul(turns)
    }

    /// The pattern of a custom write concern mode; UnknownReplWriteConcern if no mode has the name.
    pub fn mode(&self, name: &str) -> Result<&TagPattern, Failure> {
        self.settings.modes.get(name).ok_or_else(|| {
            let what = format!("No write concern mode named '{name}' found in replica set configuration");
            Failure::new(Code::UnknownReplWriteConcern, what)
        })
    }

    /// The same configuration under another version.
    #[must_use]
    pub fn with_version(mut self, version: i64) -> ReplicaSetConfig {
        self.version = version;
        self
    }

    /// The same configuration with the id of a new set.
    #[must_use]
    pub fn with_replica_set_id(mut self, id: ObjectId) -> ReplicaSetConfig {
        self.settings.replica_set_id = Some(id);
        self
    }
}

fn read(document: &Document) -> Result<ReplicaSetConfig, Failure> {
    fields::only("replica set configuration", document, &LEGAL)?;
    let name = fields::string(document, "_id")?.ok_or_else(|| fields::missing("_id"))?;
    // 4.0 requires the field; since 4.4 it may be absent in the first version, and shells rely on that.
    let version = fields::integer(document, "version")?.unwrap_or(1);
    let list = fields::array(document, "members")?.ok_or_else(|| fields::missing("members"))?;
    let mut members = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let Bson::Document(item) = item else {
            let found = fields::type_name(item);
            let what = format!("Expected type of members.{index} to be Object, but found {found}");
            return Err(Failure::new(Code::TypeMismatch, what));
        };
        members.push(Member::parse(item).map_err(|failure| {
            invalid(format!("{}: {} for member:{item}", failure.code().name(), failure.message()))
        })?);
    }
    let empty = Document::new();
    let settings = Settings::parse(fields::document(document, "settings")?.unwrap_or(&empty), &members)?;
    Ok(ReplicaSetConfig {
        name: name.to_owned(),
        version,
        protocol_version: fields::integer(document, "protocolVersion")?.unwrap_or(1),
        members,
        settings,
        majority_journals: fields::boolean(document, "writeConcernMajorityJournalDefault")?.unwrap_or(true),
        config_server: fields::boolean(document, "configsvr")?.unwrap_or(false),
    })
}
