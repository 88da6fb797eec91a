//! Documents that are here and not the shard's own: they go when nobody reads them any more, and never while their chunk is coming
//! back.
//!
//! One thread at a time deletes, by an ownership that it reads while nothing new can begin to come; ranges that are coming already
//! are left alone.
//!
//! The documents of a range are walked by the index on the shard key where one fits, else among all documents.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::oid::ObjectId;
use bson::{Document, RawDocument, doc};
use fathom_query::{Code, Failure, Filter, Variables};
use fathom_sharding::Ownership;

use super::ownership::ownership;
use crate::Result;
use crate::client::Client;
use crate::cursors::{Fetch, Scan};
use crate::execution::{DeleteRequest, Flow, Target, delete};
use crate::instance::Instance;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::sharding_state::{KeyRange, Sharding};
use crate::storage::Collection;

/// How many documents are looked for before they are deleted.
const BATCH: usize = 500;

/// Hands every document of a range over, in snapshots that are renewed now and then.
pub(super) fn walk(
    op: &mut OperationContext<'_>,
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

/// How long those are waited for who read by what was, before documents that have gone are left to `cleanupOrphaned`.
const READERS: Duration = Duration::from_secs(15 * 60);
/// The same before a chunk comes back: the giver waits for it.
const READERS_OF_THE_COMING: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// Makes room for a chunk that is coming: what is left of an earlier attempt goes. A chunk that the shard owns does not come.
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
    wait_for_readers(sharding, (namespace, newest), READERS_OF_THE_COMING, &|| op.check_interrupt())?;
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

/// A chunk has come.
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

/// A chunk does not come: what has come of it goes.
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

/// Deletes all documents of a collection that are not the shard's own; how many there were.
pub(crate) fn clean_up(op: &mut OperationContext<'_>, namespace: &str) -> Result<u64> {
    let sharding = &op.instance.sharding;
    must_be_sharded(op, namespace)?;
    let newest = sharding.known.newest(namespace);
    wait_for_readers(sharding, (namespace, newest), READERS, &|| op.check_interrupt())?;
    let _alone = sharding.housekeeping.alone.lock();
    let owned = must_be_sharded(op, namespace)?;
    let (min, max) = (owned.key().outermost(bson::Bson::MinKey), owned.key().outermost(bson::Bson::MaxKey));
    let range = KeyRange::new(owned.key(), &min, &max)?;
    delete_range(op, &owned, &range, &sharding.housekeeping.coming_to(namespace))
}

/// A chunk that has gone, and the number of the first ownership without it.
#[derive(Clone, Debug)]
pub(super) struct Gone {
    pub(super) namespace: String,
    pub(super) epoch: ObjectId,
    pub(super) min: Document,
    pub(super) max: Document,
    pub(super) since: u64,
}

/// Deletes what has gone, once nobody reads by an older ownership.
pub(super) fn delete_gone(op: &mut OperationContext<'_>, gone: &Gone) -> Result<()> {
    let sharding = &op.instance.sharding;
    wait_for_readers(sharding, (&gone.namespace, gone.since), READERS, &|| op.check_interrupt())?;
    let _alone = sharding.housekeeping.alone.lock();
    // It may have come back, or the collection be another by now.
    let Some(owned) = ownership(op, &gone.namespace)? else { return Ok(()) };
    if owned.version().epoch != gone.epoch {
        return Ok(());
    }
    let range = KeyRange::new(owned.key(), &gone.min, &gone.max)?;
    delete_range(op, &owned, &range, &sharding.housekeeping.coming_to(&gone.namespace)).map(drop)
}

/// The same in a thread of its own.
pub(super) fn delete_later(instance: &Arc<Instance>, gone: Gone) {
    let weak = Arc::downgrade(instance);
    let run = move || {
        let Some(instance) = weak.upgrade() else { return };
        let deleted = instance.engine.session().map_err(Failure::from).and_then(|session| {
            let client = Client::internal();
            delete_gone(&mut OperationContext::new(&instance, &*session, &client), &gone)
        });
        if let Err(failure) = deleted {
            let attributes = doc! { "namespace": &gone.namespace, "error": failure.message() };
            let what = "Documents of a chunk that has gone are still here; cleanupOrphaned removes them";
            instance.log.warning("SHARDING", 21990, "range-deleter", what, attributes);
        }
    };
    // Without a thread they stay, and are kept out of every answer.
    let _ = std::thread::Builder::new().name("range-deleter".to_owned()).spawn(run);
}

fn must_be_sharded(op: &OperationContext<'_>, namespace: &str) -> Result<Arc<Ownership>> {
    ownership(op, namespace)?.ok_or_else(|| {
        Failure::new(Code::NamespaceNotSharded, format!("Collection {namespace} is not sharded."))
    })
}

/// Waits until nobody reads a collection by an ownership from before a number.
fn wait_for_readers(
    sharding: &Sharding,
    (namespace, number): (&str, u64),
    most: Duration,
    check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let until = Instant::now() + most;
    while sharding.known.is_read_by_older(namespace, number) {
        if Instant::now() >= until {
            let what = "a cursor still reads documents of a chunk that has gone";
            return Err(Failure::new(Code::ConflictingOperationInProgress, what));
        }
        check()?;
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
