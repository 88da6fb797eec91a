//! `removeShard`: the balancer takes its chunks away, its databases must be dropped, and then it is gone. Asked several times, it
//! says how far it is.

use std::sync::Arc;

use bson::doc;
use fathom_wire::{Code, Failure};

use super::note;
use crate::Result;
use crate::instance::Instance;
use crate::locks;

/// What is still on the shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) chunks: i64,
    pub(crate) databases: Vec<String>,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Started(Left),
    Ongoing(Left),
    Completed,
}

/// Begins to remove a shard, or finishes it where nothing is left there.
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

fn left(instance: &Instance, shard: &str) -> Result<Left> {
    let config = instance.cluster.config();
    let chunks = config.config_find("chunks", doc! { "shard": shard }, doc! {})?;
    let databases = config.config_find("databases", doc! { "primary": shard }, doc! { "_id": 1 })?;
    let names = databases.iter().filter_map(|database| database.get_str("_id").ok().map(str::to_owned));
    Ok(Left { chunks: i64::try_from(chunks.len()).unwrap_or(i64::MAX), databases: names.collect() })
}
