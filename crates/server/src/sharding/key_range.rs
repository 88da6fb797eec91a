//! A range of shard keys, and the way to its documents.

use bson::{Document, RawDocument};
use fathom_query::{Access, FieldKind, Plan, Range};
use fathom_sharding::ShardKey;

use crate::Result;
use crate::storage::State;

/// A range of shard keys, as bytes.
#[derive(Clone, Debug)]
pub(super) struct KeyRange {
    pub(super) key: ShardKey,
    pub(super) min: Vec<u8>,
    pub(super) max: Vec<u8>,
}

impl KeyRange {
    /// Of the ends of a chunk.
    pub(super) fn new(key: &ShardKey, min: &Document, max: &Document) -> Result<KeyRange> {
        Ok(KeyRange { key: key.clone(), min: key.bound(min)?, max: key.bound(max)? })
    }

    /// Whether the two have any key in common.
    pub(super) fn overlaps(&self, other: &KeyRange) -> bool {
        self.min < other.max && other.min < self.max
    }

    /// Whether a document lies in it.
    pub(super) fn holds(&self, document: &RawDocument) -> bool {
        self.key.key_of(document).is_ok_and(|key| self.min <= key && key < self.max)
    }

    /// The way to its documents.
    pub(super) fn plan(&self, state: &State) -> Plan {
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
