//! Sessions: an id is all that the router knows of one; the shards keep what belongs to it.

use bson::{Uuid, doc};
use fathom_wire::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;

/// `startSession`: a new id.
pub(super) fn start(op: Operation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    if !op.instance.cluster.has_sessions() {
        let what = "there are no sessions where a shard is no replica set";
        return Err(Failure::new(Code::IllegalOperation, what));
    }
    reply.bson("id", &doc! { "id": Uuid::new() }.into());
    reply.i32("timeoutMinutes", 30);
    Ok(())
}

/// `endSessions` and `refreshSessions`: the shards forget sessions by themselves.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn noted(_: Operation<'_>, _: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    Ok(())
}

/// `commitTransaction` and `abortTransaction`.
pub(super) fn no_transaction(_: Operation<'_>, _: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    let what = "this router has no transactions of several documents";
    Err(Failure::new(Code::NoSuchTransaction, what))
}
