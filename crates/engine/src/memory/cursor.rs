//! Cursors of the engine in memory: a place by key, and a few rows fetched ahead.
//!
//! No lock is held between calls. Within a transaction nobody else changes what is seen, so rows may be fetched ahead
//! until the session itself writes; outside one every move looks anew.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use super::session::MemorySession;
use super::store::{Row, Store, Way};
use crate::{Cursor, Error, Key, KeyKind, Result, Session};

/// How many rows are fetched ahead at most. They double from one, so that a short look costs little.
const LONGEST_BATCH: usize = 32;

/// A cursor of the engine in memory.
pub(super) struct MemoryCursor<'s> {
    session: &'s MemorySession,
    store: Arc<Store>,
    here: Option<Row>,
    ahead: VecDeque<Row>,
    way: Way,
    batch: usize,
    /// The session's epoch when `ahead` was fetched.
    epoch: u64,
}

impl<'s> MemoryCursor<'s> {
    pub(super) fn new(session: &'s MemorySession, store: Arc<Store>) -> Self {
        let epoch = session.epoch();
        MemoryCursor {
            session,
            store,
            here: None,
            ahead: VecDeque::new(),
            way: Way::Forward,
            batch: 1,
            epoch,
        }
    }

    /// Goes to the first row within the bounds, seen walking `way`.
    fn place(&mut self, bounds: (Bound<&[u8]>, Bound<&[u8]>), way: Way) -> Result<bool> {
        (self.here, self.way, self.batch) = (None, way, 1);
        self.fetch(bounds)
    }

    fn fetch(&mut self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<bool> {
        self.ahead.clear();
        let view = self.session.view()?;
        self.epoch = self.session.epoch();
        self.store.fetch(&view, bounds, self.way, self.batch, &mut self.ahead);
        self.here = self.ahead.pop_front();
        Ok(self.here.is_some())
    }

    fn step(&mut self, way: Way) -> Result<bool> {
        let Some(here) = self.here.take() else {
            return Err(Error::usage("the cursor is not on a key, so there is no next one"));
        };
        let continues =
            self.way == way && self.epoch == self.session.epoch() && self.session.in_transaction();
        if continues && let Some(row) = self.ahead.pop_front() {
            self.session.check()?;
            self.here = Some(row);
            return Ok(true);
        }
        self.batch = if continues { (self.batch * 2).min(LONGEST_BATCH) } else { 1 };
        self.way = way;
        match way {
            Way::Forward => self.fetch((Bound::Excluded(&here.key), Bound::Unbounded)),
            Way::Back => self.fetch((Bound::Unbounded, Bound::Excluded(&here.key))),
        }
    }
}

impl Cursor for MemoryCursor<'_> {
    fn first(&mut self) -> Result<bool> {
        self.place((Bound::Unbounded, Bound::Unbounded), Way::Forward)
    }

    fn last(&mut self) -> Result<bool> {
        self.place((Bound::Unbounded, Bound::Unbounded), Way::Back)
    }

    fn seek(&mut self, key: Key<'_>) -> Result<bool> {
        let mut room = [0; 8];
        let store = Arc::clone(&self.store);
        let key = store.encode(key, &mut room)?;
        self.place((Bound::Included(key), Bound::Unbounded), Way::Forward)
    }

    fn seek_back(&mut self, key: Key<'_>) -> Result<bool> {
        let mut room = [0; 8];
        let store = Arc::clone(&self.store);
        let key = store.encode(key, &mut room)?;
        self.place((Bound::Unbounded, Bound::Included(key)), Way::Back)
    }

    fn next(&mut self) -> Result<bool> {
        self.step(Way::Forward)
    }

    fn previous(&mut self) -> Result<bool> {
        self.step(Way::Back)
    }

    /// Nowhere, it is a key that says nothing; callers must be on one.
    fn key(&self) -> Key<'_> {
        match (&self.here, self.store.keys()) {
            (Some(row), _) => self.store.decode(&row.key),
            (None, KeyKind::Number) => Key::Number(0),
            (None, KeyKind::Bytes) => Key::Bytes(&[]),
        }
    }

    fn value(&self) -> &[u8] {
        self.here.as_ref().map_or(&[], |row| &row.value)
    }
}
