//! A transaction: what it reads, what it wants to write, and the batch that this becomes.
//!
//! Writes wait in an ordered map, so that each key reaches the log once, with its last value, and so that cursors can
//! walk over them. RocksDB's own batch with an index would do the same with two more copies of each value.

use std::collections::BTreeMap;
use std::sync::Arc;

use fathom_engine::{Error, KeyKind, Kind, Result};

use crate::conflicts::Claim;
use crate::native::Batch;
use crate::store::{Store, View, cannot_read};

/// The changes of a transaction by whole key.
pub(crate) type Changes = BTreeMap<Vec<u8>, Change>;

/// What is to become of a key.
#[derive(Debug)]
pub(crate) struct Change {
    /// The new value; none removes the key.
    pub(crate) value: Option<Vec<u8>>,
    /// Whether the key is there in the transaction's view; none if nobody has looked.
    before: Option<bool>,
    /// Whether it is removed by `SingleDelete`.
    single: bool,
}

/// An open transaction.
pub(crate) struct Transaction {
    view: Arc<View>,
    changes: Changes,
    claimed: Vec<u64>,
}

/// A key that is to be written, and what kind of table it is in.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The whole key.
    pub(crate) key: &'a [u8],
    /// What the table's keys are.
    pub(crate) kind: KeyKind,
}

impl Transaction {
    /// On what is committed now.
    pub(crate) fn new(store: &Store) -> Self {
        Transaction { view: store.snapshots.view(), changes: Changes::new(), claimed: Vec::new() }
    }

    /// What it has changed so far.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// What it reads, beside its changes.
    pub(crate) fn view(&self) -> &View {
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

    /// Writes a key, there or not.
    pub(crate) fn put(&mut self, store: &Store, owner: u64, target: Target<'_>, value: &[u8]) -> Result<()> {
        self.claim(store, owner, target.key)?;
        if let Some(change) = self.changes.get_mut(target.key) {
            change.value = Some(value.to_vec());
            return Ok(());
        }
        let single = single(store, target.kind);
        // A key to be removed singly must not be put twice: a put over it first removes it.
        let before = if single { Some(self.is_there(store, target.key)?) } else { None };
        self.changes.insert(target.key.to_vec(), Change { value: Some(value.to_vec()), before, single });
        Ok(())
    }

    /// Writes a key that must not be there.
    pub(crate) fn insert(
        &mut self,
        store: &Store,
        owner: u64,
        target: Target<'_>,
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
        let change = Change { value: Some(value.to_vec()), before: Some(false), single };
        self.changes.insert(target.key.to_vec(), change);
        Ok(())
    }

    /// Removes a key; false if there was none.
    pub(crate) fn remove(&mut self, store: &Store, owner: u64, target: Target<'_>) -> Result<bool> {
        let claim = self.claim(store, owner, target.key)?;
        if let Some(change) = self.changes.get_mut(target.key) {
            return Ok(change.value.take().is_some());
        }
        if !self.is_there(store, target.key)? {
            self.unclaim(store, owner, claim);
            return Ok(false);
        }
        let single = single(store, target.kind);
        self.changes.insert(target.key.to_vec(), Change { value: None, before: Some(true), single });
        Ok(true)
    }

    /// Puts the changes into `batch`, in the order of their keys.
    pub(crate) fn fill(&self, batch: &mut Batch) {
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
        // Our own view is older than our commit: it goes first, so that nothing is remembered for it.
        drop(view);
        store.conflicts.commit(&claimed, owner, tick, store.snapshots.oldest());
    }

    /// Ends it without having written.
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

    /// Gives the key back that was claimed last, if it was claimed for this call.
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
    Error::new(Kind::Duplicate, "the key is there already")
}
