//! A router's periodic work: it reports that it is alive, reads the list of shards, and closes unused cursors.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Bson, DateTime, doc, oid::ObjectId};
use fathom_wire::Code;

use crate::Result;
use crate::instance::Instance;
use crate::locks;

/// The pause between two rounds; mongos has 10 s for its ping and 30 s for its shards.
const PERIOD: Duration = Duration::from_secs(10);
/// The version of the metadata, as in 4.0 to 4.4.
const METADATA: (i32, i32) = (5, 6);

/// Prepares the state that the first command needs: the cluster's id, and the list of shards.
pub(crate) fn begin(instance: &Instance) -> Result<()> {
    let config = instance.cluster.config();
    let (least, current) = METADATA;
    if config.config_get("version", 1)?.is_none() {
        let version = doc! {
            "_id": 1, "minCompatibleVersion": least, "currentVersion": current, "clusterId": ObjectId::new(),
        };
        match config.config_insert("version", vec![version]) {
            Err(failure) if failure.code() != Code::DuplicateKey => return Err(failure),
            _ => {}
        }
        make_indexes(instance)?;
    }
    locks::release_own(instance)?;
    instance.cluster.reload()?;
    ping(instance)
}

/// Creates the indexes that MongoDB's config servers have.
fn make_indexes(instance: &Instance) -> Result<()> {
    let index =
        |name: &str, key: bson::Document| Bson::Document(doc! { "name": name, "key": key, "unique": true });
    for (collection, indexes) in [
        (
            "chunks",
            vec![
                index("ns_1_min_1", doc! { "ns": 1, "min": 1 }),
                index("ns_1_shard_1_min_1", doc! { "ns": 1, "shard": 1, "min": 1 }),
            ],
        ),
        ("shards", vec![index("host_1", doc! { "host": 1 })]),
    ] {
        instance
            .cluster
            .config()
            .change("config", doc! { "createIndexes": collection, "indexes": indexes })?;
    }
    Ok(())
}

fn ping(instance: &Instance) -> Result<()> {
    locks::ping(instance)?;
    let up = i64::try_from(instance.started.elapsed().as_secs()).unwrap_or(i64::MAX);
    let change = doc! {
        "$set": {
            "ping": DateTime::now(), "up": up, "waiting": true, "mongoVersion": &instance.config.claimed_version,
            "advisoryHostFQDNs": [],
        },
    };
    instance.cluster.config().config_update("mongos", doc! { "_id": instance.name() }, change, true)?;
    Ok(())
}

/// Runs until the router stops.
pub(crate) fn run(instance: &Arc<Instance>) {
    let mut last = Instant::now();
    while !instance.is_stopping() {
        instance.rest(PERIOD.saturating_sub(last.elapsed()));
        if instance.is_stopping() {
            return;
        }
        last = Instant::now();
        instance.cursors.reap();
        // Config servers that do not answer are asked again in the next round; until then, commands report the failure to their clients.
        let round = ping(instance).and_then(|()| instance.cluster.reload());
        if let Err(failure) = round {
            let attributes = doc! { "error": failure.message() };
            instance.log.warning(
                "SHARDING",
                22741,
                "Uptime-reporter",
                "The config servers do not answer",
                attributes,
            );
        }
    }
}
