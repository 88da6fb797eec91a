//! A key as the map holds it. Short keys stand in the map itself, because a search compares some twenty of them and each
//! one elsewhere is a miss of the cache; long ones are shared with whoever mentions them.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

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
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StoredKey {
    fn cmp(&self, other: &Self) -> Ordering {
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
