//! A request as it came, and what becomes of its reply.

use bson::RawDocument;
use fathom_wire::{Code, DocumentWriter, Failure, OpMsg, OpQuery};

use crate::Result;

/// A request as it came.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// An OP_MSG.
    Message(&'a OpMsg<'a>),
    /// A command of an old driver's handshake.
    Query(&'a OpQuery<'a>),
}

/// What becomes of the reply that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is sent as the client likes it.
    MayCompress,
    /// It holds secrets or comes before compression is agreed.
    Plain,
    /// There is none; the connection ends.
    Close,
    /// There is none yet: of an event loop, which leaves the request to a thread of the connection's own.
    Unanswered,
}

/// The command's own document; an OP_QUERY that is no command is refused.
pub fn body_of<'a>(incoming: &Incoming<'a>) -> Result<&'a RawDocument> {
    match incoming {
        Incoming::Message(message) => Ok(message.body),
        Incoming::Query(query) if query.command_database().is_some() => Ok(query.command()),
        Incoming::Query(_) => Err(Failure::new(Code(5_739_100), "OP_QUERY is supported for commands only")),
    }
}

/// A failed reply: `{ok: 0, errmsg, code, codeName}` and what else the failure carries; `unsaid` is a label that is for the
/// process alone.
pub fn write_failure(reply: &mut DocumentWriter<'_>, failure: &Failure, unsaid: Option<&str>) {
    reply.f64("ok", 0.0);
    reply.string("errmsg", failure.message());
    reply.i32("code", failure.code().0);
    reply.string("codeName", &failure.code().name());
    reply.extend(failure.extra());
    let labels: Vec<&str> = failure.labels().iter().copied().filter(|label| unsaid != Some(*label)).collect();
    if !labels.is_empty() {
        let mut array = reply.begin_array("errorLabels");
        labels.iter().for_each(|label| array.string(label));
    }
}
