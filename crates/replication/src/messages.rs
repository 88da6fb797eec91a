//! The messages between members of a set, encoded and decoded with MongoDB 4.0's field names
//! (mongodb/mongo:src/mongo/db/repl/repl_set_heartbeat_args_v1.cpp, repl_set_heartbeat_response.cpp, repl_set_request_votes_args.cpp,
//! update_position_args.cpp; src/mongo/rpc/metadata/repl_set_metadata.cpp, oplog_query_metadata.cpp).
//!
//! They are `replSetHeartbeat`, `replSetRequestVotes`, `replSetUpdatePosition` (the progress of members, passed upstream), and
//! `$replData` and `$oplogQueryData`, which accompany replies. Unknown fields are ignored, since newer members send more. The
//! server adds the other fields of a reply (`ok`, `operationTime`).

use crate::fields;
use crate::host::Host;
use crate::member_state::MemberState;
use crate::optime::{NO_TERM, OpTime, check_term, timestamp_in, to_bson};
use crate::write_concern::Progress;
use bson::oid::ObjectId;
use bson::{Bson, Document, doc};
use fathom_wire::{Code, Failure};

/// The arguments of `replSetHeartbeat`.
#[derive(Clone, Debug, PartialEq)]
pub struct HeartbeatArguments {
    /// The name of the sender's set.
    pub set_name: String,
    /// The version of its configuration; -2 for none.
    pub config_version: i64,
    /// The address at which the sender listens, if it knows it.
    pub from: Option<Host>,
    /// Its `_id`; -1 if it has none.
    pub from_id: i64,
    pub term: i64,
    /// Whether the receiver should say if it has data, as `replSetInitiate` asks.
    pub check_empty: bool,
}

impl HeartbeatArguments {
    /// The command, with the request for `$replData`.
    pub fn to_document(&self) -> Document {
        let mut document = doc! { "replSetHeartbeat": &self.set_name };
        if self.check_empty {
            document.insert("checkEmpty", true);
        }
        document.insert("configVersion", fields::int_or_long(self.config_version));
        document.insert("hbv", 1);
        document.insert("from", self.from.as_ref().map_or("", Host::as_str));
        document.insert("fromId", fields::int_or_long(self.from_id));
        document.insert("term", self.term);
        document.insert("$replData", 1);
        document
    }

    pub fn from_document(document: &Document) -> Result<HeartbeatArguments, Failure> {
        let set_name = fields::string(document, "replSetHeartbeat")?
            .ok_or_else(|| fields::missing("replSetHeartbeat"))?;
        let from = match fields::string(document, "from")? {
            None | Some("") => None,
            Some(text) => Some(text.parse()?),
        };
        Ok(HeartbeatArguments {
            set_name: set_name.to_owned(),
            config_version: fields::integer(document, "configVersion")?
                .ok_or_else(|| fields::missing("configVersion"))?,
            from,
            from_id: fields::integer(document, "fromId")?.unwrap_or(-1),
            term: check_term(fields::integer(document, "term")?.ok_or_else(|| fields::missing("term"))?)?,
            check_empty: fields::boolean(document, "checkEmpty")?.unwrap_or(false),
        })
    }
}

/// The reply to `replSetHeartbeat`.
#[derive(Clone, Debug, PartialEq)]
pub struct HeartbeatReply {
    /// The name of its set.
    pub set_name: String,
    pub state: MemberState,
    /// `v`: the version of its configuration; -2 for none.
    pub config_version: i64,
    /// Its configuration, if the sender of the heartbeat has an older one. It is parsed on demand.
    pub config: Option<Document>,
    pub term: i64,
    /// The `_id` of the primary that it knows.
    pub primary_id: Option<i64>,
    /// The member that it fetches from.
    pub syncing_to: Option<Host>,
    /// The newest entry that it applied.
    pub applied: OpTime,
    /// The newest entry in its journal.
    pub durable: OpTime,
    /// The time of its election, as a timestamp; primaries only.
    pub election_time: Option<u64>,
    /// Whether it has data, if it was asked.
    pub has_data: Option<bool>,
    /// `$replData` of the reply.
    pub metadata: Option<ReplicationMetadata>,
}

impl HeartbeatReply {
    /// The reply without `ok`.
    pub fn to_document(&self) -> Document {
        let mut document = Document::new();
        if let Some(time) = self.election_time {
            document.insert("electionTime", to_bson(time));
        }
        if let Some(config) = &self.config {
            document.insert("config", config.clone());
        }
        document.insert("state", self.state.number());
        document.insert("v", fields::int_or_long(self.config_version));
        document.insert("hbmsg", "");
        document.insert("set", &self.set_name);
        if let Some(host) = &self.syncing_to {
            document.insert("syncingTo", host.as_str());
        }
        if let Some(has_data) = self.has_data {
            document.insert("hasData", has_data);
        }
        document.insert("term", self.term);
        if let Some(id) = self.primary_id {
            document.insert("primaryId", id);
        }
        document.insert("durableOpTime", self.durable.to_document());
        document.insert("opTime", self.applied.to_document());
        if let Some(metadata) = &self.metadata {
            document.insert("$replData", metadata.to_document());
        }
        document
    }

    /// Reads a reply that was `ok`.
    pub fn from_document(document: &Document) -> Result<HeartbeatReply, Failure> {
        let state = match fields::integer(document, "state")? {
            None => MemberState::Unknown,
            Some(number) => MemberState::from_number(number).ok_or_else(|| {
                let what =
                    format!("Value for \"state\" in response to replSetHeartbeat is out of range: {number}");
                Failure::new(Code::BadValue, what)
            })?,
        };
        let syncing_to = match fields::string(document, "syncingTo")? {
            None | Some("") => None,
            Some(text) => Some(text.parse()?),
        };
        Ok(HeartbeatReply {
            set_name: fields::string(document, "set")?.unwrap_or_default().to_owned(),
            state,
            config_version: fields::integer(document, "v")?.ok_or_else(|| fields::missing("v"))?,
            config: fields::document(document, "config")?.cloned(),
            term: check_term(fields::integer(document, "term")?.unwrap_or(NO_TERM))?,
            primary_id: fields::integer(document, "primaryId")?.filter(|id| *id >= 0),
            syncing_to,
            applied: OpTime::in_field(document, "opTime")?.unwrap_or_default(),
            durable: OpTime::in_field(document, "durableOpTime")?.unwrap_or_default(),
            election_time: timestamp_in(document, "electionTime")?,
            has_data: fields::boolean(document, "hasData")?,
            metadata: ReplicationMetadata::beside(document)?,
        })
    }
}

/// The arguments of `replSetRequestVotes`.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestVotesArguments {
    /// The name of its set.
    pub set_name: String,
    /// Whether this is a dry run, which only asks for the outcome of a vote.
    pub dry_run: bool,
    /// The term of the election; in a dry run, the present one.
    pub term: i64,
    /// Its index in its configuration.
    pub candidate_index: i64,
    /// The version of its configuration.
    pub config_version: i64,
    /// The newest entry that it applied; the field is called `lastCommittedOp`.
    pub last_applied: OpTime,
}

impl RequestVotesArguments {
    pub fn to_document(&self) -> Document {
        doc! {
            "replSetRequestVotes": 1,
            "setName": &self.set_name,
            "dryRun": self.dry_run,
            "term": self.term,
            "candidateIndex": self.candidate_index,
            "configVersion": self.config_version,
            "lastCommittedOp": self.last_applied.to_document(),
        }
    }

    pub fn from_document(document: &Document) -> Result<RequestVotesArguments, Failure> {
        let set_name = fields::string(document, "setName")?.ok_or_else(|| fields::missing("setName"))?;
        let number = |name: &str| {
            fields::integer(document, name).and_then(|value| value.ok_or_else(|| fields::missing(name)))
        };
        Ok(RequestVotesArguments {
            set_name: set_name.to_owned(),
            dry_run: fields::boolean(document, "dryRun")?.unwrap_or(false),
            term: check_term(number("term")?)?,
            candidate_index: number("candidateIndex")?,
            config_version: number("configVersion")?,
            last_applied: OpTime::required(document, "lastCommittedOp")?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestVotesReply {
    /// The voter's term, updated by the candidate's.
    pub term: i64,
    /// Whether the candidate has the vote.
    pub granted: bool,
    /// The reason of a refusal.
    pub reason: String,
}

impl RequestVotesReply {
    /// The reply without `ok`.
    pub fn to_document(&self) -> Document {
        doc! { "term": self.term, "voteGranted": self.granted, "reason": &self.reason }
    }

    /// Reads a reply that was `ok`.
    pub fn from_document(document: &Document) -> Result<RequestVotesReply, Failure> {
        Ok(RequestVotesReply {
            term: check_term(fields::integer(document, "term")?.ok_or_else(|| fields::missing("term"))?)?,
            granted: fields::boolean(document, "voteGranted")?
                .ok_or_else(|| fields::missing("voteGranted"))?,
            reason: fields::string(document, "reason")?.unwrap_or_default().to_owned(),
        })
    }
}

/// The progress of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The `_id` in the configuration.
    pub member_id: i64,
    /// The version of the configuration that `member_id` refers to.
    pub config_version: i64,
    /// The member's applied and journaled entries.
    pub progress: Progress,
}

/// `replSetUpdatePosition`: the sender's own position, and those that it knows of members downstream.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdatePosition {
    pub positions: Vec<Position>,
    /// The sender's `$replData`. Its term is at least that of every member whose position it passes on.
    pub metadata: Option<ReplicationMetadata>,
}

impl UpdatePosition {
    pub fn to_document(&self) -> Document {
        let positions: Vec<Bson> =
            self.positions.iter().map(|position| position.to_document().into()).collect();
        let mut document = doc! { "replSetUpdatePosition": 1, "optimes": positions };
        if let Some(metadata) = &self.metadata {
            document.insert("$replData", metadata.to_document());
        }
        document
    }

    pub fn from_document(document: &Document) -> Result<UpdatePosition, Failure> {
        let list = fields::array(document, "optimes")?.ok_or_else(|| fields::missing("optimes"))?;
        let positions = list
            .iter()
            .map(|item| match item {
                Bson::Document(item) => Position::from_document(item),
                _ => Err(Failure::new(Code::TypeMismatch, "\"optimes\" must hold documents")),
            })
            .collect::<Result<_, _>>()?;
        Ok(UpdatePosition { positions, metadata: ReplicationMetadata::beside(document)? })
    }
}

impl Position {
    fn to_document(self) -> Document {
        doc! {
            "durableOpTime": self.progress.durable.to_document(),
            "appliedOpTime": self.progress.applied.to_document(),
            "memberId": fields::int_or_long(self.member_id),
            "cfgver": self.config_version,
        }
    }

    fn from_document(document: &Document) -> Result<Position, Failure> {
        let number = |name: &str| {
            fields::integer(document, name).and_then(|value| value.ok_or_else(|| fields::missing(name)))
        };
        Ok(Position {
            member_id: number("memberId")?,
            config_version: number("cfgver")?,
            progress: Progress {
                applied: OpTime::required(document, "appliedOpTime")?,
                durable: OpTime::required(document, "durableOpTime")?,
            },
        })
    }
}

/// The metadata `$replData` of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicationMetadata {
    pub term: i64,
    /// The commit point that it knows.
    pub last_committed: OpTime,
    /// The newest entry that its clients may read.
    pub last_visible: OpTime,
    /// The version of its configuration.
    pub config_version: i64,
    /// The id of its set.
    pub replica_set_id: Option<ObjectId>,
    /// The index of the primary that it knows, in its configuration.
    pub primary_index: Option<usize>,
    /// The index of the member that it fetches from.
    pub sync_source_index: Option<usize>,
}

impl ReplicationMetadata {
    /// The value of the field.
    pub fn to_document(&self) -> Document {
        doc! {
            "term": self.term,
            "lastOpCommitted": self.last_committed.to_document(),
            "lastOpVisible": self.last_visible.to_document(),
            "configVersion": self.config_version,
            "replicaSetId": self.replica_set_id.unwrap_or(ObjectId::from_bytes([0; 12])),
            "primaryIndex": index_to_number(self.primary_index),
            "syncSourceIndex": index_to_number(self.sync_source_index),
        }
    }

    /// Reads the value of the field.
    pub fn from_document(document: &Document) -> Result<ReplicationMetadata, Failure> {
        Ok(ReplicationMetadata {
            term: check_term(fields::integer(document, "term")?.ok_or_else(|| fields::missing("term"))?)?,
            last_committed: OpTime::required(document, "lastOpCommitted")?,
            last_visible: OpTime::required(document, "lastOpVisible")?,
            config_version: fields::integer(document, "configVersion")?
                .ok_or_else(|| fields::missing("configVersion"))?,
            replica_set_id: fields::object_id(document, "replicaSetId")?.filter(|id| id.bytes() != [0; 12]),
            primary_index: index_in(document, "primaryIndex")?,
            sync_source_index: index_in(document, "syncSourceIndex")?,
        })
    }

    /// `$replData` of a command or reply, if it is a document: in a request, a number asks for it.
    pub fn beside(document: &Document) -> Result<Option<ReplicationMetadata>, Failure> {
        match document.get("$replData") {
            Some(bson::Bson::Document(value)) => ReplicationMetadata::from_document(value).map(Some),
            _ => Ok(None),
        }
    }
}

/// The metadata `$oplogQueryData` of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OplogQueryMetadata {
    /// The commit point that the sync source knows.
    pub last_committed: OpTime,
    /// The newest entry that it applied.
    pub last_applied: OpTime,
    /// The number of its rollbacks so far.
    pub rollback_id: i64,
    /// The index of the primary that it knows.
    pub primary_index: Option<usize>,
    /// The index of the member that it fetches from.
    pub sync_source_index: Option<usize>,
}

impl OplogQueryMetadata {
    /// The value of the field.
    pub fn to_document(&self) -> Document {
        doc! {
            "lastOpCommitted": self.last_committed.to_document(),
            "lastOpApplied": self.last_applied.to_document(),
            "rbid": fields::int_or_long(self.rollback_id),
            "primaryIndex": index_to_number(self.primary_index),
            "syncSourceIndex": index_to_number(self.sync_source_index),
        }
    }

    /// Reads the value of the field.
    pub fn from_document(document: &Document) -> Result<OplogQueryMetadata, Failure> {
        Ok(OplogQueryMetadata {
            last_committed: OpTime::required(document, "lastOpCommitted")?,
            last_applied: OpTime::required(document, "lastOpApplied")?,
            rollback_id: fields::integer(document, "rbid")?.ok_or_else(|| fields::missing("rbid"))?,
            primary_index: index_in(document, "primaryIndex")?,
            sync_source_index: index_in(document, "syncSourceIndex")?,
        })
    }

    /// `$oplogQueryData` of a reply.
    pub fn beside(document: &Document) -> Result<Option<OplogQueryMetadata>, Failure> {
        match document.get("$oplogQueryData") {
            Some(bson::Bson::Document(value)) => OplogQueryMetadata::from_document(value).map(Some),
            _ => Ok(None),
        }
    }
}

/// An index, or -1 for none.
fn index_to_number(index: Option<usize>) -> i32 {
    index.and_then(|index| i32::try_from(index).ok()).unwrap_or(-1)
}

fn index_in(document: &Document, name: &str) -> Result<Option<usize>, Failure> {
    Ok(fields::integer(document, name)?.and_then(|index| usize::try_from(index).ok()))
}
