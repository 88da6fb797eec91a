//! The messages between simulated members. If a schedule asks for it, each message is encoded as its document and decoded again.
//!
//! A request contains the run of its sender, and its reply returns it: no connection outlives a process.

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
    Fetched { run: u64, number: u64, answer: FetchReply },
    Position(UpdatePosition),
}

/// The reply of a sync source.
#[derive(Clone, Debug)]
pub(crate) struct FetchReply {
    /// The entries after the requested one; `None` if the source lacks that one.
    pub(crate) entries: Option<Vec<OpTime>>,
    /// The source's whole log, if it lacks the entry.
    pub(crate) log: Arc<Vec<OpTime>>,
    pub(crate) metadata: ReplicationMetadata,
    pub(crate) query: OplogQueryMetadata,
}

impl Message {
    /// The message after encoding to documents and decoding.
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
