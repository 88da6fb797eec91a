//! Who leads, as an administrator wants it: `replSetStepDown`, `replSetStepUp`, `replSetFreeze`, `replSetMaintenance`,
//! `replSetSyncFrom`, `replSetAbortPrimaryCatchUp`, and `appendOplogNote`.

use bson::RawBsonRef;
use fathom_query::{Code, Failure};
use fathom_replication::coordinator::{ElectionOutcome, StepDownRequest};

use super::Reply;
use super::repl_set_config::{body, set_of, wait_until, write_all};
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::replication;
use crate::request::Request;

/// Steps down, once another electable member has caught up.
pub(super) fn step_down(op: &mut Operation<'_>, request: &Request<'_>, _reply: &mut Reply<'_>) -> Result<()> {
    let set = set_of(op)?;
    let before = set.outcomes().step_downs;
    let wanted = StepDownRequest::from_document(&body(request)?)?;
    set.forget_refusal();
    set.tell(|one, now| one.step_down_requested(now, wanted))?;
    wait_until(op, set, || {
        let outcomes = set.outcomes();
        match outcomes.refused {
            Some(failure) => Some(Err(failure)),
            None if outcomes.step_downs > before => Some(Ok(())),
            None => None,
        }
    })?
}

/// Stands for election now.
pub(super) fn step_up(op: &mut Operation<'_>, _request: &Request<'_>, _reply: &mut Reply<'_>) -> Result<()> {
    let set = set_of(op)?;
    let before = set.outcomes().elections;
    set.tell(|one, now| one.step_up(now))?;
    let outcome = wait_until(op, set, || {
        let outcomes = set.outcomes();
        (outcomes.elections > before).then_some(outcomes.election).flatten()
    })?;
    if outcome == ElectionOutcome::Won {
        return Ok(());
    }
    Err(Failure::new(Code::CommandFailed, format!("Election failed: {outcome:?}")))
}

/// Stands for no election for a while.
pub(super) fn freeze(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let seconds = parse::integer_of(request.target)
        .ok_or_else(|| parse::wrong_type("replSetFreeze", request.target, "number"))?;
    let said = set_of(op)?.tell(|one, now| one.freeze(now, seconds))?;
    write_all(reply, &said);
    Ok(())
}

/// Goes into maintenance, or out of it.
pub(super) fn maintenance(
    op: &mut Operation<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let on = parse::truth_of(request.target);
    set_of(op)?.tell(|one, now| one.set_maintenance(now, on))
}

/// Follows a member that somebody names.
pub(super) fn sync_from(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let RawBsonRef::String(host) = request.target else {
        return Err(parse::wrong_type("replSetSyncFrom", request.target, "string"));
    };
    let host = host.parse()?;
    let said = set_of(op)?.tell(|one, _| one.sync_from(&host))?;
    write_all(reply, &said);
    Ok(())
}

/// Gives up what a new primary could still get.
pub(super) fn abort_catch_up(
    op: &mut Operation<'_>,
    _request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    set_of(op)?.tell(|one, now| one.abort_catch_up(now))
}

/// Writes an entry that changes nothing.
pub(super) fn append_note(
    op: &mut Operation<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let set = set_of(op)?;
    let data =
        parse::document(request.fields, "data")?.ok_or_else(|| parse::missing("appendOplogNote.data"))?;
    if !set.is_writable() {
        return Err(replication::not_primary());
    }
    op.last = Some(replication::note(op.instance, data.to_owned())?);
    Ok(())
}
