//! `dbStats`: sizes of a database.

use super::Reply;
use super::coll_stats::scale;
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Writes them; a database that there is not has zeros, as in mongod.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let free = parse::boolean(request.fields, "freeStorage")?;
    crate::diagnostics::database_stats::write(op.instance, request.database, scale(request)?, free, reply)
}
