//! What travels between simulated members. Where a schedule asks for it, each message goes through its document and back.
//!
//! A request bears the run of its sender, and its reply brings it back: no connection outlives a process.

use std::sync::Arc;

use fathom_replication::OpTime;
use fathom_replication::messages::{
    HeartbeatArguments, HeartbeatReply, OplogQueryMetadata, ReplicationMetadata, RequestVotesArguments,
    RequestVotesReply, UpdatePosition,
};
use fathom_wire::Failure;

#[derive(Clone, Debug)]
pub(crate) enum Message {
    Heartbeat { run: u64, sequence: u64, arguments: HeartbeatArguments },
    HeartbeatReply { run: u64, sequence: u64, reply: Result<HeartbeatReply, Failure> },
    Vote { run: u64, round: u64, arguments: RequestVotesArguments },
    VoteReply { run: u64, round: u64, reply: Result<RequestVotesReply, Failure> },
    Fetch { run: u64, number: u64, after: OpTime, term: i64 },
    Fetched { run: u64, number: u64, answer: Fetched },
    Position(UpdatePosition),
}

/// What a sync source answers.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    /// The entries behind the one asked for; `None` where the source lacks that one.
    pub(crate) entries: Option<Vec<OpTime>>,
    /// The source's whole log, where it lacks the entry.
    pub(crate) log: Arc<Vec<OpTime>>,
    pub(crate) metadata: ReplicationMetadata,
    pub(crate) query: OplogQueryMetadata,
}

impl Message {
    /// The message as it arrives after it was bytes.
    pub(crate) fn through_documents(self) -> Message {
        match self {
            Message::Heartbeat { run, sequence, arguments } => Message::Heartbeat {
                run,
                sequence,
                arguments: HeartbeatArguments::from_document(&arguments.to_document()).unwrap(),
            },
            Message::HeartbeatReply { run, sequence, reply: Ok(reply) } => Message::HeartbeatReply {
                run,
                sequence,
                reply: Ok(HeartbeatReply::from_document(&reply.to_document()).unwrap()),
            },
            Message::Vote { run, round, arguments } => Message::Vote {
                run,
                round,
                arguments: RequestVotesArguments::from_document(&arguments.to_document()).unwrap(),
            },
            Message::VoteReply { run, round, reply: Ok(reply) } => Message::VoteReply {
                run,
                round,
                reply: Ok(RequestVotesReply::from_document(&reply.to_document()).unwrap()),
            },
            Message::Fetched { run, number, mut answer } => {
                answer.metadata = ReplicationMetadata::from_document(&answer.metadata.to_document()).unwrap();
                answer.query = OplogQueryMetadata::from_document(&answer.query.to_document()).unwrap();
                Message::Fetched { run, number, answer }
            }
            Message::Position(update) => {
                Message::Position(UpdatePosition::from_document(&update.to_document()).unwrap())
            }
            other => other,
        }
    }
}
