//! The commands of a running set: messages between members (`replSetHeartbeat`, `replSetRequestVotes`, `replSetUpdatePosition`, `_isSelf`), their
//! state (`replSetGetStatus`, `replSetGetRBID`), and an administrator's control of elections (`replSetStepDown`, `replSetStepUp` and similar).

use std::time::{Duration, Instant};

use bson::RawBsonRef;
use fathom_query::{Code, Failure};
use fathom_replication::Ballot;
use fathom_replication::coordinator::{ElectionOutcome, StatusContext, StepDownRequest};
use fathom_replication::messages::{HeartbeatArguments, RequestVotesArguments, UpdatePosition};

use super::Reply;
use super::repl_set_config::{body, set_of, wait_until, write_all};
use crate::Result;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::replica_set::majority_of;
use crate::replication;
use crate::request::Request;

/// The time that a vote may wait for this member to step down first.
const STEP_DOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Identifies this server to one that looks for itself in a configuration.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn is_self(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    reply.object_id("id", op.instance.id);
    Ok(())
}

/// Answers a heartbeat with this member's state.
pub(super) fn heartbeat(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let set = set_of(op)?;
    let arguments = HeartbeatArguments::from_document(&body(request)?)?;
    let mut answer = set.tell(|one, now| one.heartbeat_received(now, &arguments))?;
    if arguments.check_empty && answer.has_data.is_none() {
        answer.has_data = Some(set.oplog().collection().is_some() || has_data(op));
    }
    write_all(reply, &answer.to_document());
    Ok(())
}

/// Whether this server has data that a new set would overwrite.
fn has_data(op: &OperationContext<'_>) -> bool {
    op.instance.catalog.databases().iter().any(|name| !matches!(name.as_str(), "local" | "config" | "admin"))
}

/// Decides whether this member votes for a candidate.
pub(super) fn request_votes(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let set = set_of(op)?;
    let arguments = RequestVotesArguments::from_document(&body(request)?)?;
    let until = Instant::now() + STEP_DOWN_TIMEOUT;
    loop {
        let seen = set.changes();
        match set.tell(|one, now| one.vote_requested(now, &arguments)) {
            Ballot::Answer(answer) => {
                write_all(reply, &answer.to_document());
                return Ok(());
            }
            Ballot::StoreThenAnswer(vote, answer) => {
                replication::set_vote(op.instance, vote)?;
                write_all(reply, &answer.to_document());
                return Ok(());
            }
            Ballot::StepDownFirst if Instant::now() >= until => {
                return Err(Failure::new(Code::PrimarySteppedDown, "this member is stepping down"));
            }
            Ballot::StepDownFirst => {
                op.check_interrupt()?;
                set.wait_for_change(seen, Instant::now() + Duration::from_millis(20));
            }
        }
    }
}

/// Takes the progress of the members that follow this one.
pub(super) fn update_position(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let set = set_of(op)?;
    let update = UpdatePosition::from_document(&body(request)?)?;
    set.tell(|one, now| one.positions_received(now, &update))
}

/// Shows the members as this one sees them.
pub(super) fn status(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let set = set_of(op)?;
    let clocks = set.clocks();
    let uptime = op.instance.started.elapsed();
    let status = set.ask(|one| {
        one.status(&StatusContext {
            clocks,
            uptime,
            majority_snapshot: majority_of(one),
            stable_checkpoint: None,
        })
    })?;
    write_all(reply, &status);
    Ok(())
}

pub(super) fn rollback_id(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    reply.i32("rbid", i32::try_from(set_of(op)?.rollback_id()).unwrap_or(i32::MAX));
    Ok(())
}

/// Steps down after another electable member has caught up.
pub(super) fn step_down(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
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

/// Runs for election now.
pub(super) fn step_up(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
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

/// Runs for no election for some time.
pub(super) fn freeze(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let seconds = parse::integer_of(request.target)
        .ok_or_else(|| parse::wrong_type("replSetFreeze", request.target, "number"))?;
    let said = set_of(op)?.tell(|one, now| one.freeze(now, seconds))?;
    write_all(reply, &said);
    Ok(())
}

/// Enters or leaves maintenance mode.
pub(super) fn maintenance(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let on = parse::truth_of(request.target);
    set_of(op)?.tell(|one, now| one.set_maintenance(now, on))
}

/// Syncs from the member that the command names.
pub(super) fn sync_from(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let RawBsonRef::String(host) = request.target else {
        return Err(parse::wrong_type("replSetSyncFrom", request.target, "string"));
    };
    let host = host.parse()?;
    let said = set_of(op)?.tell(|one, _| one.sync_from(&host))?;
    write_all(reply, &said);
    Ok(())
}

/// Ends a new primary's catch-up, giving up the entries that it could still fetch.
pub(super) fn abort_catch_up(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    set_of(op)?.tell(|one, now| one.abort_catch_up(now))
}

/// Writes a no-op entry to the oplog.
pub(super) fn append_note(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let set = set_of(op)?;
    let data =
        parse::document(request.fields, "data")?.ok_or_else(|| parse::missing("appendOplogNote.data"))?;
    if !set.is_writable() {
        return Err(crate::replica_set::not_primary());
    }
    op.last = Some(replication::note(op.instance, data.to_owned())?);
    Ok(())
}
