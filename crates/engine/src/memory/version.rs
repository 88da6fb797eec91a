//! The versions of one key: which transaction sees which version, and which may write the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A value, shared with the cursors that are on it.
pub(super) type SharedValue = Arc<[u8]>;

/// When a transaction committed, shared by all that it wrote, so that one store makes all of it visible.
#[derive(Clone, Debug, Default)]
pub(super) struct CommitStamp(Arc<AtomicU64>);

impl CommitStamp {
    /// Marks everything under the stamp as committed at `time`, which is not zero.
    pub(super) fn commit(&self, time: u64) {
        self.0.store(time, Ordering::Release);
    }

    /// The time of the commit; `None` while the transaction is open.
    pub(super) fn time(&self) -> Option<u64> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            time => Some(time),
        }
    }

    fn is(&self, other: &CommitStamp) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The point of view from which versions are read: a snapshot and the reader's own writes.
#[derive(Clone, Debug)]
pub(super) struct ReadView {
    /// The time of the newest commit that is seen; `u64::MAX` outside a transaction.
    pub(super) snapshot: u64,
    /// The reader's own writes, if it has any.
    pub(super) own: Option<CommitStamp>,
}

impl ReadView {
    /// The newest committed state.
    pub(super) fn newest() -> Self {
        ReadView { snapshot: u64::MAX, own: None }
    }

    fn owns(&self, stamp: &CommitStamp) -> bool {
        self.own.as_ref().is_some_and(|own| own.is(stamp))
    }

    fn sees(&self, version: &RowVersion) -> bool {
        self.owns(&version.stamp) || version.stamp.time().is_some_and(|time| time <= self.snapshot)
    }
}

/// The change of one transaction to a key: a value, or its removal.
#[derive(Clone, Debug)]
pub(super) struct RowVersion {
    pub(super) stamp: CommitStamp,
    pub(super) value: Option<SharedValue>,
}

/// The state of the chain before a write.
#[derive(Debug)]
pub(super) enum ChainState {
    /// Another transaction has written the key since the writer's snapshot.
    Conflict,
    /// The writer's own version of the same transaction.
    Own,
    /// A version that the writer sees.
    Seen,
}

/// The versions of one key, newest first in meaning; most keys have one.
#[derive(Debug)]
pub(super) struct Chain {
    newest: RowVersion,
    /// The versions before it, oldest first.
    older: Vec<RowVersion>,
}

impl Chain {
    pub(super) fn new(version: RowVersion) -> Self {
        Chain { newest: version, older: Vec::new() }
    }

    /// The value that `view` sees; `None` if it sees none or its removal.
    pub(super) fn read(&self, view: &ReadView) -> Option<&SharedValue> {
        if view.sees(&self.newest) {
            return self.newest.value.as_ref();
        }
        self.older.iter().rev().find(|version| view.sees(version)).and_then(|version| version.value.as_ref())
    }

    /// Whether `view` may write, and over what.
    pub(super) fn before(&self, view: &ReadView) -> ChainState {
        if view.owns(&self.newest.stamp) {
            ChainState::Own
        } else if view.sees(&self.newest) {
            ChainState::Seen
        } else {
            ChainState::Conflict
        }
    }

    /// Puts a version on top.
    pub(super) fn push(&mut self, version: RowVersion) {
        self.older.push(std::mem::replace(&mut self.newest, version));
    }

    /// Replaces the value of the newest version and returns the old one.
    pub(super) fn replace(&mut self, value: Option<SharedValue>) -> Option<SharedValue> {
        std::mem::replace(&mut self.newest.value, value)
    }

    pub(super) fn newest(&self) -> &RowVersion {
        &self.newest
    }

    /// All versions, in no order.
    pub(super) fn versions(&self) -> impl Iterator<Item = &RowVersion> {
        self.older.iter().chain([&self.newest])
    }

    /// Removes the newest version if it has the stamp `stamp`. Returns it, and whether the chain is empty without it.
    pub(super) fn undo(&mut self, stamp: &CommitStamp) -> Option<(RowVersion, bool)> {
        if !self.newest.stamp.is(stamp) {
            return None;
        }
        match self.older.pop() {
            Some(before) => Some((std::mem::replace(&mut self.newest, before), false)),
            None => Some((self.newest.clone(), true)),
        }
    }

    /// Removes versions that no snapshot of `oldest` or later sees, and passes each to `removed`. Returns true if only a
    /// removal is left that all of them see, so that the key itself can be removed.
    pub(super) fn prune(&mut self, oldest: u64, mut removed: impl FnMut(&RowVersion)) -> bool {
        let settled = |version: &RowVersion| version.stamp.time().is_some_and(|time| time <= oldest);
        if settled(&self.newest) {
            self.older.drain(..).for_each(|version| removed(&version));
            if self.newest.value.is_none() {
                removed(&self.newest);
                return true;
            }
        } else if let Some(place) = self.older.iter().rposition(settled) {
            self.older.drain(..place).for_each(|version| removed(&version));
        }
        false
    }

    /// Whether committed versions are in the order of their commits, with at most one open version, on top.
    pub(super) fn is_ordered(&self) -> bool {
        let times: Vec<_> = self.older.iter().map(|version| version.stamp.time()).collect();
        let newest = self.newest.stamp.time().unwrap_or(u64::MAX);
        times.is_sorted() && times.iter().all(|time| time.is_some_and(|time| time < newest))
    }
}
