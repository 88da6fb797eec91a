//! `collStats`: sizes and engine counters of a collection and its indexes.

use super::Reply;
use crate::Result;
use crate::diagnostics::collection_stats;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Writes them; a collection that there is not has zeros, as in mongod.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    let scale = scale(request)?;
    reply.string("ns", &namespace);
    let found = op.instance.catalog.get(&namespace);
    op.figures.namespace = namespace;
    match found {
        None => {
            collection_stats::write_missing(reply, scale);
            Ok(())
        }
        Some(collection) => collection_stats::write(op.instance, &collection, scale, reply),
    }
}

/// What sizes are to be divided by.
pub(super) fn scale(request: &Request<'_>) -> Result<i64> {
    let scale = request.field("scale").map(parse::owned_value).transpose()?;
    crate::diagnostics::stages::scale_of(scale.as_ref())
}
