//! Cursors that clients keep between batches: their sources of documents, and the table of open cursors.
//!
//! A cursor belongs to the operation that is using it: `getMore` takes it out of the table and puts it back. A cursor unused for
//! `cursorTimeoutMillis` (10 minutes) is closed, unless it was opened with `noCursorTimeout`. The code that fills batches is in
//! `execution`.

mod scan;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use bson::RawDocumentBuf;
use fathom_query::{Code, Failure, Rows};
use parking_lot::Mutex;

use crate::Result;
use crate::client::Client;
use crate::storage::Collection;
pub(crate) use scan::{CollectionScan, Fetch, FindQuery, FindState, RecordWalk, ScanPart, ScanTally};

/// The source of a cursor's documents.
pub(crate) enum Producer {
    /// A query over a collection.
    Find(Box<FindState>, Arc<Collection>),
    Rows(Box<PipelineRows>),
    /// Documents that are already in memory (`listCollections`, `listIndexes`).
    Buffered(VecDeque<RawDocumentBuf>),
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Producer::Find(..) => "Find",
            Producer::Rows(..) => "Rows",
            Producer::Buffered(..) => "Buffered",
        })
    }
}

/// The client that a pipeline currently works for, and the keys and documents examined for it. A pipeline outlives the command that opened it: each
/// `getMore`, on any connection, attaches the pipeline to its own client and time limit, and detaches it after its batch.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) now: Mutex<(Arc<Client>, Option<Instant>)>,
    pub(crate) keys_examined: AtomicU64,
    pub(crate) docs_examined: AtomicU64,
}

/// The rows of a pipeline.
pub(crate) struct PipelineRows {
    pub(crate) rows: Rows,
    pub(crate) attachment: Arc<Attachment>,
    /// A row that did not fit into the last batch.
    pub(crate) waiting: Option<RawDocumentBuf>,
}

impl PipelineRows {
    /// Makes rows that start at the beginning.
    pub(crate) fn new(rows: Rows, attachment: Arc<Attachment>) -> PipelineRows {
        PipelineRows { rows, attachment, waiting: None }
    }
}

/// A cursor between two batches.
#[derive(Debug)]
pub(crate) struct QueryCursor {
    pub(crate) namespace: String,
    pub(crate) producer: Producer,
    pub(crate) no_timeout: bool,
    /// Whether its batches may hold only data that cannot be rolled back.
    pub(crate) majority: bool,
    /// Whether it stays open at its end and waits there for new documents.
    pub(crate) tailable: bool,
    pub(crate) await_data: bool,
    /// The command that opened it, for the log of its `getMore`s.
    pub(crate) originating: RawDocumentBuf,
    /// The users who opened it; with `--auth` no other user may continue it.
    pub(crate) users: Vec<(String, String)>,
    /// The time left for all its further batches, if the command that opened it set a limit.
    pub(crate) time_left: Option<Duration>,
}

#[derive(Debug)]
struct ClientCursor {
    cursor: Option<Box<QueryCursor>>,
    namespace: String,
    /// The users who opened it.
    owners: Vec<(String, String)>,
    since: Instant,
    killed: bool,
}

/// All open cursors of clients.
#[derive(Debug, Default)]
pub(crate) struct CursorTable {
    cursors: Mutex<HashMap<i64, ClientCursor>>,
    timed_out: AtomicU64,
}

impl CursorTable {
    /// Adds a new cursor and returns its id.
    pub(crate) fn add(&self, cursor: QueryCursor) -> i64 {
        let mut cursors = self.cursors.lock();
        loop {
            // Positive, and hard for a client to guess.
            #[expect(clippy::cast_possible_wrap, reason = "the top bit is shifted out")]
            let id = (crate::random::number() >> 1) as i64;
            if id != 0 && !cursors.contains_key(&id) {
                let namespace = cursor.namespace.clone();
                let owners = cursor.users.clone();
                cursors.insert(
                    id,
                    ClientCursor {
                        cursor: Some(Box::new(cursor)),
                        namespace,
                        owners,
                        since: Instant::now(),
                        killed: false,
                    },
                );
                return id;
            }
        }
    }

    /// Takes a cursor out of the table in order to continue it.
    pub(crate) fn take(&self, id: i64, namespace: &str) -> Result<Box<QueryCursor>> {
        let mut cursors = self.cursors.lock();
        let resting = cursors
            .get_mut(&id)
            .ok_or_else(|| Failure::new(Code::CursorNotFound, format!("cursor id {id} not found")))?;
        if resting.namespace != namespace {
            return Err(Failure::new(
                Code::Unauthorized,
                format!(
                    "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {}",
                    resting.namespace
                ),
            ));
        }
        resting
            .cursor
            .take()
            .ok_or_else(|| Failure::new(Code::CursorInUse, format!("cursor id {id} is already in use")))
    }

    /// Puts a cursor back after a batch, or closes it if it was killed meanwhile.
    pub(crate) fn put_back(&self, id: i64, cursor: Box<QueryCursor>) {
        let mut cursors = self.cursors.lock();
        if let Some(resting) = cursors.get_mut(&id) {
            if resting.killed {
                cursors.remove(&id);
            } else {
                resting.cursor = Some(cursor);
                resting.since = Instant::now();
            }
        }
    }

    /// Removes a cursor; false if there is none.
    pub(crate) fn kill(&self, id: i64) -> bool {
        let mut cursors = self.cursors.lock();
        match cursors.get_mut(&id) {
            None => false,
            Some(resting) if resting.cursor.is_none() && !resting.killed => {
                resting.killed = true;
                true
            }
            Some(_) => cursors.remove(&id).is_some(),
        }
    }

    /// The command that opened a cursor, if no operation is using it.
    pub(crate) fn originating(&self, id: i64) -> Option<RawDocumentBuf> {
        let cursors = self.cursors.lock();
        cursors.get(&id)?.cursor.as_ref().map(|cursor| cursor.originating.clone())
    }

    /// Kills all cursors that `killed` selects and that no operation is using. The operations that use the other cursors are
    /// interrupted separately.
    pub(crate) fn kill_where(&self, killed: &dyn Fn(&QueryCursor) -> bool) {
        self.cursors.lock().retain(|_, resting| resting.cursor.as_ref().is_none_or(|cursor| !killed(cursor)));
    }

    /// The users who opened a cursor.
    pub(crate) fn owners(&self, id: i64) -> Option<Vec<(String, String)>> {
        self.cursors.lock().get(&id).map(|resting| resting.owners.clone())
    }

    /// Removes a cursor that has reached its end.
    pub(crate) fn remove(&self, id: i64) {
        self.cursors.lock().remove(&id);
    }

    /// Closes all cursors: the engine is about to close, and a pipeline holds a session of it.
    pub(crate) fn clear(&self) {
        self.cursors.lock().clear();
    }

    /// Closes cursors that have been unused for `timeout`.
    pub(crate) fn expire(&self, timeout: Duration) {
        let mut cursors = self.cursors.lock();
        let before = cursors.len();
        cursors.retain(|_, resting| {
            resting
                .cursor
                .as_ref()
                .is_none_or(|cursor| cursor.no_timeout || resting.since.elapsed() < timeout)
        });
        self.timed_out.fetch_add((before - cursors.len()) as u64, std::sync::atomic::Ordering::Relaxed);
    }

    /// The number of cursors currently in use.
    pub(crate) fn in_use(&self) -> usize {
        self.cursors.lock().values().filter(|resting| resting.cursor.is_none()).count()
    }

    /// The numbers of open cursors, of those without a timeout, and of those timed out so far.
    pub(crate) fn counts(&self) -> (usize, usize, u64) {
        let cursors = self.cursors.lock();
        let pinned = cursors
            .values()
            .filter(|resting| resting.cursor.as_ref().is_some_and(|cursor| cursor.no_timeout))
            .count();
        (cursors.len(), pinned, self.timed_out.load(std::sync::atomic::Ordering::Relaxed))
    }
}
