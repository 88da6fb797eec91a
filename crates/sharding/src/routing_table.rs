//! The chunks of one collection and their owners, as a router and a shard read them from the config servers.
//!
//! A table that does not cover every key exactly once is refused. A table that was read in the middle of a split is corrected,
//! since a split writes the new chunks before it shortens the old one.

use std::collections::BTreeMap;

use bson::oid::ObjectId;
use bson::{Bson, Document};
use fathom_wire::{Code, Failure};

use crate::{Chunk, ChunkVersion, Ownership, Result, ShardKey, ShardVersion};

/// A document of `config.collections`.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionEntry {
    /// The namespace, as `database.collection`.
    pub namespace: String,
    pub key: ShardKey,
    /// Whether the shard key is unique.
    pub unique: bool,
    /// The incarnation of the collection.
    pub epoch: ObjectId,
    /// Its `uuid`, if it has one.
    pub uuid: Option<Bson>,
    /// Whether the balancer is off for the collection.
    pub no_balance: bool,
}

impl CollectionEntry {
    /// Reads a document of `config.collections`; `None` if the collection was dropped.
    pub fn parse(document: &Document) -> Result<Option<CollectionEntry>> {
        let wrong = |what: &str| {
            Failure::new(
                Code::UnsupportedFormat,
                format!("a document of config.collections has no good '{what}'"),
            )
        };
        if document.get_bool("dropped").unwrap_or(false) {
            return Ok(None);
        }
        let key = document.get_document("key").map_err(|_| wrong("key"))?;
        Ok(Some(CollectionEntry {
            namespace: document.get_str("_id").map_err(|_| wrong("_id"))?.to_owned(),
            key: ShardKey::new(key)?,
            unique: document.get_bool("unique").unwrap_or(false),
            epoch: document.get_object_id("lastmodEpoch").map_err(|_| wrong("lastmodEpoch"))?,
            uuid: document.get("uuid").cloned(),
            no_balance: document.get_bool("noBalance").unwrap_or(false),
        }))
    }
}

/// A chunk with its ends encoded as bytes.
#[derive(Clone, Debug)]
pub(crate) struct ChunkBounds {
    min: Vec<u8>,
    max: Vec<u8>,
    pub(crate) chunk: Chunk,
}

/// The owner of each key of a collection.
#[derive(Clone, Debug)]
pub struct RoutingTable {
    entry: CollectionEntry,
    chunks: Vec<ChunkBounds>,
    /// The newest version of each shard that has or had chunks.
    versions: BTreeMap<String, ChunkVersion>,
    version: ChunkVersion,
}

impl RoutingTable {
    /// Makes a table of the collection's chunks, which may come in any order. Gaps or overlaps are refused as a conflict, since
    /// the chunks may have been read during a change: the caller reads them again.
    pub fn new(entry: CollectionEntry, chunks: Vec<Chunk>) -> Result<RoutingTable> {
        let mut placed = Vec::with_capacity(chunks.len());
        for chunk in chunks.into_iter().filter(|chunk| chunk.version.epoch == entry.epoch) {
            let (min, max) = chunk.bounds(&entry.key)?;
            placed.push(ChunkBounds { min, max, chunk });
        }
        placed.sort_by(|one, other| one.min.cmp(&other.min));
        let mut version = ChunkVersion::new(0, 0, entry.epoch);
        let mut versions: BTreeMap<String, ChunkVersion> = BTreeMap::new();
        for ChunkBounds { chunk, .. } in &placed {
            let newer = |than: &ChunkVersion| chunk.version.order(than).is_gt();
            if newer(&version) {
                version = chunk.version;
            }
            let had = chunk.history.iter().map(|(_, shard)| shard);
            for shard in std::iter::once(&chunk.shard).chain(had) {
                let known = versions.entry(shard.clone()).or_insert(ChunkVersion::new(0, 0, entry.epoch));
                if newer(known) {
                    *known = chunk.version;
                }
            }
        }
        finish_splits(&mut placed);
        let table = RoutingTable { entry, chunks: placed, versions, version };
        table.check()?;
        Ok(table)
    }

    fn check(&self) -> Result<()> {
        let key = &self.entry.key;
        let mut at = key.bound(&key.outermost(Bson::MinKey))?;
        for ChunkBounds { min, max, .. } in &self.chunks {
            if *min != at || max <= min {
                return Err(self.torn());
            }
            at.clone_from(max);
        }
        if at == key.bound(&key.outermost(Bson::MaxKey))? { Ok(()) } else { Err(self.torn()) }
    }

    fn torn(&self) -> Failure {
        let what = format!("the chunks of {} do not hold every key just once", self.entry.namespace);
        Failure::new(Code::ConflictingOperationInProgress, what)
    }

    /// Its entry in `config.collections`.
    pub fn entry(&self) -> &CollectionEntry {
        &self.entry
    }

    pub fn key(&self) -> &ShardKey {
        &self.entry.key
    }

    /// The newest version of any chunk.
    pub fn version(&self) -> ChunkVersion {
        self.version
    }

    /// The version of the chunks that a shard owns.
    pub fn version_of(&self, shard: &str) -> ChunkVersion {
        self.versions.get(shard).copied().unwrap_or(ChunkVersion::new(0, 0, self.entry.epoch))
    }

    /// The same version in the form that commands carry.
    pub fn shard_version(&self, shard: &str) -> ShardVersion {
        ShardVersion::Sharded(self.version_of(shard))
    }

    /// The chunks in ascending order.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = &Chunk> {
        self.chunks.iter().map(|placed| &placed.chunk)
    }

    /// The chunk that holds a key, given as bytes.
    pub fn chunk_of(&self, key: &[u8]) -> Option<&Chunk> {
        let place = self.chunks.partition_point(|placed| placed.min.as_slice() <= key);
        self.chunks.get(place.checked_sub(1)?).map(|placed| &placed.chunk)
    }

    /// The shard that owns a key, given as bytes.
    pub fn shard_of(&self, key: &[u8]) -> Option<&str> {
        Some(&self.chunk_of(key)?.shard)
    }

    /// The chunks that hold keys from `low`, inclusive, to `high`, exclusive.
    pub(crate) fn chunks_between(&self, low: &[u8], high: &[u8]) -> &[ChunkBounds] {
        let first = self.chunks.partition_point(|placed| placed.max.as_slice() <= low);
        let last = self.chunks.partition_point(|placed| placed.min.as_slice() < high);
        self.chunks.get(first..last).unwrap_or_default()
    }

    /// All shards that have chunks, in the order of their names.
    pub fn shards(&self) -> Vec<&str> {
        let mut shards: Vec<&str> = self.chunks().map(|chunk| chunk.shard.as_str()).collect();
        shards.sort_unstable();
        shards.dedup();
        shards
    }

    /// The ownership of one shard.
    pub fn ownership(&self, shard: &str) -> Ownership {
        let mut ranges: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for ChunkBounds { min, max, .. } in self.chunks.iter().filter(|placed| placed.chunk.shard == shard) {
            match ranges.last_mut() {
                Some((_, end)) if end == min => end.clone_from(max),
                _ => ranges.push((min.clone(), max.clone())),
            }
        }
        Ownership::new(self.entry.namespace.clone(), self.entry.key.clone(), self.version_of(shard), ranges)
    }
}

/// Shortens a chunk that still extends over a newer chunk that was split off its end.
fn finish_splits(chunks: &mut [ChunkBounds]) {
    for place in 1..chunks.len() {
        let Some((one, next)) = chunks.get_mut(place - 1..=place).and_then(|pair| {
            let [one, next] = pair else { return None };
            Some((one, next))
        }) else {
            continue;
        };
        if one.max > next.min && one.chunk.version.order(&next.chunk.version).is_lt() {
            one.max.clone_from(&next.min);
            one.chunk.range.max.clone_from(&next.chunk.range.min);
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Timestamp, doc, rawdoc};

    use super::*;
    use crate::ChunkRange;

    const EPOCH: [u8; 12] = [7; 12];

    fn entry() -> CollectionEntry {
        let document = doc! { "_id": "a.b", "key": { "x": 1 }, "lastmodEpoch": ObjectId::from_bytes(EPOCH) };
        CollectionEntry::parse(&document).unwrap().unwrap()
    }

    fn chunk(min: Bson, max: Bson, shard: &str, major: u32, minor: u32) -> Chunk {
        let range = ChunkRange { min: doc! { "x": min }, max: doc! { "x": max } };
        let version = ChunkVersion::new(major, minor, ObjectId::from_bytes(EPOCH));
        Chunk::new(range, shard, version, Timestamp { time: 1, increment: 1 })
    }

    fn three() -> Vec<Chunk> {
        vec![
            chunk(Bson::Int32(10), Bson::MaxKey, "s2", 2, 0),
            chunk(Bson::MinKey, Bson::Int32(0), "s1", 1, 0),
            chunk(Bson::Int32(0), Bson::Int32(10), "s1", 1, 1),
        ]
    }

    #[test]
    fn keys_are_found_in_their_chunks() {
        let table = RoutingTable::new(entry(), three()).unwrap();
        for (value, shard) in [(-5, "s1"), (0, "s1"), (9, "s1"), (10, "s2"), (99, "s2")] {
            let key = table.key().key_of(&rawdoc! { "x": value }).unwrap();
            assert_eq!(table.shard_of(&key), Some(shard), "{value}");
        }
        let largest = table.key().key_of(&rawdoc! { "x": "z" }).unwrap();
        assert_eq!(table.shard_of(&largest), Some("s2"));
        assert_eq!(table.shards(), ["s1", "s2"]);
        let version = |shard| (table.version_of(shard).major, table.version_of(shard).minor);
        assert_eq!((version("s1"), version("s2"), version("s3")), ((1, 1), (2, 0), (0, 0)));
        assert_eq!((table.version().major, table.version().minor), (2, 0));
        let owned = table.ownership("s1");
        assert_eq!(owned.range_count(), 1);
    }

    #[test]
    fn who_gave_a_chunk_away_has_a_newer_version() {
        let mut chunks = three();
        let version = ChunkVersion::new(3, 0, ObjectId::from_bytes(EPOCH));
        chunks[1] = chunks[1].moved("s3", version, Timestamp { time: 2, increment: 1 });
        let table = RoutingTable::new(entry(), chunks).unwrap();
        assert_eq!(table.version_of("s1").major, 3);
        assert_eq!(table.version_of("s3").major, 3);
        assert_eq!(table.version_of("s2").major, 2);
    }

    #[test]
    fn a_split_caught_half_way_is_finished_and_what_is_torn_is_refused() {
        let mut chunks = three();
        // [0, 10) is being split at 3 and 6: the new chunks exist, the old one is not shortened yet.
        chunks.push(chunk(Bson::Int32(6), Bson::Int32(10), "s1", 2, 3));
        let table = RoutingTable::new(entry(), chunks.clone()).unwrap();
        assert_eq!(table.chunks().len(), 4);
        chunks.push(chunk(Bson::Int32(3), Bson::Int32(6), "s1", 2, 2));
        let table = RoutingTable::new(entry(), chunks.clone()).unwrap();
        let ends: Vec<_> = table.chunks().map(|chunk| chunk.range.max.get("x").unwrap().clone()).collect();
        assert_eq!(ends, [Bson::Int32(0), Bson::Int32(3), Bson::Int32(6), Bson::Int32(10), Bson::MaxKey]);
        chunks.remove(1);
        let refused = RoutingTable::new(entry(), chunks).unwrap_err();
        assert_eq!(refused.code(), Code::ConflictingOperationInProgress);
        assert!(RoutingTable::new(entry(), Vec::new()).is_err());
        let of_another_life = |mut chunk: Chunk| {
            chunk.version.epoch = ObjectId::new();
            chunk
        };
        assert!(RoutingTable::new(entry(), three().into_iter().map(of_another_life).collect()).is_err());
    }

    #[test]
    fn a_dropped_collection_is_none() {
        assert_eq!(CollectionEntry::parse(&doc! { "_id": "a.b", "dropped": true }).unwrap(), None);
        assert!(CollectionEntry::parse(&doc! { "_id": "a.b" }).is_err());
    }
}
