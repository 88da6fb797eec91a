//! Deletes orphans, the documents on this shard that it does not own. They are deleted once no operation reads them any more, and never
//! while their chunk is returning.
//!
//! One thread at a time deletes. It reads the ownership while no new chunk can begin to arrive; ranges that are already arriving
//! are left alone.
//!
//! The documents of a range are found by the index on the shard key if one exists, otherwise by a scan of all documents.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::oid::ObjectId;
use bson::{Document, RawDocument, doc};
use fathom_query::{Code, Failure, Filter, Variables};
use fathom_sharding::Ownership;

use super::ownership::ownership;
use crate::Result;
use crate::client::Client;
use crate::cursors::{CollectionScan, Fetch};
use crate::execution::{DeleteRequest, ScanFlow, WriteTarget, delete};
use crate::instance::Instance;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::sharding_state::{KeyRange, Sharding};
use crate::storage::Collection;

/// The number of documents found before they are deleted.
const BATCH: usize = 500;

/// Passes every document of a range on, in snapshots that are renewed periodically.
pub(super) fn walk(
    op: &mut OperationContext<'_>,
    collection: &Collection,
    range: &KeyRange,
    take: &mut dyn FnMut(&RawDocument) -> Result<ScanFlow>,
) -> Result<()> {
    let state = op.lock(collection)?;
    if state.gone {
        return Err(crate::execution::gone(collection.namespace()));
    }
    let everything = Filter::parse(parse::empty(), &Variables::at(bson::DateTime::now()))?;
    let mut scan = CollectionScan::new(&range.plan(&state), &state, &everything, Fetch::Record)?;
    scan.run(op, collection, &mut |found| match range.holds(found.document) {
        true => take(found.document),
        false => Ok(ScanFlow::More),
    })
}

/// Deletes the documents of a range that the shard does not own, except those in the ranges to `spare`; returns how many.
pub(super) fn delete_range(
    op: &mut OperationContext<'_>,
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
            Ok(if ids.len() < BATCH { ScanFlow::More } else { ScanFlow::Enough })
        })?;
        let before = deleted;
        for id in ids {
            op.check_interrupt()?;
            let filter = parse::filter_of(&bson::doc! { "_id": { "$eq": id } })?;
            let target = WriteTarget { filter, hint: None, sort: None };
            deleted += delete(op, owned.namespace(), &DeleteRequest { target, multi: false })?;
        }
        if deleted == before {
            return Ok(deleted);
        }
    }
}

/// The time to wait for operations that use an earlier ownership, before the documents of a chunk that has moved are left to `cleanupOrphaned`.
const READERS_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// The same before a chunk returns: the donor waits for it.
const RETURN_READERS_TIMEOUT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// Prepares for an arriving chunk: the remains of an earlier attempt are deleted. A chunk that the shard already owns is refused.
pub(crate) fn expect_range(
    op: &mut OperationContext<'_>,
    namespace: &str,
    min: &Document,
    max: &Document,
) -> Result<()> {
    let sharding = &op.instance.sharding;
    sharding.known.soil(namespace);
    must_be_sharded(op, namespace)?;
    let newest = sharding.known.newest(namespace);
    wait_for_readers(sharding, (namespace, newest), RETURN_READERS_TIMEOUT, &|| op.check_interrupt())?;
    let _alone = sharding.housekeeping.alone.lock();
    let owned = must_be_sharded(op, namespace)?;
    let range = KeyRange::new(owned.key(), min, max)?;
    if owned.overlaps(&range.min, &range.max) {
        let what = format!("the chunk [{min}, {max}) of {namespace} is this shard's own");
        return Err(Failure::new(Code::ConflictingOperationInProgress, what));
    }
    sharding.housekeeping.forget(namespace, &range);
    delete_range(op, &owned, &range, &[])?;
    sharding.housekeeping.coming.lock().push((namespace.to_owned(), range));
    Ok(())
}

/// Records that a chunk has arrived.
pub(crate) fn note_received(
    op: &OperationContext<'_>,
    namespace: &str,
    min: &Document,
    max: &Document,
) -> Result<()> {
    let sharding = &op.instance.sharding;
    sharding.known.forget(namespace);
    let owned = must_be_sharded(op, namespace)?;
    sharding.housekeeping.forget(namespace, &KeyRange::new(owned.key(), min, max)?);
    Ok(())
}

/// Handles the abort of a chunk's migration: its documents that arrived are deleted.
pub(crate) fn give_up_range(
    op: &mut OperationContext<'_>,
    namespace: &str,
    min: &Document,
    max: &Document,
) -> Result<()> {
    let sharding = &op.instance.sharding;
    let _alone = sharding.housekeeping.alone.lock();
    let Some(owned) = ownership(op, namespace)? else { return Ok(()) };
    let range = KeyRange::new(owned.key(), min, max)?;
    sharding.housekeeping.forget(namespace, &range);
    delete_range(op, &owned, &range, &sharding.housekeeping.coming_to(namespace)).map(drop)
}

/// Deletes all documents of a collection that the shard does not own; returns how many.
pub(crate) fn clean_up(op: &mut OperationContext<'_>, namespace: &str) -> Result<u64> {
    let sharding = &op.instance.sharding;
    must_be_sharded(op, namespace)?;
    let newest = sharding.known.newest(namespace);
    wait_for_readers(sharding, (namespace, newest), READERS_TIMEOUT, &|| op.check_interrupt())?;
    let _alone = sharding.housekeeping.alone.lock();
    let owned = must_be_sharded(op, namespace)?;
    let (min, max) = (owned.key().outermost(bson::Bson::MinKey), owned.key().outermost(bson::Bson::MaxKey));
    let range = KeyRange::new(owned.key(), &min, &max)?;
    delete_range(op, &owned, &range, &sharding.housekeeping.coming_to(namespace))
}

/// A chunk that has moved away, and the number of the first ownership without it.
#[derive(Clone, Debug)]
pub(super) struct MigratedChunk {
    pub(super) namespace: String,
    pub(super) epoch: ObjectId,
    pub(super) min: Document,
    pub(super) max: Document,
    pub(super) since: u64,
}

/// Deletes the documents of chunks that moved away, once no operation uses an older ownership.
pub(super) fn delete_gone(op: &mut OperationContext<'_>, gone: &MigratedChunk) -> Result<()> {
    let sharding = &op.instance.sharding;
    wait_for_readers(sharding, (&gone.namespace, gone.since), READERS_TIMEOUT, &|| op.check_interrupt())?;
    let _alone = sharding.housekeeping.alone.lock();
    // The chunk may have returned, or the collection may be a different one by now.
    let Some(owned) = ownership(op, &gone.namespace)? else { return Ok(()) };
    if owned.version().epoch != gone.epoch {
        return Ok(());
    }
    let range = KeyRange::new(owned.key(), &gone.min, &gone.max)?;
    delete_range(op, &owned, &range, &sharding.housekeeping.coming_to(&gone.namespace)).map(drop)
}

/// The same in a thread of its own.
pub(super) fn delete_later(instance: &Arc<Instance>, gone: MigratedChunk) {
    let weak = Arc::downgrade(instance);
    let run = move || {
        let Some(instance) = weak.upgrade() else { return };
        let deleted = instance.engine.session().map_err(Failure::from).and_then(|session| {
            let client = Client::internal();
            delete_gone(&mut OperationContext::new(&instance, &*session, &client), &gone)
        });
        if let Err(failure) = deleted {
            let attributes = doc! { "namespace": &gone.namespace, "error": failure.message() };
            let what =
                "Documents of a chunk that was moved away are still here; cleanupOrphaned removes them";
            instance.log.warning("SHARDING", 21990, "range-deleter", what, attributes);
        }
    };
    // Without a thread the documents stay, and are excluded from every answer.
    let _ = std::thread::Builder::new().name("range-deleter".to_owned()).spawn(run);
}

fn must_be_sharded(op: &OperationContext<'_>, namespace: &str) -> Result<Arc<Ownership>> {
    ownership(op, namespace)?.ok_or_else(|| {
        Failure::new(Code::NamespaceNotSharded, format!("Collection {namespace} is not sharded."))
    })
}

/// Waits until no operation uses an ownership of a collection older than the given number.
fn wait_for_readers(
    sharding: &Sharding,
    (namespace, number): (&str, u64),
    most: Duration,
    check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let until = Instant::now() + most;
    while sharding.known.is_read_by_older(namespace, number) {
        if Instant::now() >= until {
            let what = "a cursor still reads documents of a chunk that was moved away";
            return Err(Failure::new(Code::ConflictingOperationInProgress, what));
        }
        check()?;
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
