//! What a server knows of the cluster that it belongs to: which shard it is, what it owns of each collection, which chunks are coming and
//! whose writes are held back. What it does with that is in `sharding`, above the operations.

mod config_servers;
mod gate;
mod known;

use std::sync::Arc;

use bson::{Document, RawDocument};
use fathom_query::{Access, FieldKind, Plan, Range};
use fathom_service::Counter;
use fathom_sharding::ShardKey;
use parking_lot::Mutex;

use crate::Result;
use crate::storage::State;

pub(crate) use config_servers::{ConfigServers, Identity, connect, unreachable};
pub(crate) use gate::{Gates, Inside};
pub(crate) use known::{Collection, Known};

/// A range of shard keys, as bytes.
#[derive(Clone, Debug)]
pub(crate) struct KeyRange {
    pub(crate) key: ShardKey,
    pub(crate) min: Vec<u8>,
    pub(crate) max: Vec<u8>,
}

impl KeyRange {
    /// Of the ends of a chunk.
    pub(crate) fn new(key: &ShardKey, min: &Document, max: &Document) -> Result<KeyRange> {
        Ok(KeyRange { key: key.clone(), min: key.bound(min)?, max: key.bound(max)? })
    }

    /// Whether the two have any key in common.
    pub(crate) fn overlaps(&self, other: &KeyRange) -> bool {
        self.min < other.max && other.min < self.max
    }

    /// Whether a document lies in it.
    pub(crate) fn holds(&self, document: &RawDocument) -> bool {
        self.key.key_of(document).is_ok_and(|key| self.min <= key && key < self.max)
    }

    /// The way to its documents.
    pub(crate) fn plan(&self, state: &State) -> Plan {
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

/// What keeps those apart that delete and that receive.
#[derive(Debug, Default)]
pub(crate) struct Housekeeping {
    /// Held while documents are deleted, and while a chunk begins to come.
    pub(crate) alone: Mutex<()>,
    /// Ranges of chunks that are coming.
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

/// What moving chunks cost, and how often routers knew too little.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) stale: Counter,
    pub(crate) moves: Counter,
    pub(crate) copying_ms: Counter,
    /// While writes were held back, in all, and for the commit alone.
    pub(crate) shut_ms: Counter,
    pub(crate) committing_ms: Counter,
}

/// What a shard knows.
#[derive(Debug, Default)]
pub(crate) struct Sharding {
    pub(crate) identity: Mutex<Option<Arc<Identity>>>,
    pub(crate) known: Known,
    pub(crate) figures: Figures,
    pub(crate) gates: Gates,
    pub(crate) housekeeping: Housekeeping,
    /// Held while a chunk is given away: one at a time.
    pub(crate) giving: Mutex<()>,
}

impl Sharding {
    /// Another identity counts from now on.
    pub(crate) fn set_identity(&self, identity: Identity) {
        *self.identity.lock() = Some(Arc::new(identity));
    }
}
