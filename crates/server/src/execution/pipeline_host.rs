//! What a pipeline needs of the server: the rows of a collection, look-ups in others, and where `$out` and `$merge` write.

use std::collections::VecDeque;
use std::sync::Arc;

use bson::{Document, RawDocumentBuf};
use fathom_engine::Session;
use fathom_query::{Code, Failure, Filter, Host, Rows};

use super::find::{FindQuery, FindState, Taken, gone};
use crate::Result;
use crate::client::Client;
use crate::instance::Instance;
use crate::operation::Operation;
use crate::storage::Collection;

/// Rows that are read from the engine at once, so that a pipeline that stops early has not read everything.
const ROWS_AT_ONCE: usize = 128;

/// The rows of a query, pulled one by one; it has an engine session of its own, so that it may rest between two batches of
/// a client's cursor.
pub(crate) struct ScanRows {
    instance: Arc<Instance>,
    client: Arc<Client>,
    session: Box<dyn Session>,
    collection: Arc<Collection>,
    find: FindState,
    rows: VecDeque<RawDocumentBuf>,
    deadline: Option<std::time::Instant>,
    failed: bool,
}

impl ScanRows {
    /// Rows of `find` over `collection`.
    pub(crate) fn new(op: &Operation<'_>, collection: &Arc<Collection>, find: FindState) -> Result<ScanRows> {
        Ok(ScanRows {
            instance: Arc::clone(op.instance),
            client: Arc::clone(op.client),
            session: op.instance.engine.session()?,
            collection: Arc::clone(collection),
            find,
            rows: VecDeque::new(),
            deadline: op.deadline,
            failed: false,
        })
    }

    fn pull(&mut self) -> Result<()> {
        let mut op = Operation::new(&self.instance, &*self.session, &self.client);
        op.deadline = self.deadline;
        let state = self.collection.lock();
        if state.gone {
            return Err(gone(self.collection.namespace()));
        }
        let rows = &mut self.rows;
        self.find.fill(&mut op, &self.collection, &state, &mut |document| {
            rows.push_back(document.to_owned());
            Ok(if rows.len() < ROWS_AT_ONCE { Taken::More } else { Taken::Last })
        })?;
        self.instance.counters.scanned(op.figures.keys_examined, op.figures.docs_examined);
        Ok(())
    }
}

impl Iterator for ScanRows {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Result<RawDocumentBuf>> {
        if self.rows.is_empty()
            && !self.failed
            && !self.find.is_done()
            && let Err(failure) = self.pull()
        {
            self.failed = true;
            return Some(Err(failure));
        }
        self.rows.pop_front().map(Ok)
    }
}

/// The server as a pipeline sees it.
pub(crate) struct ServerHost {
    pub(crate) instance: Arc<Instance>,
    pub(crate) client: Arc<Client>,
    pub(crate) database: String,
}

impl ServerHost {
    fn rows(
        &self,
        database: Option<&str>,
        collection: &str,
        query: FindQuery,
    ) -> Result<Vec<RawDocumentBuf>> {
        let namespace = format!("{}.{collection}", database.unwrap_or(&self.database));
        let Some(collection) = self.instance.catalog.get(&namespace) else { return Ok(Vec::new()) };
        let session = self.instance.engine.session()?;
        let mut op = Operation::new(&self.instance, &*session, &self.client);
        let state = collection.lock();
        let mut find = FindState::new(&mut op, &state, query)?;
        let mut rows = Vec::new();
        find.fill(&mut op, &collection, &state, &mut |document| {
            rows.push(document.to_owned());
            Ok(Taken::More)
        })?;
        Ok(rows)
    }
}

impl Host for ServerHost {
    fn find(&self, database: Option<&str>, collection: &str, filter: &Filter) -> Result<Vec<RawDocumentBuf>> {
        self.rows(database, collection, FindQuery::of(filter.clone()))
    }

    fn out(&self, _database: Option<&str>, _collection: &str, _rows: Rows<'_>) -> Result<()> {
        Err(Failure::new(Code::CommandNotSupported, "this server does not have $out"))
    }

    fn merge(&self, _options: &Document, _rows: Rows<'_>) -> Result<()> {
        Err(Failure::new(Code::CommandNotSupported, "this server does not have $merge"))
    }

    fn special(&self, stage: &str, _options: &Document) -> Result<Vec<RawDocumentBuf>> {
        Err(Failure::new(Code::CommandNotSupported, format!("this server does not have {stage}")))
    }

    fn random(&self) -> f64 {
        crate::random::fraction()
    }
}
