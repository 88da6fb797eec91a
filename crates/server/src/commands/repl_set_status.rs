//! `replSetGetStatus` and `replSetGetRBID`: how the set stands, and how often this member has rolled back.

use fathom_replication::coordinator::StatusContext;

use super::Reply;
use super::repl_set_config::{set_of, write_all};
use crate::Result;
use crate::operation::Operation;
use crate::replication::majority_of;
use crate::request::Request;

/// Shows the members as this one sees them.
pub(super) fn run(op: &mut Operation<'_>, _request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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

/// The rollback id.
pub(super) fn rollback_id(
    op: &mut Operation<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    reply.i32("rbid", i32::try_from(set_of(op)?.rollback_id()).unwrap_or(i32::MAX));
    Ok(())
}
