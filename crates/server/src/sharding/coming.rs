//! The chunks that are coming to a shard, for those that delete what is not its own.

use parking_lot::Mutex;

use super::key_range::KeyRange;

/// What keeps those apart that delete and that receive.
#[derive(Debug, Default)]
pub(super) struct Housekeeping {
    /// Held while documents are deleted, and while a chunk begins to come.
    pub(super) alone: Mutex<()>,
    /// Ranges of chunks that are coming.
    pub(super) coming: Mutex<Vec<(String, KeyRange)>>,
}

impl Housekeeping {
    pub(super) fn coming_to(&self, namespace: &str) -> Vec<KeyRange> {
        let coming = self.coming.lock();
        coming.iter().filter(|(name, _)| name == namespace).map(|(_, range)| range.clone()).collect()
    }

    pub(super) fn forget(&self, namespace: &str, range: &KeyRange) {
        self.coming.lock().retain(|(name, other)| name != namespace || !other.overlaps(range));
    }
}
