//! Replies of commands that list things: a cursor over documents that are all there already.

use std::collections::VecDeque;

use bson::RawDocumentBuf;

use super::Reply;
use crate::Result;
use crate::execution::{Batch, Producer, QueryCursor};
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Writes `cursor: {id, ns, firstBatch}`; what does not fit into the first batch waits for `getMore` under `namespace`.
pub(super) fn write_cursor(
    op: &mut Operation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
    namespace: &str,
    documents: VecDeque<RawDocumentBuf>,
) -> Result<()> {
    let batch_size = match parse::document(request.fields, "cursor")? {
        Some(options) => parse::natural(options, "batchSize")?.unwrap_or(u64::MAX),
        None => u64::MAX,
    };
    let mut producer = Producer::Buffered(documents);
    let mut cursor = reply.begin_document("cursor");
    let mut first = cursor.begin_array("firstBatch");
    let done = producer.fill(op, &mut Batch::new(&mut first, batch_size))?;
    op.figures.returned = Some(first.count() as u64);
    first.end();
    let id = if done {
        0
    } else {
        op.instance.cursors.add(QueryCursor {
            majority: op.majority,
            namespace: namespace.to_owned(),
            producer,
            no_timeout: false,
            tailable: false,
            await_data: false,
            originating: request.body().to_owned(),
            users: op.client.users(),
            time_left: None,
        })
    };
    op.figures.cursor_id = id;
    op.figures.cursor_exhausted = done;
    cursor.i64("id", id);
    cursor.string("ns", namespace);
    Ok(())
}
