//! Changes to the cluster: adds and removes shards, shards and drops collections, splits and moves chunks.
//!
//! Each change holds the cluster's lock for its object, and orders its writes so that it may be interrupted at any point: a
//! half-finished change is either not visible yet or is completed when it is repeated.

mod chunks;
mod collections;
mod shards;

use bson::{DateTime, Document, Timestamp, doc, oid::ObjectId};

pub(crate) use chunks::{SplitPoint, move_chunk, split};
pub(crate) use collections::{
    ShardCollection, check_unique, drop_database, drop_sharded, enable_sharding, shard_collection,
};
pub(crate) use shards::{Removal, add_shard, remove_shard};

use crate::Result;
use crate::instance::Instance;
use crate::request::SendPolicy;

/// The current time as `history` stores it.
fn now() -> Timestamp {
    let seconds = DateTime::now().timestamp_millis() / 1000;
    Timestamp { time: u32::try_from(seconds).unwrap_or(u32::MAX), increment: 1 }
}

/// Notes a change in `config.changelog`; a failure to write the note is only logged.
fn note(instance: &Instance, what: &str, namespace: &str, details: Document) {
    let entry = doc! {
        "_id": format!("{}-{}-{}", instance.name(), DateTime::now().try_to_rfc3339_string().unwrap_or_default(), ObjectId::new()),
        "server": instance.name(),
        "clientAddr": "",
        "time": DateTime::now(),
        "what": what,
        "ns": namespace,
        "details": details,
    };
    if let Err(failure) = instance.cluster.config().config_insert("changelog", vec![entry]) {
        let attributes = doc! { "error": failure.message() };
        instance.log.warning("SHARDING", 22079, "changelog", "A change could not be noted", attributes);
    }
}

/// Has every shard forget its routing table of a collection.
fn tell_shards(instance: &Instance, namespace: &str) -> Result<()> {
    for shard in instance.cluster.shards() {
        let command = doc! { "_flushRoutingTableCacheUpdates": namespace };
        shard.backend.command("admin", &command, &SendPolicy { idempotent: true, ..SendPolicy::write() })?;
    }
    Ok(())
}
