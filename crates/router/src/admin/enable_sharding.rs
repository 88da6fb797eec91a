//! `enableSharding`: the collections of a database may be sharded from now on.

use std::sync::Arc;

use bson::doc;
use fathom_wire::{Code, Failure};

use crate::Result;
use crate::instance::Instance;
use crate::locks;

/// Enables it, making the database where there is none, on `primary` if that is named.
pub(crate) fn enable_sharding(instance: &Arc<Instance>, database: &str, primary: Option<&str>) -> Result<()> {
    if matches!(database, "admin" | "local" | "config") {
        let what = format!("can't shard {database} database");
        return Err(Failure::new(Code::InvalidOptions, what));
    }
    if database.contains(['/', '\\', '.', ' ', '"', '$', '\0']) || database.len() > 63 {
        return Err(Failure::new(Code::InvalidNamespace, format!("invalid db name specified: {database}")));
    }
    let _held = locks::hold(instance, database, "enableSharding")?;
    if let Some(primary) = primary {
        instance.cluster.shard(primary)?;
    }
    let entry = match (instance.catalog.database(&instance.cluster, database)?, primary) {
        (None, Some(primary)) => instance.catalog.create(&instance.cluster, database, primary, true)?,
        (None, None) => instance.catalog.database_or_new(&instance.cluster, database)?,
        (Some(entry), _) => entry,
    };
    if let Some(primary) = primary.filter(|primary| *primary != entry.primary) {
        let what = format!(
            "database {database} is on the shard {} already, and cannot be made on {primary}",
            entry.primary
        );
        return Err(Failure::new(Code::NamespaceExists, what));
    }
    if !entry.partitioned {
        let change = doc! { "$set": { "partitioned": true } };
        instance.cluster.config().config_update("databases", doc! { "_id": database }, change, false)?;
        instance.catalog.forget_database(database);
    }
    Ok(())
}
