//! What the primary shard does when a collection is sharded.

use std::sync::Arc;

use bson::{Document, doc};
use fathom_query::{Code, Failure};
use fathom_sharding::Ownership;

use super::known::Collection;
use crate::Result;
use crate::operation::Operation;

/// What the shard owns of a collection, read anew; none if it is not sharded.
pub(crate) fn ownership(op: &Operation<'_>, namespace: &str) -> Result<Option<Arc<Ownership>>> {
    let identity = op.instance.sharding.must_be_shard(op.instance)?;
    Ok(match op.instance.sharding.known.read(op.instance, &identity, namespace)? {
        Collection::Unsharded => None,
        Collection::Sharded(owned) => Some(owned),
    })
}

/// Writes the collection's entry, which makes it sharded, while the gate is shut. Where chunks lie on other shards there must be
/// no document.
pub(crate) fn commit_collection(
    op: &mut Operation<'_>,
    namespace: &str,
    entry: Document,
    must_be_empty: bool,
) -> Result<()> {
    let identity = op.instance.sharding.must_be_shard(op.instance)?;
    let shut = op.instance.sharding.gates.shut(namespace, &|| op.check_interrupt())?;
    let documents = op.instance.catalog.get(namespace).map_or(0, |collection| collection.records());
    if must_be_empty && documents != 0 {
        let what = format!("{namespace} got documents while it was being sharded; try again");
        return Err(Failure::new(Code::ConflictingOperationInProgress, what));
    }
    let written = identity.config.update("collections", doc! { "_id": namespace }, entry, true);
    op.instance.sharding.known.forget(namespace);
    // All that is here is the shard's own.
    op.instance.sharding.known.note_clean(namespace);
    drop(shut);
    written.map(drop)
}
