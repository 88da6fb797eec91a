//! The versions of one key: who sees which, and who may write the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A value, shared with the cursors that stand on it.
pub(super) type Value = Arc<[u8]>;

/// When a transaction committed, shared by all that it wrote, so that one store makes all of it visible.
#[derive(Clone, Debug, Default)]
pub(super) struct Stamp(Arc<AtomicU64>);

impl Stamp {
    /// Marks everything under the stamp as committed at `time`, which is not zero.
    pub(super) fn commit(&self, time: u64) {
        self.0.store(time, Ordering::Release);
    }

    /// The time of the commit; none while the transaction is open.
    pub(super) fn time(&self) -> Option<u64> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            time => Some(time),
        }
    }

    fn is(&self, other: &Stamp) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Through whose eyes the versions are read.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The time of the newest commit that is seen; `u64::MAX` outside a transaction.
    pub(super) snapshot: u64,
    /// The reader's own writes, if it has any.
    pub(super) own: Option<Stamp>,
}

impl View {
    /// The newest committed state.
    pub(super) fn newest() -> Self {
        View { snapshot: u64::MAX, own: None }
    }

    fn owns(&self, stamp: &Stamp) -> bool {
        self.own.as_ref().is_some_and(|own| own.is(stamp))
    }

    fn sees(&self, version: &Version) -> bool {
        self.owns(&version.stamp) || version.stamp.time().is_some_and(|time| time <= self.snapshot)
    }
}

/// What one transaction made of a key: a value, or its removal.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) stamp: Stamp,
    pub(super) value: Option<Value>,
}

/// What a write found in the chain before it.
#[derive(Debug)]
pub(super) enum Before {
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
    newest: Version,
    /// What came before, oldest first.
    older: Vec<Version>,
}

impl Chain {
    pub(super) fn new(version: Version) -> Self {
        Chain { newest: version, older: Vec::new() }
    }

    /// The value that `view` sees; none if it sees none or its removal.
    pub(super) fn read(&self, view: &View) -> Option<&Value> {
        if view.sees(&self.newest) {
            return self.newest.value.as_ref();
        }
        self.older.iter().rev().find(|version| view.sees(version)).and_then(|version| version.value.as_ref())
    }

    /// Whether `view` may write, and over what.
    pub(super) fn before(&self, view: &View) -> Before {
        if view.owns(&self.newest.stamp) {
            Before::Own
        } else if view.sees(&self.newest) {
            Before::Seen
        } else {
            Before::Conflict
        }
    }

    /// Puts a version on top.
    pub(super) fn push(&mut self, version: Version) {
        self.older.push(std::mem::replace(&mut self.newest, version));
    }

    /// Replaces the value of the newest version; the old one comes back.
    pub(super) fn replace(&mut self, value: Option<Value>) -> Option<Value> {
        std::mem::replace(&mut self.newest.value, value)
    }

    /// The newest version.
    pub(super) fn newest(&self) -> &Version {
        &self.newest
    }

    /// All versions, in no order.
    pub(super) fn versions(&self) -> impl Iterator<Item = &Version> {
        self.older.iter().chain([&self.newest])
    }

    /// Takes the newest version away if it is of `stamp`. The version, and whether the chain is empty without it.
    pub(super) fn undo(&mut self, stamp: &Stamp) -> Option<(Version, bool)> {
        if !self.newest.stamp.is(stamp) {
            return None;
        }
        match self.older.pop() {
            Some(before) => Some((std::mem::replace(&mut self.newest, before), false)),
            None => Some((self.newest.clone(), true)),
        }
    }

    /// Takes away what no snapshot of `oldest` or later sees; each version that goes is told to `gone`. True if only a
    /// removal is left that all of them see, so that the key itself can go.
    pub(super) fn prune(&mut self, oldest: u64, mut gone: impl FnMut(&Version)) -> bool {
        let settled = |version: &Version| version.stamp.time().is_some_and(|time| time <= oldest);
        if settled(&self.newest) {
            self.older.drain(..).for_each(|version| gone(&version));
            if self.newest.value.is_none() {
                gone(&self.newest);
                return true;
            }
        } else if let Some(place) = self.older.iter().rposition(settled) {
            self.older.drain(..place).for_each(|version| gone(&version));
        }
        false
    }

    /// Whether committed versions stand in the order of their commits, with at most one open version, on top.
    pub(super) fn is_ordered(&self) -> bool {
        let times: Vec<_> = self.older.iter().map(|version| version.stamp.time()).collect();
        let newest = self.newest.stamp.time().unwrap_or(u64::MAX);
        times.is_sorted() && times.iter().all(|time| time.is_some_and(|time| time < newest))
    }
}
