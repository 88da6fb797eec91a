//! The documents of a range of shard keys: walked by the index on the shard key where one fits, else among all documents.

use std::sync::Arc;

use bson::RawDocument;
use fathom_query::{Filter, Variables};
use fathom_sharding::Ownership;

use super::key_range::KeyRange;
use crate::Result;
use crate::execution::{DeleteRequest, Fetch, Flow, Scan, Target, delete};
use crate::operation::Operation;
use crate::parse;
use crate::storage::Collection;

/// How many documents are looked for before they are deleted.
const BATCH: usize = 500;

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
