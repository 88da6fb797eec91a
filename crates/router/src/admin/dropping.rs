//! Sharded collections and whole databases go: first what the shards have, then what the config servers say of it, so that an
//! interrupted drop can be done again.

use std::sync::Arc;

use bson::{DateTime, doc};
use fathom_wire::Code;

use super::{note, tell_shards};
use crate::Result;
use crate::instance::Instance;
use crate::locks;
use crate::sending::Sending;

/// Drops a sharded collection.
pub(crate) fn drop_sharded(instance: &Arc<Instance>, namespace: &str) -> Result<()> {
    let _held = locks::hold(instance, namespace, "drop")?;
    drop_locked(instance, namespace)
}

fn drop_locked(instance: &Arc<Instance>, namespace: &str) -> Result<()> {
    let Some((database, collection)) = namespace.split_once('.') else { return Ok(()) };
    note(instance, "dropCollection.start", namespace, doc! {});
    instance.cluster.reload()?;
    for shard in instance.cluster.shards() {
        let dropped = shard.backend.command(database, &doc! { "drop": collection }, &Sending::write());
        match dropped {
            Err(failure) if failure.code() != Code::NamespaceNotFound => return Err(failure),
            _ => {}
        }
    }
    let config = instance.cluster.config();
    let change = doc! { "$set": { "dropped": true, "lastmod": DateTime::now() } };
    config.config_update("collections", doc! { "_id": namespace }, change, false)?;
    config.config_delete("chunks", doc! { "ns": namespace })?;
    instance.catalog.forget(namespace);
    tell_shards(instance, namespace)?;
    note(instance, "dropCollection", namespace, doc! {});
    Ok(())
}

/// Drops a database with all its collections; whether there was one.
pub(crate) fn drop_database(instance: &Arc<Instance>, database: &str) -> Result<bool> {
    let _held = locks::hold(instance, database, "dropDatabase")?;
    instance.catalog.forget_all_of(database);
    let Some(entry) = instance.catalog.database(&instance.cluster, database)? else { return Ok(false) };
    note(instance, "dropDatabase.start", database, doc! {});
    let config = instance.cluster.config();
    for collection in
        config.config_find("collections", doc! { "dropped": { "$ne": true } }, doc! { "_id": 1 })?
    {
        let namespace = collection.get_str("_id").unwrap_or_default().to_owned();
        if namespace.split_once('.').is_some_and(|(name, _)| name == database) {
            let _held = locks::hold(instance, &namespace, "dropDatabase")?;
            drop_locked(instance, &namespace)?;
        }
    }
    instance.cluster.reload()?;
    let primary = instance.cluster.shard(&entry.primary)?;
    for shard in instance.cluster.shards().into_iter().map(|shard| shard.backend).chain([primary]) {
        shard.command(database, &doc! { "dropDatabase": 1 }, &Sending::write())?;
    }
    config.config_delete("databases", doc! { "_id": database })?;
    instance.catalog.forget_all_of(database);
    for shard in instance.cluster.shards() {
        let command = doc! { "_flushDatabaseCacheUpdates": database };
        shard.backend.command("admin", &command, &Sending { idempotent: true, ..Sending::write() })?;
    }
    note(instance, "dropDatabase", database, doc! {});
    Ok(true)
}
