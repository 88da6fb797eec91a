//! The TTL monitor: removes documents whose date in a TTL index is older than the index allows.
//!
//! Each `ttlMonitorSleepSecs` (60) it goes over all TTL indexes, unless `ttlMonitorEnabled` is off. Of an array the earliest
//! date counts; what is no date never expires; a partial index lets only its own documents expire. Each document goes in
//! a transaction of its own, as in mongod, and a batch holds a write ticket, so that the monitor stands in line with
//! the clients. Capped collections and hashed indexes are passed over: nothing can expire there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Bson, DateTime, Document, doc};
use fathom_query::{Code, FieldKind, Hint};

use super::{Index, State};
use crate::Result;
use crate::client::Client;
use crate::execution::{Target, delete_some};
use crate::instance::Instance;
use crate::operation::Operation;

/// Documents between two looks at whether somebody wants the collection for himself.
const BATCH: usize = 500;

/// Removes what expires until the server stops.
pub(super) fn watch(instance: &Arc<Instance>) {
    let mut last = Instant::now();
    loop {
        let heard = instance.bell.rings();
        if instance.is_stopping() {
            return;
        }
        let due = last.checked_add(Duration::from_secs(instance.parameters.ttl_monitor_sleep_secs()));
        if due.is_none_or(|due| Instant::now() < due) {
            instance.bell.sleep_since(heard, due);
            continue;
        }
        last = Instant::now();
        // The primary removes; other members follow.
        let follows = instance.set.as_ref().is_some_and(|set| !set.is_writable());
        if follows || !instance.parameters.ttl_monitor_enabled() {
            continue;
        }
        if let Err(failure) = pass(instance)
            && !instance.is_stopping()
        {
            let error = doc! { "error": failure.message() };
            instance.log.warning("INDEX", 22538, "TTLMonitor", "Error removing expired documents", error);
        }
        instance.counters.ttl_passes.add(1);
    }
}

/// Goes once over all TTL indexes.
fn pass(instance: &Arc<Instance>) -> Result<()> {
    let session = instance.engine.session()?;
    let client = Client::internal();
    let mut op = Operation::new(instance, &*session, &client);
    for collection in instance.catalog.all() {
        let names: Vec<String> = {
            let state = op.lock(&collection)?;
            let expiring = state.indexes.iter().filter(|index| index.expire_after_seconds().is_some());
            expiring.map(|index| index.name().to_owned()).collect()
        };
        if collection.limits().is_some() {
            continue;
        }
        for name in names {
            expire(&mut op, collection.namespace(), &name)?;
        }
    }
    Ok(())
}

/// Removes what expires by one index.
fn expire(op: &mut Operation<'_>, namespace: &str, name: &str) -> Result<()> {
    loop {
        op.check_interrupt()?;
        let ticket = op.write_ticket()?;
        let deleted = match delete_some(op, namespace, BATCH, &|state| target(state, name)) {
            // The index or the collection went while we looked.
            Err(failure) if failure.code() == Code::QueryPlanKilled => return Ok(()),
            other => other?,
        };
        drop(ticket);
        op.instance.counters.ttl_deleted.add(deleted);
        op.instance.counters.documents_deleted.add(deleted);
        if deleted < BATCH as u64 {
            return Ok(());
        }
    }
}

/// What expires now by an index, found through that index; none if it is gone.
fn target(state: &State, name: &str) -> Result<Option<Target>> {
    let Some(index) = state.index(name) else { return Ok(None) };
    let Some(filter) = expired(index) else { return Ok(None) };
    let filter = crate::parse::filter_of(&filter)?;
    Ok(Some(Target { filter, hint: Some(Hint::Name(name.to_owned())), sort: None }))
}

fn expired(index: &Index) -> Option<Document> {
    let [field] = index.pattern().fields.as_slice() else { return None };
    if field.kind == FieldKind::Hashed {
        return None;
    }
    let age_ms = index.expire_after_seconds()?.saturating_mul(1000);
    let oldest = DateTime::from_millis(DateTime::now().timestamp_millis().saturating_sub(age_ms));
    // Only dates are compared with a date.
    let old = doc! { &field.path: { "$lte": oldest } };
    Some(match index.spec().partial() {
        None => old,
        Some(partial) => doc! { "$and": [Bson::Document(old), Bson::Document(partial.clone())] },
    })
}
