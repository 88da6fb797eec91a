//! `connPoolStats`: connections to other servers. A server on its own has none, which the zeros say.

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;

/// Writes that there are none.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn run(_op: &mut Operation<'_>, _request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    for name in
        ["numClientConnections", "numAScopedConnections", "totalInUse", "totalAvailable", "totalCreated"]
    {
        reply.i32(name, 0);
    }
    for name in ["pools", "hosts", "replicaSets"] {
        reply.begin_document(name).end();
    }
    Ok(())
}
