//! What members say to each other: `replSetHeartbeat`, `replSetRequestVotes`, `replSetUpdatePosition`, `_isSelf`.

use std::time::{Duration, Instant};

use fathom_query::{Code, Failure};
use fathom_replication::Ballot;
use fathom_replication::messages::{HeartbeatArguments, RequestVotesArguments, UpdatePosition};

use super::Reply;
use super::repl_set_config::{body, set_of, write_all};
use crate::Result;
use crate::operation::Operation;
use crate::replication;
use crate::request::Request;

/// How long a vote may wait for this member to step down first.
const STEP_DOWN: Duration = Duration::from_secs(10);

/// Which server this is, for one that looks for itself in a configuration.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn is_self(op: &mut Operation<'_>, _request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    reply.object_id("id", op.instance.id);
    Ok(())
}

/// How this member is.
pub(super) fn heartbeat(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let set = set_of(op)?;
    let arguments = HeartbeatArguments::from_document(&body(request)?)?;
    let mut answer = set.tell(|one, now| one.heartbeat_received(now, &arguments))?;
    if arguments.check_empty && answer.has_data.is_none() {
        answer.has_data = Some(set.oplog().collection().is_some() || has_data(op));
    }
    write_all(reply, &answer.to_document());
    Ok(())
}

/// Whether there is anything that a new set would overwrite.
fn has_data(op: &Operation<'_>) -> bool {
    op.instance.catalog.databases().iter().any(|name| !matches!(name.as_str(), "local" | "config" | "admin"))
}

/// Whether a candidate has this member's vote.
pub(super) fn request_votes(
    op: &mut Operation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let set = set_of(op)?;
    let arguments = RequestVotesArguments::from_document(&body(request)?)?;
    let until = Instant::now() + STEP_DOWN;
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

/// How far members are that follow this one.
pub(super) fn update_position(
    op: &mut Operation<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let set = set_of(op)?;
    let update = UpdatePosition::from_document(&body(request)?)?;
    set.tell(|one, now| one.positions_received(now, &update))
}
