//! `whatsmyuri`: the client's address, as the server sees it.

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;

/// Writes it.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn run(op: &mut Operation<'_>, _request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    reply.string("you", &op.client.remote);
    Ok(())
}
