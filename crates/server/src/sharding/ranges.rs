//! The documents of a range of shard keys: walked by the index on the shard key where one fits, else among all documents.

use std::sync::Arc;

use bson::{Document, RawDocument};
use fathom_query::{Access, FieldKind, Filter, Plan, Range, Variables};
use fathom_sharding::{Ownership, ShardKey};

use crate::Result;
use crate::execution::{DeleteRequest, Fetch, Flow, Scan, Target, delete};
use crate::operation::Operation;
use crate::parse;
use crate::storage::{Collection, State};

/// How many documents are looked for before they are deleted.
const BATCH: usize = 500;

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
    fn plan(&self, state: &State) -> Plan {
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

/// Hands every document of a range over, in snapshots that are renewed now and then.
pub(super) fn walk(
    op: &mut Operation<'_>,
    collection: &Collection,
    range: &KeyRange,
    take: &mut dyn FnMut(&RawDocument) -> Result<Flow>,
) -> Result<()> {
    let state = op.lock(collection)?;
    if state.gone {
        return Err(crate::execution::gone(collection.namespace()));
    }
    let everything = Filter::parse(parse::empty(), &Variables::at(bson::DateTime::now()))?;
    let mut scan = Scan::new(&range.plan(&state), &state, &everything, Fetch::Record)?;
    scan.run(op, collection, &mut |found| match range.holds(found.document) {
        true => take(found.document),
        false => Ok(Flow::More),
    })
}

/// Deletes the documents of a range that the shard does not own, but for those in the ranges to `spare`; how many there were.
pub(super) fn delete_range(
    op: &mut Operation<'_>,
    owned: &Arc<Ownership>,
    range: &KeyRange,
    spare: &[KeyRange],
) -> Result<u64> {
    let mut deleted = 0;
    loop {
        let Some(collection) = op.instance.catalog.get(owned.namespace()) else { return Ok(deleted) };
        let mut ids = Vec::new();
        walk(op, &collection, range, &mut |document| {
            let stays = owned.owns(document) || spare.iter().any(|range| range.holds(document));
            if let (false, Some(id)) = (stays, parse::field(document, "_id")) {
                ids.push(parse::owned_value(id)?);
            }
            Ok(if ids.len() < BATCH { Flow::More } else { Flow::Enough })
        })?;
        let before = deleted;
        for id in ids {
            op.check_interrupt()?;
            let filter = parse::filter_of(&bson::doc! { "_id": { "$eq": id } })?;
            let target = Target { filter, hint: None, sort: None };
            deleted += delete(op, owned.namespace(), &DeleteRequest { target, multi: false })?;
        }
        if deleted == before {
            return Ok(deleted);
        }
    }
}
