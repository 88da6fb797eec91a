//! Cluster-wide locks, kept as documents of `config.locks`: only one router at a time changes a collection, a database or the list
//! of shards, or balances.
//!
//! The holder of a lock reports every few seconds in `config.lockpings` that it is alive. The lock of a router that has been silent
//! for a minute is taken over; its work was written so that it may stop at any point.

use std::time::{Duration, Instant};

use bson::{Bson, DateTime, doc, oid::ObjectId};
use fathom_wire::{Code, Failure};

use crate::Result;
use crate::instance::Instance;
use crate::request::SendPolicy;

/// The time of silence after which a router's locks may be taken over.
const TAKEOVER_TIMEOUT_MS: i64 = 60_000;
/// The longest wait for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(100);

/// A lock that is held until this value is dropped.
#[derive(Debug)]
pub(crate) struct LockGuard<'i> {
    instance: &'i Instance,
    name: String,
    session: ObjectId,
}

/// Takes a lock, waiting for a while for its present holder.
pub(crate) fn hold<'i>(instance: &'i Instance, name: &str, why: &str) -> Result<LockGuard<'i>> {
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        match try_hold(instance, name, why)? {
            Ok(held) => return Ok(held),
            Err(holder) if Instant::now() >= until || instance.is_stopping() => {
                let what = format!("timed out waiting for the lock of {name}, which {holder} holds");
                return Err(Failure::new(Code::LockBusy, what));
            }
            Err(_) => instance.rest(PAUSE),
        }
    }
}

/// Takes a lock if it is free; the inner error names its holder.
pub(crate) fn try_hold<'i>(
    instance: &'i Instance,
    name: &str,
    why: &str,
) -> Result<std::result::Result<LockGuard<'i>, String>> {
    let config = instance.cluster.config();
    let session = ObjectId::new();
    let taken = doc! {
        "state": 2, "ts": session, "process": instance.name(), "who": instance.name(), "why": why,
        "when": DateTime::now(),
    };
    let held = || LockGuard { instance, name: name.to_owned(), session };
    let free = config.config_update(
        "locks",
        doc! { "_id": name, "state": 0 },
        doc! { "$set": taken.clone() },
        false,
    )?;
    if free.matched > 0 {
        return Ok(Ok(held()));
    }
    let mut document = doc! { "_id": name };
    document.extend(taken.clone());
    match config.config_insert("locks", vec![document]) {
        Ok(()) => return Ok(Ok(held())),
        Err(failure) if failure.code() == Code::DuplicateKey => {}
        Err(failure) => return Err(failure),
    }
    let Some(found) = config.config_get("locks", name)? else { return Ok(Err("another router".to_owned())) };
    let holder = found.get_str("process").unwrap_or("another router").to_owned();
    let ping = config.config_get("lockpings", holder.as_str())?;
    let since = |document: &bson::Document, field: &str| {
        document.get_datetime(field).map_or(0, |time| time.timestamp_millis())
    };
    let heard = ping.map_or(0, |ping| since(&ping, "ping")).max(since(&found, "when"));
    if DateTime::now().timestamp_millis() - heard > TAKEOVER_TIMEOUT_MS {
        let same = doc! { "_id": name, "ts": found.get("ts").cloned().unwrap_or(Bson::Null) };
        if config.config_update("locks", same, doc! { "$set": taken }, false)?.matched > 0 {
            return Ok(Ok(held()));
        }
    }
    Ok(Err(holder))
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        let filter = doc! { "_id": &self.name, "ts": self.session };
        let freed = doc! { "$set": { "state": 0 } };
        // If the lock cannot be released, the next router takes it over after a while.
        let _ = self.instance.cluster.config().config_update("locks", filter, freed, false);
    }
}

/// Reports that this router is alive.
pub(crate) fn ping(instance: &Instance) -> Result<()> {
    let change = doc! { "$set": { "ping": DateTime::now() } };
    instance.cluster.config().config_update("lockpings", doc! { "_id": instance.name() }, change, true)?;
    Ok(())
}

/// Releases the locks that an earlier run of this router held.
pub(crate) fn release_own(instance: &Instance) -> Result<()> {
    let update = doc! { "q": { "process": instance.name() }, "u": { "$set": { "state": 0 } }, "multi": true };
    let command = doc! { "update": "locks", "updates": [update] };
    instance.cluster.config().command("config", &command, &SendPolicy::write())?;
    Ok(())
}
