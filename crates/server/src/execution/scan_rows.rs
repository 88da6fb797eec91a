//! The rows of a query, pulled one by one by the stages of a pipeline.

use std::collections::VecDeque;
use std::sync::Arc;

use bson::RawDocumentBuf;
use fathom_engine::Session;
use parking_lot::Mutex;

use super::expression_context::ExpressionContext;
use super::find::{BatchEffect, gone};
use crate::Result;
use crate::cursors::FindState;
use crate::storage::Collection;

/// The number of rows read from the engine at once, so that a pipeline that stops early has not read everything.
const ROWS_AT_ONCE: usize = 128;
/// The bytes of those rows, so that a few large documents do not fill the memory.
const BYTES_AT_ONCE: usize = 1 << 20;

/// A query that the stages share with explain.
pub(crate) type SharedFind = Arc<Mutex<FindState>>;

/// The rows of a query. They use an engine session of their own, so that they can stay idle between two batches of a client's cursor.
pub(crate) struct ScanRows {
    context: Arc<ExpressionContext>,
    session: Option<Box<dyn Session>>,
    collection: Arc<Collection>,
    find: SharedFind,
    rows: VecDeque<RawDocumentBuf>,
    failed: bool,
}

impl ScanRows {
    /// Rows of `find` over `collection`.
    pub(crate) fn new(
        context: &Arc<ExpressionContext>,
        collection: &Arc<Collection>,
        find: SharedFind,
    ) -> Result<ScanRows> {
        Ok(ScanRows {
            context: Arc::clone(context),
            session: Some(context.session()?),
            collection: Arc::clone(collection),
            find,
            rows: VecDeque::new(),
            failed: false,
        })
    }

    fn pull(&mut self) -> Result<()> {
        let ScanRows { context, session, collection, find, rows, .. } = self;
        let Some(session) = session else { return Ok(()) };
        context.run(&**session, |op| {
            let state = op.lock(collection)?;
            if state.gone {
                return Err(gone(collection.namespace()));
            }
            let mut bytes = 0;
            find.lock().fill(op, collection, &state, &mut |document| {
                bytes += document.as_bytes().len();
                rows.push_back(document.to_owned());
                let full = rows.len() >= ROWS_AT_ONCE || bytes >= BYTES_AT_ONCE;
                Ok(if full { BatchEffect::Last } else { BatchEffect::More })
            })
        })
    }
}

impl Iterator for ScanRows {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Result<RawDocumentBuf>> {
        if self.rows.is_empty()
            && !self.failed
            && !self.find.lock().is_done()
            && let Err(failure) = self.pull()
        {
            self.failed = true;
            return Some(Err(failure));
        }
        self.rows.pop_front().map(Ok)
    }
}

impl Drop for ScanRows {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.context.give_back(session);
        }
    }
}
