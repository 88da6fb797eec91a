//! The batches of cursors: documents from a query, a pipeline or a list until a reply is full.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{RawDocument, RawDocumentBuf};
use fathom_wire::ArrayWriter;

use super::find::{Taken, gone};
use crate::Result;
use crate::cursors::{PipelineRows, Producer};
use crate::operation_context::OperationContext;

/// Bytes of documents that one reply holds at most; the rest of the 48 MB is for whatever surrounds them.
const BATCH_BYTES: usize = 16 << 20;

/// One batch being written into a reply.
#[derive(Debug)]
pub(crate) struct Batch<'w, 'b> {
    array: &'w mut ArrayWriter<'b>,
    left: u64,
}

impl<'w, 'b> Batch<'w, 'b> {
    /// A batch of at most `documents`.
    pub(crate) fn new(array: &'w mut ArrayWriter<'b>, documents: u64) -> Batch<'w, 'b> {
        Batch { array, left: documents }
    }

    fn take(&mut self, document: &RawDocument) -> Taken {
        let length = document.as_bytes().len();
        if self.left == 0 || (self.array.count() > 0 && self.array.length_bytes() + length > BATCH_BYTES) {
            return Taken::No;
        }
        self.array.document(document);
        self.left -= 1;
        if self.left == 0 { Taken::Last } else { Taken::More }
    }
}

impl Producer {
    /// Writes the next batch; true when nothing is left.
    pub(crate) fn fill(&mut self, op: &mut OperationContext<'_>, batch: &mut Batch<'_, '_>) -> Result<bool> {
        match self {
            Producer::Find(find, collection) => {
                let collection = Arc::clone(collection);
                let state = collection.lock();
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
                    if batch.take(document) == Taken::No {
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
    /// The next row, for an operation that reads them all by itself.
    pub(crate) fn next(&mut self, op: &mut OperationContext<'_>) -> Result<Option<RawDocumentBuf>> {
        let row = self.rows.next().transpose();
        self.attachment.detach(op);
        row
    }

    fn fill(&mut self, op: &OperationContext<'_>, batch: &mut Batch<'_, '_>) -> Result<bool> {
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
                Taken::More => op.check_interrupt()?,
                // Only another look says whether there is more.
                Taken::Last => {
                    self.waiting = self.rows.next().transpose()?;
                    return Ok(self.waiting.is_none());
                }
                Taken::No => {
                    self.waiting = Some(next);
                    return Ok(false);
                }
            }
        }
    }
}

/// What is left of the time of an operation that opens a cursor.
pub(crate) fn time_left(op: &OperationContext<'_>) -> Option<Duration> {
    op.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
}
