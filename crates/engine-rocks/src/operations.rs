//! The operations of a session: transactions, point reads and writes, and cursors, which merge RocksDB's iterator
//! with the changes of the open transaction.
//!
//! The changes are read again with each step, so a cursor sees what its own session has written since it was
//! placed. While a transaction has changed nothing, which is the common case, keys and values are RocksDB's own bytes.

use std::ops::Bound;

use fathom_engine::{Cursor, Durability, Error, Key, KeyKind, Result, Session, Table};

use crate::keys::{self, Prefix};
use crate::native::{RangeScan, ReadOptions, WriteBatch};
use crate::session::RocksSession;
use crate::store::cannot_read;
use crate::transaction::{Changes, KeyTarget, Transaction};

impl Session for RocksSession {
    fn begin(&self) -> Result<()> {
        self.store.check()?;
        if self.in_transaction() {
            return Err(Error::usage("a transaction is open already"));
        }
        self.next_epoch();
        self.transaction.replace(Some(Transaction::new(&self.store)));
        Ok(())
    }

    fn in_transaction(&self) -> bool {
        self.transaction.borrow().is_some()
    }

    fn commit(&self, durability: Durability) -> Result<()> {
        self.next_epoch();
        self.finish(durability)
    }

    fn rollback(&self) {
        if self.in_transaction() {
            self.next_epoch();
            self.give_up();
        }
    }

    fn get(&self, table: &Table, key: Key<'_>, out: &mut Vec<u8>) -> Result<bool> {
        self.with_key(table, key, |whole| match self.transaction.borrow().as_ref() {
            Some(transaction) => transaction.get(&self.store, whole, out),
            None => {
                let found =
                    self.store.database.get(&self.newest, whole, |value| out.extend_from_slice(value));
                found.map(|found| found.is_some()).map_err(cannot_read)
            }
        })
    }

    fn insert(&self, table: &Table, key: Key<'_>, value: &[u8]) -> Result<()> {
        self.write(table, key, |transaction, store, target| {
            transaction.insert(store, self.owner, target, value)
        })
    }

    fn put(&self, table: &Table, key: Key<'_>, value: &[u8]) -> Result<()> {
        self.write(table, key, |transaction, store, target| transaction.put(store, self.owner, target, value))
    }

    fn remove(&self, table: &Table, key: Key<'_>) -> Result<bool> {
        self.write(table, key, |transaction, store, target| transaction.remove(store, self.owner, target))
    }

    /// Removes key by key, in the transaction: RocksDB's range deletions cannot be seen by the transaction's own cursors,
    /// and would not notice that another transaction has written one of the keys.
    fn truncate(&self, table: &Table, from: Option<Key<'_>>, to: Option<Key<'_>>) -> Result<()> {
        let mut end = Vec::new();
        if let Some(to) = to {
            keys::encode(&mut end, table, to)?;
        }
        self.store.check()?;
        self.alone_or_within(|| {
            let mut cursor = RocksCursor::new(self, table)?;
            let mut found = match from {
                Some(from) => cursor.seek(from)?,
                None => cursor.first()?,
            };
            let mut key = Vec::new();
            while found {
                key.clear();
                key.extend_from_slice(cursor.whole_key());
                if to.is_some() && key > end {
                    break;
                }
                let target = KeyTarget { key: &key, kind: table.keys() };
                self.change(|transaction| transaction.remove(&self.store, self.owner, target))?;
                found = cursor.next()?;
            }
            Ok(())
        })
    }

    fn cursor<'s>(&'s self, table: &Table) -> Result<Box<dyn Cursor + 's>> {
        self.store.check()?;
        Ok(Box::new(RocksCursor::new(self, table)?))
    }

    /// Frees memory. A session keeps nothing of a table between operations.
    fn release(&self, _table: Option<&Table>) {
        self.key.take();
        if !self.in_transaction() {
            self.batch.replace(WriteBatch::new());
        }
    }
}

/// A cursor of the RocksDB engine.
pub(crate) struct RocksCursor<'s> {
    session: &'s RocksSession,
    table: Table,
    bounds: [Prefix; 2],
    scan: Option<RangeScan>,
    /// The state that the scan reads: the session's epoch, and outside a transaction the newest write at that time.
    state: (u64, u64),
    place: CursorPosition,
    /// The changed key and value under the cursor.
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Where the cursor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CursorPosition {
    /// Positioned on no key.
    Nowhere,
    /// On the key that the scan is on.
    Stored,
    /// On the changed key in `key`. The scan is ahead of it, in the direction in which the cursor moved.
    Changed(CursorDirection),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CursorDirection {
    Forward,
    Back,
}

impl<'s> RocksCursor<'s> {
    /// A cursor that is not on any key yet.
    pub(crate) fn new(session: &'s RocksSession, table: &Table) -> Result<Self> {
        Ok(RocksCursor {
            session,
            bounds: keys::bounds(keys::prefix_of(table)?),
            table: table.clone(),
            scan: None,
            state: (0, 0),
            place: CursorPosition::Nowhere,
            key: Vec::new(),
            value: Vec::new(),
        })
    }

    /// The whole key under the cursor, empty if it has no position.
    pub(crate) fn whole_key(&self) -> &[u8] {
        match self.place {
            CursorPosition::Nowhere => &[],
            CursorPosition::Stored => self.scan.as_ref().and_then(RangeScan::key).unwrap_or_default(),
            CursorPosition::Changed(_) => &self.key,
        }
    }

    /// Moves to the first key in direction `way`, starting at `from` inclusive, or at the table's end if it is not given.
    fn place(&mut self, way: CursorDirection, from: Option<Key<'_>>) -> Result<bool> {
        self.place = CursorPosition::Nowhere;
        self.session.store.check()?;
        let mut target = std::mem::take(&mut self.key);
        match from {
            Some(key) => keys::encode(&mut target, &self.table, key)?,
            None => target.clear(),
        }
        self.renew();
        let open = self.session.open();
        let Some(scan) = self.scan.as_mut() else { return Ok(false) };
        let stored = match (way, from) {
            (CursorDirection::Forward, None) => scan.first(),
            (CursorDirection::Back, None) => scan.last(),
            (CursorDirection::Forward, Some(_)) => scan.seek(&target),
            (CursorDirection::Back, Some(_)) => scan.seek_back(&target),
        };
        let stored = stored.map_err(cannot_read)?;
        let changes =
            open.as_ref().map(|transaction| transaction.changes()).filter(|changes| !changes.is_empty());
        let Some(changes) = changes else {
            self.key = target;
            self.place = if stored { CursorPosition::Stored } else { CursorPosition::Nowhere };
            return Ok(stored);
        };
        let [start, end] = &self.bounds;
        let start: Bound<&[u8]> = match (way, from) {
            (_, Some(_)) => Bound::Included(&target),
            (CursorDirection::Forward, None) => Bound::Included(start),
            (CursorDirection::Back, None) => Bound::Excluded(end),
        };
        let changed = next_change(changes, way, start, &self.bounds);
        self.place = settle(scan, changes, way, changed, &self.bounds, &mut self.key, &mut self.value)?;
        Ok(self.place != CursorPosition::Nowhere)
    }

    /// Moves one key in direction `way`.
    fn step(&mut self, way: CursorDirection) -> Result<bool> {
        self.session.store.check()?;
        if self.place == CursorPosition::Nowhere {
            return Err(Error::usage("the cursor is on no key"));
        }
        if self.state.0 != self.session.epoch() {
            self.place = CursorPosition::Nowhere;
            return Err(Error::usage("the cursor was placed in a transaction that has ended"));
        }
        let place = std::mem::replace(&mut self.place, CursorPosition::Nowhere);
        let open = self.session.open();
        let changes =
            open.as_ref().map(|transaction| transaction.changes()).filter(|changes| !changes.is_empty());
        let Some(scan) = self.scan.as_mut() else { return Ok(false) };
        if place == CursorPosition::Stored {
            if changes.is_some() {
                self.key.clear();
                self.key.extend_from_slice(scan.key().unwrap_or_default());
            }
            let stored = go(scan, way)?;
            if changes.is_none() {
                self.place = if stored { CursorPosition::Stored } else { CursorPosition::Nowhere };
                return Ok(stored);
            }
        } else {
            if place != CursorPosition::Changed(way) {
                // The direction changed: the scan is on the other side.
                let found = match way {
                    CursorDirection::Forward => scan.seek(&self.key),
                    CursorDirection::Back => scan.seek_back(&self.key),
                };
                found.map_err(cannot_read)?;
            }
            if scan.key() == Some(self.key.as_slice()) {
                go(scan, way)?;
            }
        }
        let none = Changes::new();
        let changes = changes.unwrap_or(&none);
        let changed = next_change(changes, way, Bound::Excluded(&self.key), &self.bounds);
        self.place = settle(scan, changes, way, changed, &self.bounds, &mut self.key, &mut self.value)?;
        Ok(self.place != CursorPosition::Nowhere)
    }

    /// Makes the scan read the right state: the transaction's, or the newest.
    fn renew(&mut self) {
        let store = &self.session.store;
        let open = self.session.open();
        let newest = if open.is_some() { 0 } else { store.database.sequence() };
        let state = (self.session.epoch(), newest);
        if self.scan.is_none() || self.state != state {
            let snapshot = open.as_ref().map(|transaction| transaction.view().snapshot());
            self.scan = Some(RangeScan::new(&store.database, ReadOptions::new(), snapshot, self.bounds));
            self.state = state;
        }
    }
}

type ChangeEntry<'c> = (&'c Vec<u8>, &'c Option<Vec<u8>>);

/// The first change of the table in direction `way`, starting at `from`.
fn next_change<'c>(
    changes: &'c Changes,
    way: CursorDirection,
    from: Bound<&[u8]>,
    bounds: &[Prefix; 2],
) -> Option<ChangeEntry<'c>> {
    let [start, end] = bounds;
    let (key, change) = match way {
        CursorDirection::Forward => changes.range::<[u8], _>((from, Bound::Unbounded)).next(),
        CursorDirection::Back => changes.range::<[u8], _>((Bound::Unbounded, from)).next_back(),
    }?;
    (key.as_slice() >= start.as_slice() && key.as_slice() < end.as_slice()).then_some((key, &change.value))
}

/// The new position, from a scan and a change that are both at it or beyond it: the nearer of the two. A change hides the
/// stored key, and a removal is skipped.
fn settle<'c>(
    scan: &mut RangeScan,
    changes: &'c Changes,
    way: CursorDirection,
    mut changed: Option<ChangeEntry<'c>>,
    bounds: &[Prefix; 2],
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<CursorPosition> {
    while let Some((changed_key, changed_value)) = changed {
        let order = scan.key().map(|stored| match way {
            CursorDirection::Forward => stored.cmp(changed_key.as_slice()),
            CursorDirection::Back => changed_key.as_slice().cmp(stored),
        });
        match (order, changed_value) {
            (Some(std::cmp::Ordering::Less), _) => return Ok(CursorPosition::Stored),
            (_, Some(bytes)) => {
                key.clone_from(changed_key);
                value.clone_from(bytes);
                return Ok(CursorPosition::Changed(way));
            }
            (order, None) => {
                if order == Some(std::cmp::Ordering::Equal) {
                    go(scan, way)?;
                }
                changed = next_change(changes, way, Bound::Excluded(changed_key.as_slice()), bounds);
            }
        }
    }
    Ok(if scan.key().is_some() { CursorPosition::Stored } else { CursorPosition::Nowhere })
}

fn go(scan: &mut RangeScan, way: CursorDirection) -> Result<bool> {
    match way {
        CursorDirection::Forward => scan.next(),
        CursorDirection::Back => scan.previous(),
    }
    .map_err(cannot_read)
}

impl Cursor for RocksCursor<'_> {
    fn first(&mut self) -> Result<bool> {
        self.place(CursorDirection::Forward, None)
    }

    fn last(&mut self) -> Result<bool> {
        self.place(CursorDirection::Back, None)
    }

    fn seek(&mut self, key: Key<'_>) -> Result<bool> {
        self.place(CursorDirection::Forward, Some(key))
    }

    fn seek_back(&mut self, key: Key<'_>) -> Result<bool> {
        self.place(CursorDirection::Back, Some(key))
    }

    fn next(&mut self) -> Result<bool> {
        self.step(CursorDirection::Forward)
    }

    fn previous(&mut self) -> Result<bool> {
        self.step(CursorDirection::Back)
    }

    fn key(&self) -> Key<'_> {
        let nowhere = match self.table.keys() {
            KeyKind::Number => Key::Number(0),
            KeyKind::Bytes => Key::Bytes(&[]),
        };
        keys::decode(self.table.keys(), self.whole_key()).unwrap_or(nowhere)
    }

    fn value(&self) -> &[u8] {
        match self.place {
            CursorPosition::Nowhere => &[],
            CursorPosition::Stored => self.scan.as_ref().and_then(RangeScan::value).unwrap_or_default(),
            CursorPosition::Changed(_) => &self.value,
        }
    }
}
