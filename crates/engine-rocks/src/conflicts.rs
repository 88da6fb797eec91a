//! The conflict table: which transaction writes which key, and when a key was last committed. The first writer of a key wins.
//!
//! mongo-rocks 3.4 keeps such a table too, because plain RocksDB has no transactions. Keys are kept as 64-bit hashes,
//! seeded at each start: two keys with one hash can at worst cause a needless conflict, which is retried. A committed key is
//! remembered until no open view is older than its commit. Memory is bounded: if a view stays open for very long,
//! the oldest commits are forgotten, and writers with views from before them get a conflict, to be safe.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use parking_lot::Mutex;

/// The number of shards, so that writers seldom contend for a lock.
const SHARDS: usize = 64;
/// Commits that a shard remembers; 64 shards of these take some 250 MB, near mongo-rocks' `maxConflictCheckSizeMB` of 200.
const MAX_REMEMBERED_COMMITS: usize = 1 << 16;
/// Old commits forgotten at each write: more than one, so that the table shrinks, and few, so that no write waits.
const FORGOTTEN_AT_ONCE: usize = 4;

/// The number of a session, as an owner of keys; never 0.
pub(crate) type Owner = u64;
const NOBODY: Owner = 0;

pub(crate) struct Conflicts {
    shards: Vec<Mutex<ConflictShard>>,
    remembered_max: usize,
    hashing: RandomState,
}

#[derive(Default)]
struct ConflictShard {
    entries: HashMap<u64, KeyState, BuildHasherDefault<IdentityHasher>>,
    /// The commits that are remembered, oldest first, with their keys.
    remembered: VecDeque<(u64, u64)>,
    /// How many entries have an owner.
    held: usize,
    /// Commits up to this tick may have been forgotten before their time.
    forgotten: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct KeyState {
    owner: Owner,
    /// The tick of the last commit, 0 if none is remembered.
    committed: u64,
}

/// The result of claiming a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The caller holds it from now on.
    New,
    /// The caller held it already.
    Held,
    /// Another transaction has written it since the caller's view, or is about to.
    Conflict,
}

impl Conflicts {
    pub(crate) fn new() -> Self {
        Conflicts::remembering(MAX_REMEMBERED_COMMITS)
    }

    fn remembering(remembered_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Conflicts { shards, remembered_max, hashing: RandomState::new() }
    }

    /// The hash of a whole key.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hashing.hash_one(key)
    }

    /// Claims a key for `owner`, which reads as of `tick`; `oldest` is the tick of the oldest open view.
    pub(crate) fn claim(&self, hash: u64, owner: Owner, tick: u64, oldest: u64) -> Claim {
        let Some(mut shard) = self.shard(hash) else { return Claim::Conflict };
        shard.forget(oldest);
        if shard.forgotten > tick {
            return Claim::Conflict;
        }
        let entry = shard.entries.entry(hash).or_default();
        if entry.owner == owner {
            Claim::Held
        } else if entry.owner != NOBODY || entry.committed > tick {
            Claim::Conflict
        } else {
            entry.owner = owner;
            shard.held += 1;
            Claim::New
        }
    }

    /// Releases keys that were claimed and not written.
    pub(crate) fn release(&self, hashes: &[u64], owner: Owner, oldest: u64) {
        for &hash in hashes {
            let Some(mut shard) = self.shard(hash) else { continue };
            let Some(entry) = shard.entries.get_mut(&hash) else { continue };
            if entry.owner == owner {
                entry.owner = NOBODY;
                let over = entry.committed <= oldest;
                shard.held -= 1;
                if over {
                    shard.entries.remove(&hash);
                }
            }
        }
    }

    /// Releases keys that were committed at `tick`. `oldest` must have been read after the commit ticked.
    pub(crate) fn commit(&self, hashes: &[u64], owner: Owner, tick: u64, oldest: u64) {
        for &hash in hashes {
            let Some(mut shard) = self.shard(hash) else { continue };
            let before = if oldest >= tick {
                shard.entries.remove(&hash)
            } else {
                shard.entries.insert(hash, KeyState { owner: NOBODY, committed: tick })
            };
            debug_assert_eq!(before.map(|entry| entry.owner), Some(owner));
            shard.held -= 1;
            if oldest >= tick {
                continue;
            }
            shard.remembered.push_back((tick, hash));
            shard.bound(self.remembered_max);
        }
    }

    /// How many keys are held by open transactions, and how many commits are remembered.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        self.shards.iter().map(|shard| shard.lock()).fold((0, 0), |(held, remembered), shard| {
            (held + shard.held, remembered + shard.remembered.len())
        })
    }

    fn shard(&self, hash: u64) -> Option<parking_lot::MutexGuard<'_, ConflictShard>> {
        // Bits that the shard's map does not use: it uses the highest and the lowest.
        self.shards.get((hash >> 40) as usize % SHARDS).map(Mutex::lock)
    }
}

impl ConflictShard {
    /// Forgets some of the commits that every open view has seen.
    fn forget(&mut self, oldest: u64) {
        for _ in 0..FORGOTTEN_AT_ONCE {
            match self.remembered.front() {
                Some(&(tick, hash)) if tick <= oldest => self.drop_front(tick, hash),
                _ => break,
            }
        }
    }

    /// Forgets the oldest commit if there are too many, although a transaction might still need it.
    fn bound(&mut self, remembered_max: usize) {
        if self.remembered.len() > remembered_max
            && let Some(&(tick, hash)) = self.remembered.front()
        {
            self.forgotten = self.forgotten.max(tick);
            self.drop_front(tick, hash);
        }
    }

    fn drop_front(&mut self, tick: u64, hash: u64) {
        self.remembered.pop_front();
        // A key that was committed again since, or has an owner now, is still needed.
        if self.entries.get(&hash).is_some_and(|entry| entry.committed == tick && entry.owner == NOBODY) {
            self.entries.remove(&hash);
        }
    }
}

/// The keys are hashes already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::NONE_OPEN;

    #[test]
    fn the_first_writer_wins_and_a_rollback_gives_back() {
        let table = Conflicts::new();
        let key = table.hash(b"k");
        assert_eq!(table.claim(key, 1, 5, 5), Claim::New);
        assert_eq!(table.claim(key, 1, 5, 5), Claim::Held);
        assert_eq!(table.claim(key, 2, 5, 5), Claim::Conflict);
        table.release(&[key], 1, 5);
        assert_eq!(table.claim(key, 2, 5, 5), Claim::New);
    }

    #[test]
    fn a_commit_is_remembered_for_older_views_only_as_long_as_there_are_any() {
        let table = Conflicts::new();
        let (key, other) = (table.hash(b"k"), table.hash(b"other"));
        assert_eq!(table.claim(key, 1, 5, 5), Claim::New);
        table.commit(&[key], 1, 6, 5);
        assert_eq!(table.claim(key, 2, 5, 5), Claim::Conflict);
        assert_eq!(table.claim(key, 3, 6, 5), Claim::New, "its view has the commit");
        table.release(&[key], 3, 5);
        assert_eq!(table.claim(key, 2, 5, 5), Claim::Conflict, "still remembered");
        assert_eq!(table.sizes(), (0, 1));
        assert_eq!(table.claim(key, 4, 9, 9), Claim::New);
        assert_eq!(table.claim(other, 4, 9, 9), Claim::New);
        table.commit(&[key, other], 4, 10, NONE_OPEN);
        assert_eq!(table.sizes(), (0, 0), "nobody is left who could conflict");
    }

    #[test]
    fn what_was_forgotten_too_early_is_a_conflict() {
        let table = Conflicts::remembering(4);
        let hashes: Vec<u64> = (0..1000u64).map(|number| table.hash(&number.to_le_bytes())).collect();
        for (&hash, tick) in hashes.iter().zip(1..) {
            // A view of tick 0 stays open meanwhile.
            assert_eq!(table.claim(hash, 1, tick - 1, 0), Claim::New);
            table.commit(&[hash], 1, tick, 0);
        }
        assert_eq!(table.sizes(), (0, 4 * SHARDS));
        for &hash in &hashes {
            assert_eq!(table.claim(hash, 2, 0, 0), Claim::Conflict);
            assert_eq!(table.claim(hash, 2, 1000, 0), Claim::New);
        }
    }
}
