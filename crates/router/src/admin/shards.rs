//! Adds and removes shards (mongodb/mongo@v4.0:src/mongo/db/s/config/sharding_catalog_manager_shard_operations.cpp). A server or a
//! replica set becomes a shard with the databases that it has. The balancer moves the chunks off a shard that is being removed; its
//! databases must be dropped. Repeated calls of `removeShard` report the progress.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use fathom_client::AddressList;
use fathom_wire::{Code, Failure};

use super::note;
use crate::Result;
use crate::backend::Backend;
use crate::instance::Instance;
use crate::locks;
use crate::request::SendPolicy;

fn refused<T>(what: String) -> Result<T> {
    Err(Failure::new(Code::OperationFailed, what))
}

/// `addShard`: a server or a replica set becomes a shard, with the databases that it has
/// (mongodb/mongo@v4.0:src/mongo/db/s/config/sharding_catalog_manager_shard_operations.cpp).
///
/// Adds a shard and returns its name.
pub(crate) fn add_shard(instance: &Arc<Instance>, hosts: &str, name: Option<&str>) -> Result<String> {
    let hosts: AddressList = hosts
        .parse()
        .map_err(|error: fathom_errors::Error| Failure::new(Code::FailedToParse, error.to_string()))?;
    let _held = locks::hold(instance, "shards", "addShard")?;
    instance.cluster.reload()?;
    if let Some(known) = known(instance, &hosts, name)? {
        return Ok(known);
    }
    let backend = Backend::new("the new shard", hosts.clone());
    check_role(&backend)?;
    let name = match name {
        Some("config" | "admin" | "local") => {
            return Err(Failure::new(
                Code::BadValue,
                "use of shard replica set with name 'config' is not allowed",
            ));
        }
        Some(name) => name.to_owned(),
        None => hosts.set.clone().unwrap_or_else(|| free_name(instance)),
    };
    let databases = databases_of(&backend)?;
    for database in &databases {
        if let Some(there) = instance.cluster.config().config_get("databases", database.as_str())? {
            return refused(format!(
                "can't add shard '{hosts}' because a local database '{database}' exists in another {}",
                there.get_str("primary").unwrap_or_default()
            ));
        }
    }
    identify(instance, &backend, &name)?;
    let shard = doc! { "_id": &name, "host": hosts.to_string(), "state": 1 };
    instance.cluster.config().config_insert("shards", vec![shard])?;
    instance.cluster.reload()?;
    for database in &databases {
        instance.catalog.create(&instance.cluster, database, &name, false)?;
    }
    note(instance, "addShard", "", doc! { "name": &name, "host": hosts.to_string() });
    Ok(name)
}

/// The name of the shard if it already belongs to the cluster; a different name, or the name of another shard, is refused.
fn known(instance: &Instance, hosts: &AddressList, name: Option<&str>) -> Result<Option<String>> {
    for shard in instance.cluster.shards() {
        let theirs = shard.backend.hosts();
        let same_set = theirs.set.is_some() && theirs.set == hosts.set;
        let shared = theirs.addresses.iter().any(|address| hosts.addresses.contains(address));
        let same_name = name.is_none_or(|name| name == shard.backend.id());
        if (same_set || shared) && same_name && theirs.set == hosts.set {
            return Ok(Some(shard.backend.id().to_owned()));
        }
        if same_set || shared || name == Some(shard.backend.id()) {
            let what = format!("A shard named {} with hosts '{theirs}' already exists", shard.backend.id());
            return Err(Failure::new(Code::IllegalOperation, what));
        }
    }
    Ok(None)
}

fn free_name(instance: &Instance) -> String {
    let shards = instance.cluster.shards();
    (0..=shards.len())
        .map(|number| format!("shard{number:04}"))
        .find(|name| shards.iter().all(|shard| shard.backend.id() != name))
        .unwrap_or_default()
}

/// Refuses a server that is no shard server, and a member of another set than the one named.
fn check_role(backend: &Backend) -> Result<()> {
    let hosts = backend.hosts();
    let hello = backend.command("admin", &doc! { "isMaster": 1 }, &SendPolicy::read())?;
    if hello.get_str("msg").is_ok_and(|message| message == "isdbgrid") {
        return refused(format!("can't add shard '{hosts}' because it is a mongos"));
    }
    if hello.contains_key("configsvr") {
        return refused(format!("Cannot add {hosts} as a shard since it is a config server"));
    }
    if let (Ok(set), None) = (hello.get_str("setName"), &hosts.set) {
        return refused(format!(
            "host is part of set {set}; use replica set url format <setname>/<server1>,<server2>, ..."
        ));
    }
    Ok(())
}

/// The databases that the server brings with it.
fn databases_of(backend: &Backend) -> Result<Vec<String>> {
    let reply = backend.command("admin", &doc! { "listDatabases": 1 }, &SendPolicy::read())?;
    let databases = reply.get_array("databases").into_iter().flatten().filter_map(Bson::as_document);
    let names = databases.filter_map(|database| database.get_str("name").ok());
    Ok(names.filter(|name| !matches!(*name, "local" | "admin" | "config")).map(str::to_owned).collect())
}

/// The time within which a majority of a new shard's members must confirm its identity.
const MAJORITY_TIMEOUT_MS: i32 = 60_000;

/// Tells the server which shard of which cluster it is, with a write concern that survives a failover.
fn identify(instance: &Instance, backend: &Backend, name: &str) -> Result<()> {
    let version = instance.cluster.config().config_get("version", 1)?;
    let cluster = version.and_then(|version: Document| version.get_object_id("clusterId").ok());
    let cluster =
        cluster.ok_or_else(|| Failure::new(Code::InternalError, "config.version has no clusterId"))?;
    let identity = doc! {
        "_id": "shardIdentity",
        "shardName": name,
        "clusterId": cluster,
        "configsvrConnectionString": instance.config.config_db.to_string(),
    };
    let majority = doc! { "w": "majority", "wtimeout": MAJORITY_TIMEOUT_MS };
    let command = doc! { "_addShard": 1, "shardIdentity": identity, "writeConcern": majority };
    backend.change("admin", command).map(drop)
}

/// The data that remain on the shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemainingData {
    pub(crate) chunks: i64,
    pub(crate) databases: Vec<String>,
}

/// The progress of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Started(RemainingData),
    Ongoing(RemainingData),
    Completed,
}

/// `removeShard`: the balancer moves the shard's chunks away, its databases must be dropped, and then the shard is removed.
/// Repeated calls report the progress.
///
/// Begins to remove a shard, or completes the removal if no data remain on it.
pub(crate) fn remove_shard(instance: &Arc<Instance>, shard: &str) -> Result<Removal> {
    let _held = locks::hold(instance, "shards", "removeShard")?;
    instance.cluster.reload()?;
    let config = instance.cluster.config();
    let shards = instance.cluster.shards();
    let unknown = || Failure::new(Code::ShardNotFound, format!("Shard {shard} does not exist"));
    let known = shards.iter().find(|known| known.backend.id() == shard).ok_or_else(unknown)?;
    if !known.draining {
        let staying = shards.iter().filter(|other| !other.draining && other.backend.id() != shard).count();
        if staying == 0 {
            let what = "Operation not allowed because it would remove the last shard";
            return Err(Failure::new(Code::IllegalOperation, what));
        }
        let change = doc! { "$set": { "draining": true } };
        config.config_update("shards", doc! { "_id": shard }, change, false)?;
        instance.cluster.reload()?;
        note(instance, "removeShard.start", "", doc! { "shard": shard });
        return Ok(Removal::Started(left(instance, shard)?));
    }
    let left = left(instance, shard)?;
    if left.chunks > 0 || !left.databases.is_empty() {
        return Ok(Removal::Ongoing(left));
    }
    config.config_delete("shards", doc! { "_id": shard })?;
    instance.cluster.reload()?;
    note(instance, "removeShard", "", doc! { "shard": shard });
    Ok(Removal::Completed)
}

fn left(instance: &Instance, shard: &str) -> Result<RemainingData> {
    let config = instance.cluster.config();
    let chunks = config.config_find("chunks", doc! { "shard": shard }, doc! {})?;
    let databases = config.config_find("databases", doc! { "primary": shard }, doc! { "_id": 1 })?;
    let names = databases.iter().filter_map(|database| database.get_str("_id").ok().map(str::to_owned));
    Ok(RemainingData { chunks: i64::try_from(chunks.len()).unwrap_or(i64::MAX), databases: names.collect() })
}
