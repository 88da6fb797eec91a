//! A chunk: a range of shard keys that one shard owns, as `config.chunks` stores it (docs/methods.md#chunks). The format is that of
//! 4.0, whose `_id` is a string.

use bson::{Bson, DateTime, Document, Timestamp, doc};
use fathom_wire::{Code, Failure};

use crate::{ChunkVersion, Result, ShardKey};

/// A range of keys from `min`, inclusive, to `max`, exclusive.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkRange {
    /// The first key, included.
    pub min: Document,
    /// The first key after the range.
    pub max: Document,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    pub range: ChunkRange,
    /// The shard that owns it.
    pub shard: String,
    /// The version of the last change to the chunk.
    pub version: ChunkVersion,
    /// The shards that have owned it and since when, newest first; the first entry is the current owner.
    pub history: Vec<(Timestamp, String)>,
}

impl Chunk {
    pub fn new(range: ChunkRange, shard: &str, version: ChunkVersion, now: Timestamp) -> Chunk {
        Chunk { range, shard: shard.to_owned(), version, history: vec![(now, shard.to_owned())] }
    }

    /// Reads a document of `config.chunks`. `epoch` is the collection's, for documents without one, as from 5.0 on.
    pub fn parse(document: &Document, epoch: bson::oid::ObjectId) -> Result<Chunk> {
        let wrong = |what: &str| {
            Failure::new(Code::UnsupportedFormat, format!("a document of config.chunks has no good '{what}'"))
        };
        let end = |name: &str| document.get_document(name).cloned().map_err(|_| wrong(name));
        let lastmod = document.get_timestamp("lastmod").map_err(|_| wrong("lastmod"))?;
        let epoch = document.get_object_id("lastmodEpoch").unwrap_or(epoch);
        let history = document.get_array("history").into_iter().flatten().filter_map(|item| {
            let item = item.as_document()?;
            Some((item.get_timestamp("validAfter").ok()?, item.get_str("shard").ok()?.to_owned()))
        });
        Ok(Chunk {
            range: ChunkRange { min: end("min")?, max: end("max")? },
            shard: document.get_str("shard").map_err(|_| wrong("shard"))?.to_owned(),
            version: ChunkVersion::from_timestamp(lastmod, epoch),
            history: history.collect(),
        })
    }

    /// The chunk as a document of `config.chunks`.
    pub fn to_document(&self, namespace: &str) -> Document {
        let history: Vec<Bson> = self
            .history
            .iter()
            .map(|(after, shard)| Bson::Document(doc! { "validAfter": *after, "shard": shard }))
            .collect();
        doc! {
            "_id": chunk_id(namespace, &self.range.min),
            "ns": namespace,
            "min": self.range.min.clone(),
            "max": self.range.max.clone(),
            "shard": &self.shard,
            "lastmod": self.version.timestamp(),
            "lastmodEpoch": self.version.epoch,
            "history": history,
        }
    }

    /// The chunk after it moved to another shard. One document describes a migration completely: the shards in the chunk's
    /// history have its version too (see `RoutingTable`), so that the donor's version is raised with the recipient's.
    #[must_use]
    pub fn moved(&self, to: &str, version: ChunkVersion, now: Timestamp) -> Chunk {
        let mut history = vec![(now, to.to_owned())];
        history.extend(self.history.iter().filter(|(_, shard)| shard != to).cloned());
        Chunk { range: self.range.clone(), shard: to.to_owned(), version, history }
    }

    /// The ends of its range as bytes.
    pub fn bounds(&self, key: &ShardKey) -> Result<(Vec<u8>, Vec<u8>)> {
        Ok((key.bound(&self.range.min)?, key.bound(&self.range.max)?))
    }
}

/// The `_id` of a chunk: `ycsb.usertable-_id_MinKey` (mongodb/mongo@v4.0:src/mongo/s/catalog/type_chunk.cpp).
pub fn chunk_id(namespace: &str, min: &Document) -> String {
    let mut id = format!("{namespace}-");
    for (name, value) in min {
        id.push_str(name);
        id.push('_');
        id.push_str(&shown(value));
    }
    id
}

/// A value as BSONElement::toString formats it without its name.
fn shown(value: &Bson) -> String {
    match value {
        Bson::MinKey => "MinKey".to_owned(),
        Bson::MaxKey => "MaxKey".to_owned(),
        Bson::Null => "null".to_owned(),
        Bson::String(text) => format!("\"{text}\""),
        Bson::ObjectId(id) => format!("ObjectId('{id}')"),
        Bson::DateTime(time) => format!("new Date({})", DateTime::timestamp_millis(*time)),
        Bson::Double(number) if number.fract() == 0.0 => format!("{number:.1}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;

    use super::*;

    #[test]
    fn a_chunk_is_read_as_it_was_written_and_named_as_in_mongodb() {
        let epoch = ObjectId::new();
        let range = ChunkRange { min: doc! { "_id": Bson::MinKey }, max: doc! { "_id": 0_i64 } };
        let now = Timestamp { time: 5, increment: 1 };
        let mut chunk = Chunk::new(range, "sh1", ChunkVersion::new(1, 0, epoch), now);
        let document = chunk.to_document("ycsb.usertable");
        assert_eq!(document.get_str("_id").unwrap(), "ycsb.usertable-_id_MinKey");
        assert_eq!(Chunk::parse(&document, ObjectId::new()).unwrap(), chunk);
        assert_eq!(
            chunk_id("ycsb.usertable", &doc! { "_id": -4_611_686_018_427_387_902_i64 }),
            "ycsb.usertable-_id_-4611686018427387902"
        );
        assert_eq!(chunk_id("a.b", &doc! { "x": "u", "y": 1 }), "a.b-x_\"u\"y_1");
        let later = ChunkVersion::new(2, 0, epoch);
        chunk = chunk.moved("sh2", later, now).moved("sh1", later, now);
        let had: Vec<&str> = chunk.history.iter().map(|(_, shard)| shard.as_str()).collect();
        assert_eq!((chunk.shard.as_str(), had), ("sh1", vec!["sh1", "sh2"]));
        assert!(Chunk::parse(&doc! { "min": {} }, epoch).is_err());
    }
}
