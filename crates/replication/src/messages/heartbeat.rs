//! `replSetHeartbeat` (mongodb/mongo:src/mongo/db/repl/repl_set_heartbeat_args_v1.cpp, repl_set_heartbeat_response.cpp).

use bson::{Document, doc};
use fathom_wire::{Code, Failure};

use super::ReplicationMetadata;
use crate::fields;
use crate::host::Host;
use crate::member_state::MemberState;
use crate::optime::{NO_TERM, OpTime, check_term, to_bson};

/// What a member sends.
#[derive(Clone, Debug, PartialEq)]
pub struct HeartbeatArguments {
    /// The name of the sender's set.
    pub set_name: String,
    /// The version of its configuration; -2 for none.
    pub config_version: i64,
    /// Where the sender listens, if it knows.
    pub from: Option<Host>,
    /// Its `_id`; -1 if it has none.
    pub from_id: i64,
    /// Its term.
    pub term: i64,
    /// Whether the receiver is asked if it has data, as `replSetInitiate` does.
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

    /// Reads the command.
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

/// What the other answers.
#[derive(Clone, Debug, PartialEq)]
pub struct HeartbeatReply {
    /// The name of its set.
    pub set_name: String,
    /// What it is.
    pub state: MemberState,
    /// `v`: the version of its configuration; -2 for none.
    pub config_version: i64,
    /// Its configuration, where the asker's is older. Not read before somebody wants it.
    pub config: Option<Document>,
    /// Its term.
    pub term: i64,
    /// The `_id` of the primary that it knows.
    pub primary_id: Option<i64>,
    /// From whom it fetches.
    pub syncing_to: Option<Host>,
    /// The newest entry that it applied.
    pub applied: OpTime,
    /// The newest entry in its journal.
    pub durable: OpTime,
    /// When it was elected, as a timestamp; of a primary only.
    pub election_time: Option<u64>,
    /// Whether it has data, where it was asked.
    pub has_data: Option<bool>,
    /// `$replData` beside the reply.
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
            Some(number) => MemberState::of_number(number).ok_or_else(|| {
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
            election_time: fields::timestamp(document, "electionTime")?,
            has_data: fields::boolean(document, "hasData")?,
            metadata: ReplicationMetadata::beside(document)?,
        })
    }
}
