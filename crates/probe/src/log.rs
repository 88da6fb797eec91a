//! The append file that all threads of a journal share: each takes the next place, and the one who finds it full
//! begins it anew while nobody writes.
//!
//! One file, because mongod has one log: threads that sync together share the device's flush, and separate files
//! would not show that.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The next free place of an append file of fixed size.
pub(crate) struct Log {
    size_bytes: u64,
    next: AtomicU64,
    turn: RwLock<()>,
}

/// A place to write to; the file is not begun anew while it is held.
pub(crate) struct Place<'a> {
    pub(crate) offset: u64,
    _turn: RwLockReadGuard<'a, ()>,
}

impl Log {
    /// An empty log of `size_bytes`.
    pub(crate) fn new(size_bytes: u64) -> Self {
        Log { size_bytes, next: AtomicU64::new(0), turn: RwLock::new(()) }
    }

    /// The next place for `block` bytes, or `None` when the file is full.
    pub(crate) fn take(&self, block: u64) -> Option<Place<'_>> {
        let turn = self.turn.read().unwrap_or_else(PoisonError::into_inner);
        let offset = self.next.fetch_add(block, Ordering::AcqRel);
        (offset + block <= self.size_bytes).then_some(Place { offset, _turn: turn })
    }

    /// Begins the file anew by `empty`, unless somebody else just did.
    pub(crate) fn begin_anew(&self, empty: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _alone = self.turn.write().unwrap_or_else(PoisonError::into_inner);
        if self.next.load(Ordering::Acquire) > self.size_bytes {
            empty()?;
            self.next.store(0, Ordering::Release);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_get_places_of_their_own_and_one_of_them_begins_anew() {
        let log = Log::new(4096 * 100);
        let anew = AtomicU64::new(0);
        let taken = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        match log.take(4096) {
                            Some(place) => taken.lock().unwrap().push(place.offset),
                            None => {
                                let count = || {
                                    anew.fetch_add(1, Ordering::Relaxed);
                                    Ok(())
                                };
                                log.begin_anew(count).unwrap();
                            }
                        }
                    }
                });
            }
        });
        let (taken, anew) = (taken.into_inner().unwrap(), anew.into_inner());
        let mut times = std::collections::HashMap::new();
        taken.iter().for_each(|offset| *times.entry(*offset).or_insert(0u64) += 1);
        assert!(
            times.values().all(|n| *n == anew || *n == anew + 1),
            "each place once a round: {anew} rounds"
        );
        assert!(anew >= 8_000 / 100 / 2);
    }
}
