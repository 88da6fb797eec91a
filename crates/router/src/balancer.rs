//! The balancer: moves chunks of a collection from the shard with the most to the shard with the fewest, and all chunks off a shard
//! that is being removed. One router at a time runs it.
//!
//! It compares the numbers of chunks, not their sizes, with MongoDB's old thresholds (2, 4 or 8 chunks, by the number of chunks).
//! It does not implement zones, time windows or splitting by size.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bson::doc;
use fathom_sharding::{ChunkRange, CollectionEntry, RoutingTable};

use crate::Result;
use crate::admin;
use crate::cluster::Shard;
use crate::instance::Instance;
use crate::locks;

/// The pause between two rounds, as in mongod's balancer.
const PERIOD: Duration = Duration::from_secs(10);
/// The pause before the next round if this round moved a chunk.
const MOVE_PAUSE: Duration = Duration::from_secs(1);

/// Whether chunks are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BalancerMode {
    Full,
    Off,
}

impl BalancerMode {
    /// The name that `balancerStatus` reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BalancerMode::Full => "full",
            BalancerMode::Off => "off",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BalancerStatus {
    pub(crate) mode: BalancerMode,
    pub(crate) in_round: bool,
    pub(crate) rounds: u64,
}

/// A chunk to move, and the shard that receives it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChunkMove {
    pub(crate) range: ChunkRange,
    pub(crate) to: String,
}

/// The mode that `config.settings` holds.
fn mode(instance: &Instance) -> Result<BalancerMode> {
    let settings = instance.cluster.config().config_get("settings", "balancer")?;
    let off = settings.is_some_and(|settings| {
        settings.get_bool("stopped").unwrap_or(false)
            || settings.get_str("mode").is_ok_and(|mode| mode != BalancerMode::Full.name())
    });
    Ok(if off { BalancerMode::Off } else { BalancerMode::Full })
}

/// Switches the balancer on or off.
pub(crate) fn set_mode(instance: &Instance, mode: BalancerMode) -> Result<()> {
    let change = doc! { "$set": { "mode": mode.name(), "stopped": mode == BalancerMode::Off } };
    instance.cluster.config().config_update("settings", doc! { "_id": "balancer" }, change, true)?;
    Ok(())
}

/// The state of the balancer.
pub(crate) fn status(instance: &Instance) -> Result<BalancerStatus> {
    let (in_round, rounds) = (&instance.balancer.in_round, &instance.balancer.rounds);
    Ok(BalancerStatus {
        mode: mode(instance)?,
        in_round: in_round.load(Ordering::Relaxed),
        rounds: rounds.load(Ordering::Relaxed),
    })
}

/// Waits until this router's round is over, for a bounded time.
pub(crate) fn wait_for_round(instance: &Instance) {
    for _ in 0..600 {
        if !instance.balancer.in_round.load(Ordering::Relaxed) || instance.is_stopping() {
            return;
        }
        instance.rest(Duration::from_millis(100));
    }
}

/// Runs until the router stops.
pub(crate) fn run(instance: &Arc<Instance>) {
    let mut pause = PERIOD;
    while !instance.is_stopping() {
        instance.rest(pause);
        if instance.is_stopping() {
            return;
        }
        let state = &instance.balancer;
        state.in_round.store(true, Ordering::Relaxed);
        let moved = round(instance).unwrap_or_else(|failure| {
            let attributes = doc! { "error": failure.message() };
            instance.log.warning("SHARDING", 21866, "Balancer", "A round of the balancer failed", attributes);
            0
        });
        state.in_round.store(false, Ordering::Relaxed);
        state.rounds.fetch_add(1, Ordering::Relaxed);
        pause = if moved > 0 { MOVE_PAUSE } else { PERIOD };
    }
}

/// One round: moves at most one chunk of each collection. Returns how many it moved.
fn round(instance: &Arc<Instance>) -> Result<usize> {
    if mode(instance)? == BalancerMode::Off {
        return Ok(0);
    }
    let collections = instance.cluster.config().config_find("collections", doc! {}, doc! { "_id": 1 })?;
    if collections.is_empty() {
        return Ok(0);
    }
    let Ok(_held) = locks::try_hold(instance, "balancer", "doing balance round")? else { return Ok(0) };
    instance.cluster.reload()?;
    let shards = instance.cluster.shards();
    let mut moved = 0;
    for document in collections {
        let Some(entry) = CollectionEntry::parse(&document)?.filter(|entry| !entry.no_balance) else {
            continue;
        };
        if instance.is_stopping() || mode(instance)? == BalancerMode::Off {
            return Ok(moved);
        }
        let namespace = entry.namespace.clone();
        let Some(table) = crate::catalog::read_table(&instance.cluster, &namespace)? else { continue };
        let Some(wanted) = choose(&table, &shards) else { continue };
        let place = admin::SplitPoint::Bounds(wanted.range.min.clone(), wanted.range.max.clone());
        match admin::move_chunk(instance, &namespace, &place, &wanted.to, false) {
            Ok(()) => moved += 1,
            Err(failure) => {
                let attributes = doc! { "namespace": namespace, "to": wanted.to, "error": failure.message() };
                instance.log.warning("SHARDING", 21872, "Balancer", "Migration failed", attributes);
            }
        }
    }
    Ok(moved)
}

/// The chunk that is to move next, if any.
pub(crate) fn choose(table: &RoutingTable, shards: &[Shard]) -> Option<ChunkMove> {
    let mut counts: BTreeMap<&str, usize> = shards.iter().map(|shard| (shard.backend.id(), 0)).collect();
    for chunk in table.chunks() {
        *counts.entry(chunk.shard.as_str()).or_default() += 1;
    }
    let is_leaving = |id: &str| shards.iter().any(|shard| shard.backend.id() == id && shard.draining);
    let known = |id: &str| shards.iter().any(|shard| shard.backend.id() == id);
    let staying = || counts.iter().filter(|(id, _)| known(id) && !is_leaving(id));
    let (to, fewest) = staying().min_by_key(|(_, count)| **count)?;
    let from = match counts.iter().find(|(id, count)| is_leaving(id) && **count > 0) {
        Some((leaving, _)) => *leaving,
        None => {
            let (from, most) = staying().max_by_key(|(_, count)| **count)?;
            if most - fewest < threshold(table.chunks().len()) {
                return None;
            }
            *from
        }
    };
    let chunk = table.chunks().find(|chunk| chunk.shard == from)?;
    Some(ChunkMove { range: chunk.range.clone(), to: (*to).to_owned() })
}

/// The difference in chunks between two shards at which a chunk is moved.
fn threshold(chunks: usize) -> usize {
    match chunks {
        0..20 => 2,
        20..80 => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use bson::{Timestamp, oid::ObjectId};
    use fathom_sharding::{Chunk, ChunkVersion};

    use super::*;
    use crate::backend::Backend;

    fn shard(id: &str, draining: bool) -> Shard {
        let backend = Arc::new(Backend::new(id, "h:1".parse().unwrap()));
        Shard { backend, draining, document: doc! {} }
    }

    fn table(owners: &[&str]) -> RoutingTable {
        let epoch = ObjectId::new();
        let entry = doc! { "_id": "a.b", "key": { "x": 1 }, "lastmodEpoch": epoch };
        let entry = CollectionEntry::parse(&entry).unwrap().unwrap();
        let last = owners.len();
        let end = |place: usize| match place {
            0 => bson::Bson::MinKey,
            place if place == last => bson::Bson::MaxKey,
            place => bson::Bson::Int64(place as i64),
        };
        let chunks = owners.iter().enumerate().map(|(place, owner)| {
            let range = ChunkRange { min: doc! { "x": end(place) }, max: doc! { "x": end(place + 1) } };
            Chunk::new(range, owner, ChunkVersion::new(1, 0, epoch), Timestamp { time: 1, increment: 1 })
        });
        RoutingTable::new(entry, chunks.collect()).unwrap()
    }

    #[test]
    fn the_fullest_gives_to_the_emptiest() {
        let shards = [shard("s1", false), shard("s2", false), shard("s3", false)];
        let wanted = choose(&table(&["s1", "s1", "s1", "s2"]), &shards).unwrap();
        assert_eq!((wanted.to.as_str(), wanted.range.max), ("s3", doc! { "x": 1_i64 }));
        assert_eq!(choose(&table(&["s1", "s1", "s2", "s3"]), &shards), None);
        assert!(choose(&table(&["s1"; 20]), &shards[..1]).is_none());
    }

    #[test]
    fn who_is_to_go_gives_everything_away() {
        let shards = [shard("s1", true), shard("s2", false), shard("s3", false)];
        let wanted = choose(&table(&["s2", "s1", "s3"]), &shards).unwrap();
        assert_eq!((wanted.to.as_str(), wanted.range.min), ("s2", doc! { "x": 1_i64 }));
        assert_eq!(choose(&table(&["s2", "s3"]), &shards), None);
    }
}
