//! What runs for clients: operations on the shards, each with the shard's name before its number, and sessions, of which the router knows an id
//! and the shards the rest.

use bson::{Bson, RawBsonRef, Uuid, doc};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::call;
use crate::instance::Operation;
use crate::outgoing::Outgoing;
use crate::request::{Request, Sending};

/// Lists what runs.
pub(super) fn current(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let command = Outgoing::forwarded(request, &[], |_| {})?;
    let shards = op.instance.cluster.shards();
    let commands: Vec<_> = shards.into_iter().map(|shard| (shard.backend, command.clone())).collect();
    let mut array = reply.begin_array("inprog");
    for (answer, (backend, _)) in
        call::ask_all("admin", &commands, &Sending::of(request)).into_iter().zip(&commands)
    {
        let answer = parse::owned(&answer?)?;
        for running in answer.get_array("inprog").into_iter().flatten().filter_map(Bson::as_document) {
            let mut running = running.clone();
            running.insert("shard", backend.id());
            if let Some(number) = running.get("opid").cloned() {
                running.insert("opid", format!("{}:{number}", backend.id()));
            }
            array.bson(&Bson::Document(running));
        }
    }
    Ok(())
}

/// Ends an operation of a shard: `{killOp: 1, op: "shard:number"}`.
pub(super) fn kill(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let wrong = || {
        let what = "The op argument to killOp must be of the format shardid:opid";
        Failure::new(Code::BadValue, what)
    };
    let Some(RawBsonRef::String(named)) = request.field("op") else { return Err(wrong()) };
    let (shard, number) = named.split_once(':').ok_or_else(wrong)?;
    let number: i64 = number.parse().map_err(|_| wrong())?;
    let backend = op.instance.cluster.shard(shard)?;
    backend.command("admin", &doc! { "killOp": 1, "op": number }, &Sending::write())?;
    reply.string("info", "attempting to kill op");
    Ok(())
}

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
