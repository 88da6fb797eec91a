//! Cursors that clients keep between batches: where their documents come from, and the table of those that are open.
//!
//! A cursor belongs to whoever uses it at the moment: `getMore` takes it out of the table and puts it back. One that nobody
//! asked for in `cursorTimeoutMillis` (10 minutes) goes, unless it was opened with `noCursorTimeout`. How a cursor fills its batches is in
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
pub(crate) use scan::{Fetch, FindQuery, FindState, Leg, RecordWalk, Scan, Tally};

/// Where a cursor's documents come from.
pub(crate) enum Producer {
    /// A query over a collection.
    Find(Box<FindState>, Arc<Collection>),
    /// A pipeline.
    Rows(Box<PipelineRows>),
    /// Documents that are there already (`listCollections`, `listIndexes`).
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

/// For whom a pipeline works at the moment, and what it has examined for them. A pipeline outlives the command that opened it: each
/// `getMore`, on whichever connection, attaches it to its own client and time limit, and detaches it after its batch.
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
    /// Rows from their beginning.
    pub(crate) fn new(rows: Rows, attachment: Arc<Attachment>) -> PipelineRows {
        PipelineRows { rows, attachment, waiting: None }
    }
}

/// A cursor that waits for its client.
#[derive(Debug)]
pub(crate) struct QueryCursor {
    pub(crate) namespace: String,
    pub(crate) producer: Producer,
    pub(crate) no_timeout: bool,
    /// Whether its batches may hold only what cannot be rolled back.
    pub(crate) majority: bool,
    /// Keeps open at its end, and waits there for new documents.
    pub(crate) tailable: bool,
    pub(crate) await_data: bool,
    /// The command that made it, for the log of its `getMore`s.
    pub(crate) originating: RawDocumentBuf,
    /// Who made it; nobody else may go on with it under `--auth`.
    pub(crate) users: Vec<(String, String)>,
    /// How long its batches may still take together, if the command that opened it said so.
    pub(crate) time_left: Option<Duration>,
}

#[derive(Debug)]
struct Resting {
    cursor: Option<Box<QueryCursor>>,
    namespace: String,
    /// Who made it.
    owners: Vec<(String, String)>,
    since: Instant,
    killed: bool,
}

/// All cursors that clients have open.
#[derive(Debug, Default)]
pub(crate) struct CursorTable {
    cursors: Mutex<HashMap<i64, Resting>>,
    timed_out: AtomicU64,
}

impl CursorTable {
    /// Keeps a new cursor; its id.
    pub(crate) fn add(&self, cursor: QueryCursor) -> i64 {
        let mut cursors = self.cursors.lock();
        loop {
            // Positive and beyond what a client would guess.
            #[expect(clippy::cast_possible_wrap, reason = "the top bit is shifted out")]
            let id = (crate::random::number() >> 1) as i64;
            if id != 0 && !cursors.contains_key(&id) {
                let namespace = cursor.namespace.clone();
                let owners = cursor.users.clone();
                cursors.insert(
                    id,
                    Resting {
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

    /// Takes a cursor out to go on with it.
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

    /// Puts a cursor back after a batch; it goes if it was killed meanwhile.
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

    /// The command that opened a cursor, if it rests.
    pub(crate) fn originating(&self, id: i64) -> Option<RawDocumentBuf> {
        let cursors = self.cursors.lock();
        cursors.get(&id)?.cursor.as_ref().map(|cursor| cursor.originating.clone())
    }

    /// Kills all cursors that `killed` picks and that nobody uses at the moment; the operations that use the others are
    /// interrupted by themselves.
    pub(crate) fn kill_where(&self, killed: &dyn Fn(&QueryCursor) -> bool) {
        self.cursors.lock().retain(|_, resting| resting.cursor.as_ref().is_none_or(|cursor| !killed(cursor)));
    }

    /// Who made a cursor.
    pub(crate) fn owners(&self, id: i64) -> Option<Vec<(String, String)>> {
        self.cursors.lock().get(&id).map(|resting| resting.owners.clone())
    }

    /// Forgets a cursor that is at its end.
    pub(crate) fn remove(&self, id: i64) {
        self.cursors.lock().remove(&id);
    }

    /// Closes all of them: the engine is about to close, and a pipeline holds a session of it.
    pub(crate) fn clear(&self) {
        self.cursors.lock().clear();
    }

    /// Removes what nobody asked for in `timeout`.
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

    /// How many are being gone on with at the moment.
    pub(crate) fn in_use(&self) -> usize {
        self.cursors.lock().values().filter(|resting| resting.cursor.is_none()).count()
    }

    /// How many are open, how many of them never time out, how many timed out so far.
    pub(crate) fn counts(&self) -> (usize, usize, u64) {
        let cursors = self.cursors.lock();
        let pinned = cursors
            .values()
            .filter(|resting| resting.cursor.as_ref().is_some_and(|cursor| cursor.no_timeout))
            .count();
        (cursors.len(), pinned, self.timed_out.load(std::sync::atomic::Ordering::Relaxed))
    }
}
