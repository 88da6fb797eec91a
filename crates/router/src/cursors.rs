//! Cursors that clients keep between batches: the router's own ids, behind which are cursors of one shard or of several.
//!
//! A cursor belongs to whoever uses it at the moment. One that nobody asked for in ten minutes goes, with those on the shards.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::RawDocumentBuf;
use fathom_query::Rows;
use fathom_wire::{ArrayWriter, Code, Failure};
use parking_lot::Mutex;

use crate::Result;
use crate::backend::Backend;
use crate::merge::Merge;

/// After how long an idle cursor goes (`cursorTimeoutMillis`).
const TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Bytes of documents that one reply holds at most.
const BATCH_BYTES: usize = 16 << 20;

/// Where a cursor's documents come from.
pub(crate) enum Source {
    /// A cursor of one shard, whose batches are handed on as they come.
    Single { backend: Arc<Backend>, id: i64, database: String, collection: String },
    /// Cursors of several shards.
    Merge(Box<Merge>),
    /// A pipeline that runs here; a document that did not fit into the last batch.
    Rows(Rows, Option<RawDocumentBuf>),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Source::Single { .. } => "Single",
            Source::Merge(_) => "Merge",
            Source::Rows(..) => "Rows",
        })
    }
}

impl Source {
    /// Writes the next batch of a source that is not a shard's own; true when nothing is left.
    pub(crate) fn fill(&mut self, array: &mut ArrayWriter<'_>, most: u64) -> Result<bool> {
        let mut left = most;
        while left > 0 {
            let next = match self {
                Source::Single { .. } => return Ok(false),
                Source::Merge(merge) => merge.next()?,
                Source::Rows(rows, kept) => match kept.take() {
                    Some(kept) => Some(kept),
                    None => rows.next().transpose()?,
                },
            };
            let Some(document) = next else { return Ok(true) };
            if array.count() > 0 && array.length_bytes() + document.as_bytes().len() > BATCH_BYTES {
                match self {
                    Source::Merge(merge) => merge.put_back(document),
                    Source::Rows(_, kept) => *kept = Some(document),
                    Source::Single { .. } => {}
                }
                return Ok(false);
            }
            array.document(&document);
            left -= 1;
        }
        Ok(match self {
            Source::Merge(merge) => merge.is_done(),
            _ => false,
        })
    }

    /// Whether documents come from one shard alone, for `metrics.cursor.open`.
    fn is_single(&self) -> bool {
        matches!(self, Source::Single { .. })
    }

    /// Ends the shards' cursors.
    pub(crate) fn close(self) {
        match self {
            Source::Single { backend, id, database, collection } => {
                crate::merge::kill(&backend, &database, &collection, id);
            }
            Source::Merge(merge) => merge.close(),
            // What the rows come from closes itself when it is dropped.
            Source::Rows(..) => {}
        }
    }
}

/// A cursor.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) namespace: String,
    pub(crate) source: Source,
    pub(crate) no_timeout: bool,
}

#[derive(Debug)]
struct Place {
    namespace: String,
    single: bool,
    /// None while somebody uses it.
    cursor: Option<Cursor>,
    used: Instant,
    /// Somebody asked for its end while it was in use.
    killed: bool,
}

/// All cursors.
#[derive(Debug, Default)]
pub(crate) struct CursorTable {
    places: Mutex<HashMap<i64, Place>>,
}

impl CursorTable {
    /// Keeps a cursor; its id.
    pub(crate) fn add(&self, cursor: Cursor) -> i64 {
        let mut places = self.places.lock();
        loop {
            // A positive number, so that no driver takes it for something else.
            let id = (fathom_service::random::number() >> 1).cast_signed();
            if id == 0 || places.contains_key(&id) {
                continue;
            }
            let (namespace, single) = (cursor.namespace.clone(), cursor.source.is_single());
            let place =
                Place { namespace, single, cursor: Some(cursor), used: Instant::now(), killed: false };
            places.insert(id, place);
            return id;
        }
    }

    /// Takes a cursor out to use it.
    pub(crate) fn take(&self, id: i64, namespace: &str) -> Result<Cursor> {
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

    /// Gives a cursor back, to be used again; one that somebody killed meanwhile is closed.
    pub(crate) fn give_back(&self, id: i64, cursor: Cursor) {
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

    /// Ends a cursor; whether there was one.
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

    /// Ends what nobody used for long; how many there were.
    pub(crate) fn reap(&self) -> usize {
        let mut old = Vec::new();
        self.places.lock().retain(|_, place| {
            let idle = place.used.elapsed() >= TIMEOUT;
            match place.cursor.take() {
                Some(cursor) if idle && !cursor.no_timeout => {
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

    /// How many cursors are on one shard, on several, and in use.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let places = self.places.lock();
        let single = places.values().filter(|place| place.single).count();
        let pinned = places.values().filter(|place| place.cursor.is_none()).count();
        (single, places.len() - single, pinned)
    }
}
