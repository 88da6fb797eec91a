//! The shards that a query targets.
//!
//! The query is planned as if the shard key were an index: the ranges of keys that a plan would scan select the chunks that can
//! hold matches (mongodb/mongo@v4.0:src/mongo/s/chunk_manager.cpp). A query may be sent to too many shards, never to too few.

use fathom_query::{Access, Filter, IndexInfo, Plan, choose};

use crate::{Result, RoutingTable};

/// The shards that a query targets; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetShards {
    /// Their names, in order.
    pub shards: Vec<String>,
    /// Whether the filter fixes the whole shard key to one value.
    pub by_key: bool,
}

impl RoutingTable {
    /// The shards that can hold matches of a filter. A filter that can match nothing targets the first shard alone.
    pub fn target(&self, filter: &Filter) -> Result<TargetShards> {
        if let Some(key) = self.key().key_of_filter(filter)
            && let Some(shard) = self.shard_of(&key)
        {
            return Ok(TargetShards { shards: vec![shard.to_owned()], by_key: true });
        }
        let shards = self.shards();
        if shards.len() < 2 || filter.is_empty() {
            return Ok(TargetShards {
                shards: shards.into_iter().map(str::to_owned).collect(),
                by_key: false,
            });
        }
        let index = IndexInfo {
            name: "shard key",
            pattern: self.key().pattern(),
            multikey: false,
            sparse: false,
            unique: false,
            partial: None,
        };
        let (plan, _) = choose(filter, None, None, None, &[index])?;
        let mut found: Option<Vec<&str>> = Some(Vec::new());
        self.add(&plan, &mut found);
        let mut shards = found.unwrap_or(shards);
        if shards.is_empty() {
            shards.extend(self.shards().first());
        }
        shards.sort_unstable();
        shards.dedup();
        Ok(TargetShards { shards: shards.into_iter().map(str::to_owned).collect(), by_key: false })
    }

    /// Adds the shards that a plan targets; `None` means all shards.
    fn add<'t>(&'t self, plan: &Plan, found: &mut Option<Vec<&'t str>>) {
        match &plan.access {
            Access::Nothing => {}
            Access::Index { ranges, .. } => {
                for range in ranges {
                    let chunks = self.chunks_between(&range.low, &range.high);
                    if let Some(found) = found {
                        found.extend(chunks.iter().map(|placed| placed.chunk.shard.as_str()));
                        found.sort_unstable();
                        found.dedup();
                    }
                }
            }
            Access::Union(plans) => plans.iter().for_each(|plan| self.add(plan, found)),
            Access::Scan { .. } | Access::Id(_) => *found = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, Document, RawDocumentBuf, Timestamp, doc, oid::ObjectId, rawdoc};
    use fathom_query::Variables;
    use proptest::prelude::*;

    use super::*;
    use crate::{Chunk, ChunkRange, ChunkVersion, CollectionEntry, InitialChunks};

    fn filter(document: &RawDocumentBuf) -> Filter {
        Filter::parse(document, &Variables::at(DateTime::now())).unwrap()
    }

    fn entry(key: Document, epoch: ObjectId) -> CollectionEntry {
        let entry = doc! { "_id": "a.b", "key": key, "lastmodEpoch": epoch };
        CollectionEntry::parse(&entry).unwrap().unwrap()
    }

    /// Chunks of x at 0, 10 and 20 on s1, s2, s3 and s1.
    fn ranged() -> RoutingTable {
        let epoch = ObjectId::new();
        let ends = [Bson::MinKey, Bson::Int32(0), Bson::Int32(10), Bson::Int32(20), Bson::MaxKey];
        let chunks = ends.windows(2).zip(["s1", "s2", "s3", "s1"]).map(|(pair, shard)| {
            let range = ChunkRange { min: doc! { "x": pair[0].clone() }, max: doc! { "x": pair[1].clone() } };
            Chunk::new(range, shard, ChunkVersion::new(1, 0, epoch), Timestamp { time: 1, increment: 1 })
        });
        RoutingTable::new(entry(doc! { "x": 1 }, epoch), chunks.collect()).unwrap()
    }

    fn hashed() -> RoutingTable {
        let epoch = ObjectId::new();
        let entry = entry(doc! { "x": "hashed" }, epoch);
        let shards = ["s1", "s2", "s3"].map(str::to_owned);
        let now = Timestamp { time: 1, increment: 1 };
        let chunks = InitialChunks::Hashed(Some(12)).make(&entry.key, &shards, "s1", epoch, now).unwrap();
        RoutingTable::new(entry, chunks).unwrap()
    }

    #[test]
    fn ranges_name_the_shards_that_hold_them() {
        let table = ranged();
        for (query, shards) in [
            (rawdoc! { "x": 5 }, vec!["s2"]),
            (rawdoc! { "x": { "$gte": 0, "$lt": 10 } }, vec!["s2"]),
            (rawdoc! { "x": { "$gte": 0, "$lte": 10 } }, vec!["s2", "s3"]),
            (rawdoc! { "x": { "$gt": 12 }, "y": 1 }, vec!["s1", "s3"]),
            (rawdoc! { "x": { "$in": [1, 15] } }, vec!["s2", "s3"]),
            (rawdoc! { "$or": [{ "x": 1 }, { "x": 2 }] }, vec!["s2"]),
            (rawdoc! { "$or": [{ "x": 1 }, { "y": 2 }] }, vec!["s1", "s2", "s3"]),
            (rawdoc! { "y": 1 }, vec!["s1", "s2", "s3"]),
            (rawdoc! { "x": { "$in": [] } }, vec!["s1"]),
            (rawdoc! { "x": null }, vec!["s1"]),
            (rawdoc! {}, vec!["s1", "s2", "s3"]),
        ] {
            assert_eq!(table.target(&filter(&query)).unwrap().shards, shards, "{query:?}");
        }
        assert!(table.target(&filter(&rawdoc! { "x": 5, "y": 1 })).unwrap().by_key);
        assert!(!table.target(&filter(&rawdoc! { "x": { "$gt": 5, "$lt": 6 } })).unwrap().by_key);
    }

    #[test]
    fn a_hashed_key_is_found_by_equality_alone() {
        let table = hashed();
        assert_eq!(table.target(&filter(&rawdoc! { "x": 5 })).unwrap().shards.len(), 1);
        assert_eq!(table.target(&filter(&rawdoc! { "x": { "$gt": 5 } })).unwrap().shards.len(), 3);
    }

    fn value() -> impl Strategy<Value = Bson> {
        prop_oneof![
            (-5..25_i32).prop_map(Bson::Int32),
            (-5.0..25.0_f64).prop_map(Bson::Double),
            Just(Bson::Null),
            "[a-c]{0,2}".prop_map(Bson::String),
        ]
    }

    fn query() -> impl Strategy<Value = Document> {
        let comparison =
            prop_oneof![Just("$gt"), Just("$gte"), Just("$lt"), Just("$lte"), Just("$eq"), Just("$ne")];
        let leaf = (prop_oneof![Just("x"), Just("y")], comparison, value())
            .prop_map(|(field, how, value)| doc! { field: { how: value } });
        let list = prop::collection::vec(value(), 0..3).prop_map(|values| doc! { "x": { "$in": values } });
        prop_oneof![3 => leaf, 1 => list].prop_recursive(2, 8, 3, |inner| {
            let parts = prop::collection::vec(inner, 1..3);
            (prop_oneof![Just("$and"), Just("$or"), Just("$nor")], parts)
                .prop_map(|(how, parts)| doc! { how: parts })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_document_that_matches_lies_on_a_shard_that_is_asked(query in query(), x in value(), y in value(), has_x: bool) {
            let mut document = doc! { "y": y };
            if has_x {
                document.insert("x", x);
            }
            let document = RawDocumentBuf::try_from(&document).unwrap();
            let filter = filter(&RawDocumentBuf::try_from(&query).unwrap());
            if filter.matches(&document).unwrap().is_some() {
                for table in [ranged(), hashed()] {
                    let key = table.key().key_of(&document).unwrap();
                    let shard = table.shard_of(&key).unwrap().to_owned();
                    prop_assert!(table.target(&filter).unwrap().shards.contains(&shard), "{query} {document:?}");
                }
            }
        }
    }
}
