//! Operations and sessions. The number of an operation on a shard is preceded by the shard's name. The router only creates the ids
//! of sessions; the shards keep everything else about them.

use bson::{Bson, RawBsonRef, Uuid, doc};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::call;
use crate::instance::RouterOperation;
use crate::request::{Request, SendPolicy};
use crate::shard_command::ShardCommand;

pub(super) fn current(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let command = ShardCommand::forwarded(request, &[], |_| {})?;
    let shards = op.instance.cluster.shards();
    let commands: Vec<_> = shards.into_iter().map(|shard| (shard.backend, command.clone())).collect();
    let mut array = reply.begin_array("inprog");
    for (answer, (backend, _)) in
        call::ask_all("admin", &commands, &SendPolicy::from_request(request)).into_iter().zip(&commands)
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

/// Ends an operation on a shard: `{killOp: 1, op: "shard:number"}`.
pub(super) fn kill(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let wrong = || {
        let what = "The op argument to killOp must be of the format shardid:opid";
        Failure::new(Code::BadValue, what)
    };
    let Some(RawBsonRef::String(named)) = request.field("op") else { return Err(wrong()) };
    let (shard, number) = named.split_once(':').ok_or_else(wrong)?;
    let number: i64 = number.parse().map_err(|_| wrong())?;
    let backend = op.instance.cluster.shard(shard)?;
    backend.command("admin", &doc! { "killOp": 1, "op": number }, &SendPolicy::write())?;
    reply.string("info", "attempting to kill op");
    Ok(())
}

/// `startSession`: creates a new session id.
pub(super) fn start(op: RouterOperation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    if !op.instance.cluster.has_sessions() {
        let what = "sessions are not supported while a shard is not a replica set";
        return Err(Failure::new(Code::IllegalOperation, what));
    }
    reply.bson("id", &doc! { "id": Uuid::new() }.into());
    reply.i32("timeoutMinutes", 30);
    Ok(())
}

/// `endSessions` and `refreshSessions`: nothing to do, because the shards expire sessions by themselves.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn noted(_: RouterOperation<'_>, _: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    Ok(())
}

/// The commands `commitTransaction` and `abortTransaction`.
pub(super) fn no_transaction(_: RouterOperation<'_>, _: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    let what = "this router has no transactions of several documents";
    Err(Failure::new(Code::NoSuchTransaction, what))
}
