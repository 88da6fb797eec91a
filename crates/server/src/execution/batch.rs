//! Fills the batches of cursors with documents from a query, a pipeline or a list.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{RawDocument, RawDocumentBuf};
use fathom_wire::ArrayWriter;

use super::find::{BatchEffect, gone};
use crate::Result;
use crate::cursors::{PipelineRows, Producer};
use crate::operation_context::OperationContext;

/// The maximum bytes of documents in one reply; the rest of the 48 MB is for the other fields.
const MAX_BATCH_BYTES: usize = 16 << 20;

/// One batch being written into a reply.
#[derive(Debug)]
pub(crate) struct ReplyBatch<'w, 'b> {
    array: &'w mut ArrayWriter<'b>,
    left: u64,
}

impl<'w, 'b> ReplyBatch<'w, 'b> {
    /// A batch of at most `documents`.
    pub(crate) fn new(array: &'w mut ArrayWriter<'b>, documents: u64) -> ReplyBatch<'w, 'b> {
        ReplyBatch { array, left: documents }
    }

    fn take(&mut self, document: &RawDocument) -> BatchEffect {
        let length = document.as_bytes().len();
        if self.left == 0 || (self.array.count() > 0 && self.array.length_bytes() + length > MAX_BATCH_BYTES)
        {
            return BatchEffect::No;
        }
        self.array.document(document);
        self.left -= 1;
        if self.left == 0 { BatchEffect::Last } else { BatchEffect::More }
    }
}

impl Producer {
    /// Writes the next batch; true when nothing is left.
    pub(crate) fn fill(
        &mut self,
        op: &mut OperationContext<'_>,
        batch: &mut ReplyBatch<'_, '_>,
    ) -> Result<bool> {
        match self {
            Producer::Find(find, collection) => {
                let collection = Arc::clone(collection);
                let state = op.lock(&collection)?;
                if state.gone {
                    return Err(gone(collection.namespace()));
                }
                if batch.left > 0 {
                    find.fill(op, &collection, &state, &mut |document| Ok(batch.take(document)))?;
                }
                Ok(find.is_done())
            }
            Producer::Rows(pipeline) => {
                pipeline.attachment.attach(op);
                let done = pipeline.fill(op, batch);
                pipeline.attachment.detach(op);
                done
            }
            Producer::Buffered(rest) => {
                while let Some(document) = rest.front() {
                    if batch.take(document) == BatchEffect::No {
                        return Ok(false);
                    }
                    rest.pop_front();
                }
                Ok(true)
            }
        }
    }
}

impl PipelineRows {
    /// The next row, for an operation that reads all rows itself.
    pub(crate) fn next(&mut self, op: &mut OperationContext<'_>) -> Result<Option<RawDocumentBuf>> {
        let row = self.rows.next().transpose();
        self.attachment.detach(op);
        row
    }

    fn fill(&mut self, op: &OperationContext<'_>, batch: &mut ReplyBatch<'_, '_>) -> Result<bool> {
        loop {
            let next = match self.waiting.take() {
                Some(document) => document,
                None if batch.left == 0 => return Ok(false),
                None => match self.rows.next() {
                    None => return Ok(true),
                    Some(row) => row?,
                },
            };
            match batch.take(&next) {
                BatchEffect::More => op.check_interrupt()?,
                // Only another read shows whether rows remain.
                BatchEffect::Last => {
                    self.waiting = self.rows.next().transpose()?;
                    return Ok(self.waiting.is_none());
                }
                BatchEffect::No => {
                    self.waiting = Some(next);
                    return Ok(false);
                }
            }
        }
    }
}

/// The time left for an operation that opens a cursor.
pub(crate) fn time_left(op: &OperationContext<'_>) -> Option<Duration> {
    op.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
}
