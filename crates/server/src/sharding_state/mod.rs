//! The server's knowledge of its cluster: the shard's identity, its ownership of each collection, the arriving chunks, and
//! the gates for writes. The operations that use it are in `sharding`, above the operations.

mod catalog_cache;
mod config_servers;
mod gate;

use std::sync::Arc;

use bson::{Document, RawDocument};
use fathom_query::{Access, FieldKind, Plan, Range};
use fathom_service::Counter;
use fathom_sharding::ShardKey;
use parking_lot::Mutex;

use crate::Result;
use crate::storage::CollectionState;

pub(crate) use catalog_cache::{CatalogCache, Collection};
pub(crate) use config_servers::{ConfigServers, ShardIdentity, connect, unreachable};
pub(crate) use gate::{Gates, WritePermit};

/// A range of shard keys, as bytes.
#[derive(Clone, Debug)]
pub(crate) struct KeyRange {
    pub(crate) key: ShardKey,
    pub(crate) min: Vec<u8>,
    pub(crate) max: Vec<u8>,
}

impl KeyRange {
    /// The range between the ends of a chunk.
    pub(crate) fn new(key: &ShardKey, min: &Document, max: &Document) -> Result<KeyRange> {
        Ok(KeyRange { key: key.clone(), min: key.bound(min)?, max: key.bound(max)? })
    }

    /// Whether the two ranges have any key in common.
    pub(crate) fn overlaps(&self, other: &KeyRange) -> bool {
        self.min < other.max && other.min < self.max
    }

    /// Whether the range contains a document's key.
    pub(crate) fn holds(&self, document: &RawDocument) -> bool {
        self.key.key_of(document).is_ok_and(|key| self.min <= key && key < self.max)
    }

    /// The plan that finds the documents of the range.
    pub(crate) fn plan(&self, state: &CollectionState) -> Plan {
        let fits = state.indexes.iter().position(|index| {
            let info = index.info();
            let fields = &self.key.pattern().fields;
            let same = index.pattern().fields.iter().zip(fields).all(|(theirs, ours)| theirs == ours);
            same && index.pattern().fields.len() >= fields.len()
                && !info.sparse
                && info.partial.is_none()
                && !(index.pattern().is_id() && fields.iter().any(|field| field.kind == FieldKind::Hashed))
        });
        let access = match fits {
            Some(index) => Access::Index {
                index,
                ranges: vec![Range { low: self.min.clone(), high: self.max.clone() }],
                backwards: false,
                bounds: Document::new(),
            },
            None => Access::Scan { backwards: false },
        };
        Plan { access, filter: false, sorted: false, covered: false }
    }
}

/// Synchronizes the deletion of orphans with the arrival of chunks.
#[derive(Debug, Default)]
pub(crate) struct Housekeeping {
    /// Held while documents are deleted, and while a chunk begins to arrive.
    pub(crate) alone: Mutex<()>,
    /// The ranges of arriving chunks.
    pub(crate) coming: Mutex<Vec<(String, KeyRange)>>,
}

impl Housekeeping {
    pub(crate) fn coming_to(&self, namespace: &str) -> Vec<KeyRange> {
        let coming = self.coming.lock();
        coming.iter().filter(|(name, _)| name == namespace).map(|(_, range)| range.clone()).collect()
    }

    pub(crate) fn forget(&self, namespace: &str, range: &KeyRange) {
        self.coming.lock().retain(|(name, other)| name != namespace || !other.overlaps(range));
    }
}

/// The costs of moving chunks, and the number of requests with stale versions.
#[derive(Debug, Default)]
pub(crate) struct MigrationFigures {
    pub(crate) stale: Counter,
    pub(crate) moves: Counter,
    pub(crate) copying_ms: Counter,
    /// The time during which writes were blocked: the total, and for the commit alone.
    pub(crate) shut_ms: Counter,
    pub(crate) committing_ms: Counter,
}

/// The sharding state of a shard.
#[derive(Debug, Default)]
pub(crate) struct Sharding {
    pub(crate) identity: Mutex<Option<Arc<ShardIdentity>>>,
    pub(crate) known: CatalogCache,
    pub(crate) figures: MigrationFigures,
    pub(crate) gates: Gates,
    pub(crate) housekeeping: Housekeeping,
    /// Held while a chunk is moved away: only one at a time.
    pub(crate) giving: Mutex<()>,
}

impl Sharding {
    /// Replaces the identity of the shard.
    pub(crate) fn set_identity(&self, identity: ShardIdentity) {
        *self.identity.lock() = Some(Arc::new(identity));
    }
}
