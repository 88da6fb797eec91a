//! One table: a sorted map of keys and their version chains, and what it holds in bytes.
//!
//! Short keys stand in the map itself, because a search compares some twenty of them and each one elsewhere is a miss
//! of the cache; long ones are shared with whoever mentions them.

use std::borrow::Borrow;
use std::cmp;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, Deref};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::version::{Before, Chain, Stamp, Value, Version, View};
use crate::{Error, Key, KeyKind, Kind, Result, Statistics};

/// A key and its value, as a cursor keeps them.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: StoredKey,
    pub(super) value: Value,
}

/// What a write asks of the key before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// It must not be there.
    Absent,
    /// It must be there; otherwise nothing is written.
    Present,
    /// Either.
    Any,
}

/// What a write did.
#[derive(Debug)]
pub(super) enum Wrote {
    /// The key was not as demanded; nothing is changed.
    Nothing,
    /// The transaction's own earlier version was changed in place.
    Again(StoredKey),
    /// A version of a key that the map did not have.
    Fresh(StoredKey),
    /// A version over an older one.
    Over(StoredKey),
}

/// Which way a cursor walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Forward,
    Back,
}

/// A table's rows and sizes.
#[derive(Debug)]
pub(super) struct Store {
    ident: String,
    keys: KeyKind,
    rows: RwLock<BTreeMap<StoredKey, Chain>>,
    bytes: AtomicU64,
    versions: AtomicU64,
}

impl Store {
    pub(super) fn new(ident: &str, keys: KeyKind) -> Self {
        Store {
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

    /// The bytes under which the map has `key`; `room` is where a number's are put. Refuses a key of the other kind.
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

    /// Hands the value that `view` sees to `taker`; none if there is none.
    pub(super) fn get<T>(&self, view: &View, key: &[u8], taker: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.rows.read().get(key).and_then(|chain| chain.read(view)).map(|value| taker(value))
    }

    /// Writes a version under `stamp`, which is `view`'s own; none is a conflict.
    pub(super) fn write(
        &self,
        view: &View,
        stamp: &Stamp,
        key: &[u8],
        value: Option<Value>,
        demand: Demand,
    ) -> Option<Wrote> {
        let version = Version { stamp: stamp.clone(), value };
        let mut rows = self.rows.write();
        let mut range = rows.range_mut::<[u8], _>((Bound::Included(key), Bound::Included(key)));
        let Some((held, chain)) = range.next() else {
            if demand == Demand::Present {
                return Some(Wrote::Nothing);
            }
            self.count(key, &version);
            let key = StoredKey::from(key);
            rows.insert(key.clone(), Chain::new(version));
            return Some(Wrote::Fresh(key));
        };
        let before = chain.before(view);
        if matches!(before, Before::Conflict) {
            return None;
        }
        let unmet = if chain.newest().value.is_some() { Demand::Absent } else { Demand::Present };
        if demand == unmet {
            return Some(Wrote::Nothing);
        }
        self.count(key, &version);
        if matches!(before, Before::Own) {
            let value = chain.replace(version.value);
            self.uncount(key, &Version { stamp: version.stamp, value });
            return Some(Wrote::Again(held.clone()));
        }
        chain.push(version);
        Some(Wrote::Over(held.clone()))
    }

    /// Takes back what `stamp` wrote at `key`. The time of the removal that is the newest version again, if it is one.
    pub(super) fn undo(&self, stamp: &Stamp, key: &[u8]) -> Option<u64> {
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

    /// Takes away the versions of `key` that no snapshot of `oldest` or later sees; how many went.
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

    /// Appends up to `limit` rows that `view` sees within the bounds, walking `way`.
    pub(super) fn fetch(
        &self,
        view: &View,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        way: Way,
        limit: usize,
        out: &mut VecDeque<Row>,
    ) {
        if is_empty(bounds) {
            return;
        }
        let rows = self.rows.read();
        let range = rows.range::<[u8], _>(bounds);
        let seen = |(key, chain): (&StoredKey, &Chain)| {
            chain.read(view).map(|value| Row { key: key.clone(), value: Value::clone(value) })
        };
        match way {
            Way::Forward => out.extend(range.filter_map(seen).take(limit)),
            Way::Back => out.extend(range.rev().filter_map(seen).take(limit)),
        }
    }

    /// The keys that `view` sees within the bounds.
    pub(super) fn keys_within(&self, view: &View, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Vec<StoredKey> {
        if is_empty(bounds) {
            return Vec::new();
        }
        let rows = self.rows.read();
        let seen = rows.range::<[u8], _>(bounds).filter(|(_, chain)| chain.read(view).is_some());
        seen.map(|(key, _)| key.clone()).collect()
    }

    /// Whether every chain is in order and the counts are what the rows say.
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

    /// What is counted of one table.
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

    fn count(&self, key: &[u8], version: &Version) {
        self.bytes.fetch_add(weight(key, version), Ordering::Relaxed);
        self.versions.fetch_add(1, Ordering::Relaxed);
    }

    fn uncount(&self, key: &[u8], version: &Version) {
        self.bytes.fetch_sub(weight(key, version), Ordering::Relaxed);
        self.versions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Flipped, so that negative numbers come before the others when their bytes are compared.
const SIGN: u64 = 1 << 63;

fn in_order(number: i64) -> [u8; 8] {
    (number.cast_unsigned() ^ SIGN).to_be_bytes()
}

fn weight(key: &[u8], version: &Version) -> u64 {
    (key.len() + version.value.as_ref().map_or(0, |value| value.len())) as u64
}

/// Bounds that cross; the map would panic on them.
fn is_empty(bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> bool {
    match bounds {
        (Bound::Excluded(from), Bound::Excluded(to)) => from >= to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from > to
        }
        _ => false,
    }
}

/// What makes a key 24 bytes long, one more word than a long key needs.
const SHORT: usize = 22;

/// A key that owns its bytes; they order as `memcmp` orders.
#[derive(Clone, Debug)]
pub(super) enum StoredKey {
    /// So many of the bytes.
    Short(u8, [u8; SHORT]),
    Long(Arc<[u8]>),
}

impl From<&[u8]> for StoredKey {
    fn from(key: &[u8]) -> Self {
        let mut bytes = [0; SHORT];
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
