//! `serverStatus`: what the server counts of itself.

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;

/// Writes the sections that are asked for.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    crate::diagnostics::server_status::write(op.instance, request.body(), reply)
}
