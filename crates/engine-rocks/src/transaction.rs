//! A transaction: the view that it reads, its changes, and the batch that it writes.
//!
//! Writes wait in an ordered map, so that each key reaches the log once, with its last value, and so that cursors can
//! walk over them. RocksDB's own batch with an index would do the same with two more copies of each value.

use std::collections::BTreeMap;
use std::sync::Arc;

use fathom_engine::{Error, KeyKind, Kind, Result};

use crate::conflicts::Claim;
use crate::native::WriteBatch;
use crate::store::{Store, TransactionView, cannot_read};

/// The changes of a transaction by whole key.
pub(crate) type Changes = BTreeMap<Vec<u8>, KeyChange>;

/// The change of a key.
#[derive(Debug)]
pub(crate) struct KeyChange {
    /// The new value; `None` removes the key.
    pub(crate) value: Option<Vec<u8>>,
    /// Whether the key exists in the transaction's view; `None` if that was not read.
    before: Option<bool>,
    /// Whether it is removed by `SingleDelete`.
    single: bool,
}

pub(crate) struct Transaction {
    view: Arc<TransactionView>,
    changes: Changes,
    claimed: Vec<u64>,
}

/// A key to be written, and the kind of its table.
#[derive(Clone, Copy)]
pub(crate) struct KeyTarget<'a> {
    pub(crate) key: &'a [u8],
    /// The kind of the table's keys.
    pub(crate) kind: KeyKind,
}

impl Transaction {
    /// A transaction on the current committed state.
    pub(crate) fn new(store: &Store) -> Self {
        Transaction { view: store.snapshots.view(), changes: Changes::new(), claimed: Vec::new() }
    }

    /// Its changes so far.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The state that it reads, without its changes.
    pub(crate) fn view(&self) -> &TransactionView {
        &self.view
    }

    /// Appends the value of a key to `out`; false if there is none.
    pub(crate) fn get(&self, store: &Store, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        if !self.changes.is_empty()
            && let Some(change) = self.changes.get(key)
        {
            return Ok(change.value.as_ref().inspect(|value| out.extend_from_slice(value)).is_some());
        }
        self.read(store, key, |value| out.extend_from_slice(value)).map(|found| found.is_some())
    }

    /// Writes a key, whether it exists or not.
    pub(crate) fn put(
        &mut self,
        store: &Store,
        owner: u64,
        target: KeyTarget<'_>,
        value: &[u8],
    ) -> Result<()> {
        self.claim(store, owner, target.key)?;
        if let Some(change) = self.changes.get_mut(target.key) {
            change.value = Some(value.to_vec());
            return Ok(());
        }
        let single = single(store, target.kind);
        // A key to be removed singly must not be put twice: a put over it first removes it.
        let before = if single { Some(self.is_there(store, target.key)?) } else { None };
        self.changes.insert(target.key.to_vec(), KeyChange { value: Some(value.to_vec()), before, single });
        Ok(())
    }

    /// Writes a key that must not exist yet.
    pub(crate) fn insert(
        &mut self,
        store: &Store,
        owner: u64,
        target: KeyTarget<'_>,
        value: &[u8],
    ) -> Result<()> {
        let claim = self.claim(store, owner, target.key)?;
        if let Some(change) = self.changes.get_mut(target.key) {
            if change.value.is_some() {
                return Err(duplicate());
            }
            change.value = Some(value.to_vec());
            return Ok(());
        }
        if self.is_there(store, target.key)? {
            self.unclaim(store, owner, claim);
            return Err(duplicate());
        }
        let single = single(store, target.kind);
        let change = KeyChange { value: Some(value.to_vec()), before: Some(false), single };
        self.changes.insert(target.key.to_vec(), change);
        Ok(())
    }

    /// Removes a key; false if there was none.
    pub(crate) fn remove(&mut self, store: &Store, owner: u64, target: KeyTarget<'_>) -> Result<bool> {
        let claim = self.claim(store, owner, target.key)?;
        if let Some(change) = self.changes.get_mut(target.key) {
            return Ok(change.value.take().is_some());
        }
        if !self.is_there(store, target.key)? {
            self.unclaim(store, owner, claim);
            return Ok(false);
        }
        let single = single(store, target.kind);
        self.changes.insert(target.key.to_vec(), KeyChange { value: None, before: Some(true), single });
        Ok(true)
    }

    /// Puts the changes into `batch`, in the order of their keys.
    pub(crate) fn fill(&self, batch: &mut WriteBatch) {
        batch.clear();
        for (key, change) in &self.changes {
            let was_there = change.before.unwrap_or(true);
            match &change.value {
                Some(value) => {
                    if change.single && was_there {
                        batch.delete_single(key);
                    }
                    batch.put(key, value);
                }
                None if !was_there => {}
                None if change.single => batch.delete_single(key),
                None => batch.delete(key),
            }
        }
    }

    /// Ends it after its batch was written: from now on others may write its keys.
    pub(crate) fn committed(self, store: &Store, owner: u64) {
        let tick = store.snapshots.tick();
        let Transaction { view, claimed, .. } = self;
        // Our own view is older than our commit: it is dropped first, so that nothing is remembered for it.
        drop(view);
        store.conflicts.commit(&claimed, owner, tick, store.snapshots.oldest());
    }

    /// Ends the transaction without writing.
    pub(crate) fn abandon(self, store: &Store, owner: u64) {
        if !self.claimed.is_empty() {
            let Transaction { view, claimed, .. } = self;
            drop(view);
            store.conflicts.release(&claimed, owner, store.snapshots.oldest());
        }
    }

    fn read<T>(&self, store: &Store, key: &[u8], take: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        store.database.get(self.view.snapshot().options(), key, take).map_err(cannot_read)
    }

    fn is_there(&self, store: &Store, key: &[u8]) -> Result<bool> {
        self.read(store, key, |_| ()).map(|found| found.is_some())
    }

    fn claim(&mut self, store: &Store, owner: u64, key: &[u8]) -> Result<Claim> {
        let hash = store.conflicts.hash(key);
        let claim = store.conflicts.claim(hash, owner, self.view.tick(), store.snapshots.oldest());
        match claim {
            Claim::New => self.claimed.push(hash),
            Claim::Held => {}
            Claim::Conflict => {
                store.counts.conflicts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let what = "another transaction has written the same key";
                return Err(Error::new(Kind::WriteConflict, what).advise("roll back and try again"));
            }
        }
        Ok(claim)
    }

    /// Releases the key that was claimed last, if it was claimed for this call.
    fn unclaim(&mut self, store: &Store, owner: u64, claim: Claim) {
        if claim == Claim::New
            && let Some(hash) = self.claimed.pop()
        {
            store.conflicts.release(&[hash], owner, store.snapshots.oldest());
        }
    }
}

fn single(store: &Store, kind: KeyKind) -> bool {
    store.single_delete_index && kind == KeyKind::Bytes
}

fn duplicate() -> Error {
    Error::new(Kind::Duplicate, "the key already exists")
}
