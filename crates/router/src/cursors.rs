//! Cursors that clients keep between batches: each id of the router identifies cursors on one shard or on several.
//!
//! An operation takes a cursor out while it uses it. A cursor that is unused for ten minutes is closed, together with its cursors on the shards.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::RawDocumentBuf;
use fathom_query::Rows;
use fathom_wire::{ArrayWriter, Code, Failure};
use parking_lot::Mutex;

use crate::Result;
use crate::backend::Backend;
use crate::merge::ReplyMerge;

/// The time after which an idle cursor is closed (`cursorTimeoutMillis`).
const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The largest size of the documents in one reply, in bytes.
const MAX_BATCH_BYTES: usize = 16 << 20;

/// The source of a cursor's documents.
pub(crate) enum CursorSource {
    /// A cursor on one shard, whose batches are passed on unchanged.
    Single { backend: Arc<Backend>, id: i64, database: String, collection: String },
    /// Cursors of several shards.
    Merge(Box<ReplyMerge>),
    /// A pipeline that runs here, and a document that did not fit into the last batch.
    Rows(Rows, Option<RawDocumentBuf>),
}

impl std::fmt::Debug for CursorSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CursorSource::Single { .. } => "Single",
            CursorSource::Merge(_) => "Merge",
            CursorSource::Rows(..) => "Rows",
        })
    }
}

impl CursorSource {
    /// Writes the next batch of a source on several shards; returns true when the source is exhausted.
    pub(crate) fn fill(&mut self, array: &mut ArrayWriter<'_>, most: u64) -> Result<bool> {
        let mut left = most;
        while left > 0 {
            let next = match self {
                CursorSource::Single { .. } => return Ok(false),
                CursorSource::Merge(merge) => merge.next()?,
                CursorSource::Rows(rows, kept) => match kept.take() {
                    Some(kept) => Some(kept),
                    None => rows.next().transpose()?,
                },
            };
            let Some(document) = next else { return Ok(true) };
            if array.count() > 0 && array.length_bytes() + document.as_bytes().len() > MAX_BATCH_BYTES {
                match self {
                    CursorSource::Merge(merge) => merge.put_back(document),
                    CursorSource::Rows(_, kept) => *kept = Some(document),
                    CursorSource::Single { .. } => {}
                }
                return Ok(false);
            }
            array.document(&document);
            left -= 1;
        }
        Ok(match self {
            CursorSource::Merge(merge) => merge.is_done(),
            _ => false,
        })
    }

    /// Whether the documents come from a single shard, for `metrics.cursor.open`.
    fn is_single(&self) -> bool {
        matches!(self, CursorSource::Single { .. })
    }

    /// Closes the cursors on the shards.
    pub(crate) fn close(self) {
        match self {
            CursorSource::Single { backend, id, database, collection } => {
                crate::merge::kill(&backend, &database, &collection, id);
            }
            CursorSource::Merge(merge) => merge.close(),
            // The source of the rows closes itself when it is dropped.
            CursorSource::Rows(..) => {}
        }
    }
}

/// The options of the command that opened a cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CursorOptions {
    /// Whether the cursor lives until it is closed.
    pub(crate) no_timeout: bool,
    /// Whether its batches wait for new documents (`tailable` with `awaitData`).
    pub(crate) awaits_data: bool,
}

#[derive(Debug)]
pub(crate) struct RouterCursor {
    pub(crate) namespace: String,
    pub(crate) source: CursorSource,
    pub(crate) options: CursorOptions,
}

#[derive(Debug)]
struct CursorSlot {
    namespace: String,
    single: bool,
    /// `None` while an operation uses it.
    cursor: Option<RouterCursor>,
    used: Instant,
    /// Set if the cursor was killed while it was in use.
    killed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct CursorTable {
    places: Mutex<HashMap<i64, CursorSlot>>,
}

impl CursorTable {
    /// Stores a cursor and returns its id.
    pub(crate) fn add(&self, cursor: RouterCursor) -> i64 {
        let mut places = self.places.lock();
        loop {
            // Ids are positive, so that no driver misreads one.
            let id = (fathom_service::random::number() >> 1).cast_signed();
            if id == 0 || places.contains_key(&id) {
                continue;
            }
            let (namespace, single) = (cursor.namespace.clone(), cursor.source.is_single());
            let place =
                CursorSlot { namespace, single, cursor: Some(cursor), used: Instant::now(), killed: false };
            places.insert(id, place);
            return id;
        }
    }

    /// Takes a cursor out to use it.
    pub(crate) fn take(&self, id: i64, namespace: &str) -> Result<RouterCursor> {
        let mut places = self.places.lock();
        let unknown = || Failure::new(Code::CursorNotFound, format!("cursor id {id} not found"));
        let place = places.get_mut(&id).ok_or_else(unknown)?;
        if place.namespace != namespace {
            let what = format!(
                "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {}",
                place.namespace
            );
            return Err(Failure::new(Code::Unauthorized, what));
        }
        place
            .cursor
            .take()
            .ok_or_else(|| Failure::new(Code::CursorInUse, format!("cursor id {id} is already in use")))
    }

    /// Returns a cursor for further use, or closes it if it was killed in the meantime.
    pub(crate) fn give_back(&self, id: i64, cursor: RouterCursor) {
        let mut places = self.places.lock();
        match places.get_mut(&id) {
            Some(place) if !place.killed => {
                place.used = Instant::now();
                place.cursor = Some(cursor);
            }
            _ => {
                places.remove(&id);
                drop(places);
                cursor.source.close();
            }
        }
    }

    /// Forgets a cursor that is used up.
    pub(crate) fn remove(&self, id: i64) {
        self.places.lock().remove(&id);
    }

    /// Closes a cursor; returns whether it existed.
    pub(crate) fn kill(&self, id: i64, namespace: &str) -> bool {
        let mut places = self.places.lock();
        let Some(place) = places.get_mut(&id).filter(|place| place.namespace == namespace) else {
            return false;
        };
        match place.cursor.take() {
            None => place.killed = true,
            Some(cursor) => {
                places.remove(&id);
                drop(places);
                cursor.source.close();
            }
        }
        true
    }

    /// Closes cursors that were unused for too long. Returns how many.
    pub(crate) fn reap(&self) -> usize {
        let mut old = Vec::new();
        self.places.lock().retain(|_, place| {
            let idle = place.used.elapsed() >= IDLE_TIMEOUT;
            match place.cursor.take() {
                Some(cursor) if idle && !cursor.options.no_timeout => {
                    old.push(cursor);
                    false
                }
                cursor => {
                    place.cursor = cursor;
                    true
                }
            }
        });
        let count = old.len();
        old.into_iter().for_each(|cursor| cursor.source.close());
        count
    }

    /// The numbers of cursors on one shard, on several shards, and in use.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let places = self.places.lock();
        let single = places.values().filter(|place| place.single).count();
        let pinned = places.values().filter(|place| place.cursor.is_none()).count();
        (single, places.len() - single, pinned)
    }
}
