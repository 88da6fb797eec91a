//! One table: a sorted map of keys and their version chains, and its size in bytes.
//!
//! Short keys are stored in the map itself: a search compares some twenty of them, and each one stored elsewhere is a
//! cache miss. Long keys are shared by all that refer to them.

use std::borrow::Borrow;
use std::cmp;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, Deref};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::version::{Chain, ChainState, CommitStamp, ReadView, RowVersion, SharedValue};
use crate::{Error, Key, KeyKind, Kind, Result, Statistics};

/// A key and its value, as a cursor keeps them.
#[derive(Clone, Debug)]
pub(super) struct StoredRow {
    pub(super) key: StoredKey,
    pub(super) value: SharedValue,
}

/// The state of the key that a write requires before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// The key must not exist.
    Absent,
    /// The key must exist; otherwise nothing is written.
    Present,
    /// The key may exist or not.
    Any,
}

/// The effect of a write.
#[derive(Debug)]
pub(super) enum WriteEffect {
    /// The key did not meet the demand; nothing is changed.
    Nothing,
    /// The transaction's own earlier version was changed in place.
    Again(StoredKey),
    /// A version of a key that the map did not have.
    Fresh(StoredKey),
    /// A version over an older one.
    Over(StoredKey),
}

/// The direction of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CursorDirection {
    Forward,
    Back,
}

/// A table's rows and sizes.
#[derive(Debug)]
pub(super) struct TableStore {
    ident: String,
    keys: KeyKind,
    rows: RwLock<BTreeMap<StoredKey, Chain>>,
    bytes: AtomicU64,
    versions: AtomicU64,
}

impl TableStore {
    pub(super) fn new(ident: &str, keys: KeyKind) -> Self {
        TableStore {
            ident: ident.to_owned(),
            keys,
            rows: RwLock::default(),
            bytes: AtomicU64::new(0),
            versions: AtomicU64::new(0),
        }
    }

    pub(super) fn ident(&self) -> &str {
        &self.ident
    }

    pub(super) fn keys(&self) -> KeyKind {
        self.keys
    }

    /// Bytes of keys and values in all versions.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The bytes of `key` in the map; those of a number are written to `room`. Refuses a key of the other kind.
    pub(super) fn encode<'k>(&self, key: Key<'k>, room: &'k mut [u8; 8]) -> Result<&'k [u8]> {
        match (self.keys, key) {
            (KeyKind::Number, Key::Number(number)) => {
                *room = in_order(number);
                Ok(room)
            }
            (KeyKind::Bytes, Key::Bytes(bytes)) => Ok(bytes),
            _ => Err(Error::usage(format!("a key of the wrong kind for table {}", self.ident))),
        }
    }

    /// A key of the map as the callers know it.
    pub(super) fn decode<'k>(&self, key: &'k [u8]) -> Key<'k> {
        match self.keys {
            KeyKind::Bytes => Key::Bytes(key),
            KeyKind::Number => Key::Number(
                key.try_into().map_or(0, |bytes| (u64::from_be_bytes(bytes) ^ SIGN).cast_signed()),
            ),
        }
    }

    /// Passes the value that `view` sees to `taker`; `None` if it sees no value.
    pub(super) fn get<T>(&self, view: &ReadView, key: &[u8], taker: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.rows.read().get(key).and_then(|chain| chain.read(view)).map(|value| taker(value))
    }

    /// Writes a version under `stamp`, which is `view`'s own; `None` is a conflict.
    pub(super) fn write(
        &self,
        view: &ReadView,
        stamp: &CommitStamp,
        key: &[u8],
        value: Option<SharedValue>,
        demand: Demand,
    ) -> Option<WriteEffect> {
        let version = RowVersion { stamp: stamp.clone(), value };
        let mut rows = self.rows.write();
        let mut range = rows.range_mut::<[u8], _>((Bound::Included(key), Bound::Included(key)));
        let Some((held, chain)) = range.next() else {
            if demand == Demand::Present {
                return Some(WriteEffect::Nothing);
            }
            self.count(key, &version);
            let key = StoredKey::from(key);
            rows.insert(key.clone(), Chain::new(version));
            return Some(WriteEffect::Fresh(key));
        };
        let before = chain.before(view);
        if matches!(before, ChainState::Conflict) {
            return None;
        }
        let unmet = if chain.newest().value.is_some() { Demand::Absent } else { Demand::Present };
        if demand == unmet {
            return Some(WriteEffect::Nothing);
        }
        self.count(key, &version);
        if matches!(before, ChainState::Own) {
            let value = chain.replace(version.value);
            self.uncount(key, &RowVersion { stamp: version.stamp, value });
            return Some(WriteEffect::Again(held.clone()));
        }
        chain.push(version);
        Some(WriteEffect::Over(held.clone()))
    }

    /// Undoes what `stamp` wrote at `key`. Returns the time of the version that is the newest again, if that is a removal.
    pub(super) fn undo(&self, stamp: &CommitStamp, key: &[u8]) -> Option<u64> {
        let mut rows = self.rows.write();
        let chain = rows.get_mut(key)?;
        let (version, empty) = chain.undo(stamp)?;
        self.uncount(key, &version);
        let newest = chain.newest();
        let removal = if newest.value.is_none() { newest.stamp.time() } else { None };
        if empty {
            rows.remove(key);
        }
        removal
    }

    /// Removes the versions of `key` that no snapshot of `oldest` or later sees, and returns their number.
    pub(super) fn prune(&self, key: &[u8], oldest: u64) -> u64 {
        let mut gone = 0;
        let mut rows = self.rows.write();
        let Some(chain) = rows.get_mut(key) else { return 0 };
        let empty = chain.prune(oldest, |version| {
            self.uncount(key, version);
            gone += 1;
        });
        if empty {
            rows.remove(key);
        }
        gone
    }

    /// Appends up to `limit` rows that `view` sees within the bounds, in direction `way`.
    pub(super) fn fetch(
        &self,
        view: &ReadView,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        way: CursorDirection,
        limit: usize,
        out: &mut VecDeque<StoredRow>,
    ) {
        if is_empty(bounds) {
            return;
        }
        let rows = self.rows.read();
        let range = rows.range::<[u8], _>(bounds);
        let seen = |(key, chain): (&StoredKey, &Chain)| {
            chain.read(view).map(|value| StoredRow { key: key.clone(), value: SharedValue::clone(value) })
        };
        match way {
            CursorDirection::Forward => out.extend(range.filter_map(seen).take(limit)),
            CursorDirection::Back => out.extend(range.rev().filter_map(seen).take(limit)),
        }
    }

    /// The keys that `view` sees within the bounds.
    pub(super) fn keys_within(
        &self,
        view: &ReadView,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Vec<StoredKey> {
        if is_empty(bounds) {
            return Vec::new();
        }
        let rows = self.rows.read();
        let seen = rows.range::<[u8], _>(bounds).filter(|(_, chain)| chain.read(view).is_some());
        seen.map(|(key, _)| key.clone()).collect()
    }

    /// Checks that every chain is in order and that the counts agree with the rows.
    pub(super) fn verify(&self) -> Result<()> {
        let rows = self.rows.read();
        let wrong = |what: &str| Err(Error::new(Kind::Corruption, format!("table {}: {what}", self.ident)));
        if !rows.values().all(Chain::is_ordered) {
            return wrong("versions out of the order of their commits");
        }
        let bytes =
            |(key, chain): (&StoredKey, &Chain)| chain.versions().map(|one| weight(key, one)).sum::<u64>();
        if rows.iter().map(bytes).sum::<u64>() != self.bytes() {
            return wrong("the count of bytes is not what the rows hold");
        }
        Ok(())
    }

    /// The statistics of one table.
    pub(super) fn statistics(&self) -> Statistics {
        let mut statistics = Statistics::default();
        let keys = self.rows.read().len() as u64;
        let versions = self.versions.load(Ordering::Relaxed);
        for (name, value) in [("keys held", keys), ("versions held", versions), ("bytes held", self.bytes())]
        {
            statistics.push("table", name, value.cast_signed());
        }
        statistics
    }

    fn count(&self, key: &[u8], version: &RowVersion) {
        self.bytes.fetch_add(weight(key, version), Ordering::Relaxed);
        self.versions.fetch_add(1, Ordering::Relaxed);
    }

    fn uncount(&self, key: &[u8], version: &RowVersion) {
        self.bytes.fetch_sub(weight(key, version), Ordering::Relaxed);
        self.versions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Flipped, so that negative numbers come before the others when their bytes are compared.
const SIGN: u64 = 1 << 63;

fn in_order(number: i64) -> [u8; 8] {
    (number.cast_unsigned() ^ SIGN).to_be_bytes()
}

fn weight(key: &[u8], version: &RowVersion) -> u64 {
    (key.len() + version.value.as_ref().map_or(0, |value| value.len())) as u64
}

/// Whether the bounds cross; the map would panic on such bounds.
fn is_empty(bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> bool {
    match bounds {
        (Bound::Excluded(from), Bound::Excluded(to)) => from >= to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from > to
        }
        _ => false,
    }
}

/// The longest short key; with it a key takes 24 bytes, one more word than a long key needs.
const MAX_SHORT_KEY_BYTES: usize = 22;

/// A key that owns its bytes; they order as `memcmp` orders.
#[derive(Clone, Debug)]
pub(super) enum StoredKey {
    /// The length, and an array whose first bytes are the key.
    Short(u8, [u8; MAX_SHORT_KEY_BYTES]),
    Long(Arc<[u8]>),
}

impl From<&[u8]> for StoredKey {
    fn from(key: &[u8]) -> Self {
        let mut bytes = [0; MAX_SHORT_KEY_BYTES];
        match (u8::try_from(key.len()), bytes.get_mut(..key.len())) {
            (Ok(length), Some(room)) => {
                room.copy_from_slice(key);
                StoredKey::Short(length, bytes)
            }
            _ => StoredKey::Long(key.into()),
        }
    }
}

impl Deref for StoredKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            StoredKey::Short(length, bytes) => bytes.get(..usize::from(*length)).unwrap_or(bytes),
            StoredKey::Long(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for StoredKey {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for StoredKey {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for StoredKey {}

impl PartialOrd for StoredKey {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StoredKey {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        (**self).cmp(&**other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_all_lengths_come_back_and_keep_their_order() {
        assert_eq!(size_of::<StoredKey>(), 24);
        let plain: Vec<Vec<u8>> = (0..60).flat_map(|long| [vec![0; long], vec![0xff; long]]).collect();
        let mut sorted = plain.clone();
        sorted.sort();
        let mut stored: Vec<StoredKey> = plain.iter().map(|key| StoredKey::from(&key[..])).collect();
        stored.sort();
        let back: Vec<Vec<u8>> = stored.iter().map(|key| key.to_vec()).collect();
        assert_eq!(back, sorted);
    }
}
