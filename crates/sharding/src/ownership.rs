//! One shard's ownership of a collection: the filter that excludes documents of chunks that are arriving or have moved away.

use bson::RawDocument;
use fathom_wire::{Code, Failure};

use crate::{ChunkVersion, Result, ShardKey, ShardVersion};

/// The ranges of keys that a shard owns.
#[derive(Clone, Debug)]
pub struct Ownership {
    namespace: String,
    key: ShardKey,
    version: ChunkVersion,
    /// Ascending, disjoint and not adjacent.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Ownership {
    pub(crate) fn new(
        namespace: String,
        key: ShardKey,
        version: ChunkVersion,
        ranges: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Ownership {
        Ownership { namespace, key, version, ranges }
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn key(&self) -> &ShardKey {
        &self.key
    }

    pub fn version(&self) -> ChunkVersion {
        self.version
    }

    /// Its version in the form that commands carry.
    pub fn shard_version(&self) -> ShardVersion {
        ShardVersion::Sharded(self.version)
    }

    /// The number of ranges.
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// Whether the shard owns this key, given as bytes.
    pub fn owns_key(&self, key: &[u8]) -> bool {
        let place = self.ranges.partition_point(|(min, _)| min.as_slice() <= key);
        place
            .checked_sub(1)
            .and_then(|place| self.ranges.get(place))
            .is_some_and(|(_, max)| key < max.as_slice())
    }

    /// Whether the shard owns a document; no shard owns a document whose key is an array.
    pub fn owns(&self, document: &RawDocument) -> bool {
        self.key.key_of(document).is_ok_and(|key| self.owns_key(&key))
    }

    /// Whether the shard owns any key from `min` up to `max`.
    pub fn overlaps(&self, min: &[u8], max: &[u8]) -> bool {
        self.ranges.iter().any(|(low, high)| low.as_slice() < max && min < high.as_slice())
    }

    /// Refuses a change of a document's shard key.
    pub fn check_change(&self, before: &RawDocument, after: &RawDocument) -> Result<()> {
        if self.key.key_of(before)? == self.key.key_of(after)? {
            return Ok(());
        }
        let (old, new) = (self.key.values_of(before)?, self.key.values_of(after)?);
        let name = old.keys().find(|name| old.get(name.as_str()) != new.get(name.as_str()));
        let name = name.map_or("", String::as_str);
        let what = format!(
            "Performing an update on the path '{name}' would modify the immutable field '{name}', which is part of the shard key"
        );
        Err(Failure::new(Code::ImmutableField, what))
    }
}

#[cfg(test)]
mod tests {
    use fathom_wire::Code;

    use bson::{Bson, Timestamp, doc, oid::ObjectId, rawdoc};

    use crate::{Chunk, ChunkRange, ChunkVersion, CollectionEntry, RoutingTable};

    #[test]
    fn only_what_lies_in_its_chunks_is_a_shards() {
        let epoch = ObjectId::new();
        let entry = doc! { "_id": "a.b", "key": { "x": 1 }, "lastmodEpoch": epoch };
        let entry = CollectionEntry::parse(&entry).unwrap().unwrap();
        let ends = [Bson::MinKey, Bson::Int32(0), Bson::Int32(5), Bson::Int32(9), Bson::MaxKey];
        let chunks = ends.windows(2).zip(["s1", "s2", "s2", "s1"]).map(|(pair, shard)| {
            let range = ChunkRange { min: doc! { "x": pair[0].clone() }, max: doc! { "x": pair[1].clone() } };
            Chunk::new(range, shard, ChunkVersion::new(1, 0, epoch), Timestamp { time: 1, increment: 1 })
        });
        let table = RoutingTable::new(entry, chunks.collect()).unwrap();
        let (one, two) = (table.ownership("s1"), table.ownership("s2"));
        assert_eq!((one.range_count(), two.range_count()), (2, 1));
        for x in -3..12 {
            let document = rawdoc! { "x": x };
            assert_eq!(two.owns(&document), (0..9).contains(&x), "{x}");
            assert_ne!(one.owns(&document), two.owns(&document));
        }
        assert!(!one.owns(&rawdoc! { "x": [1] }) && one.owns(&rawdoc! {}));
        assert!(one.check_change(&rawdoc! { "x": 1, "y": 1 }, &rawdoc! { "y": 2, "x": 1.0 }).is_ok());
        let refused = one.check_change(&rawdoc! { "x": 1 }, &rawdoc! { "x": 2 }).unwrap_err();
        assert_eq!(refused.code(), Code::ImmutableField);
    }
}
