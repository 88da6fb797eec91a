//! `replSetRequestVotes` (mongodb/mongo:src/mongo/db/repl/repl_set_request_votes_args.cpp).

use bson::{Document, doc};
use fathom_wire::Failure;

use crate::fields;
use crate::optime::{OpTime, check_term};

/// What a candidate sends.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestVotesArguments {
    /// The name of its set.
    pub set_name: String,
    /// Whether it only asks how a vote would go.
    pub dry_run: bool,
    /// The term that it stands for; in a dry run, the present one.
    pub term: i64,
    /// Its index in its configuration.
    pub candidate_index: i64,
    /// The version of its configuration.
    pub config_version: i64,
    /// The newest entry that it applied; the field is called `lastCommittedOp`.
    pub last_applied: OpTime,
}

impl RequestVotesArguments {
    /// The command.
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

    /// Reads the command.
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

/// What a voter answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestVotesReply {
    /// The voter's term, after it saw the candidate's.
    pub term: i64,
    /// Whether the candidate has the vote.
    pub granted: bool,
    /// Why not.
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
