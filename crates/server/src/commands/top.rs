//! `top`: time and number of each kind of use of each collection, since the server started.

use super::Reply;
use crate::Result;
use crate::diagnostics::build::counter;
use crate::operation::Operation;
use crate::request::Request;

/// Writes every collection that is there.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn run(op: &mut Operation<'_>, _request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut totals = reply.begin_document("totals");
    totals.string("note", "all times in microseconds");
    for collection in op.instance.catalog.all() {
        let mut one = totals.begin_document(collection.namespace());
        for (name, micros, count) in collection.usage().tallies() {
            let mut tally = one.begin_document(name);
            counter(&mut tally, "time", micros);
            counter(&mut tally, "count", count);
        }
    }
    Ok(())
}
