//! Versions of chunks, and the comparison of a router's version of a shard with the shard's own
//! (mongodb/mongo@v4.0:src/mongo/s/chunk_version.h).

use std::cmp::Ordering;
use std::fmt;

use bson::oid::ObjectId;
use bson::{Bson, RawBsonRef, Timestamp};
use fathom_wire::{Code, DocumentWriter, Failure};

use crate::Result;

/// `(major, minor, epoch)`: a migration raises the major number, a split the minor one. A collection that is dropped and
/// sharded again gets another epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkVersion {
    /// Raised when a chunk moves to another shard.
    pub major: u32,
    /// Raised when a chunk is split.
    pub minor: u32,
    /// The incarnation of the collection.
    pub epoch: ObjectId,
}

/// A router's version of a shard, as in the field `shardVersion` of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardVersion {
    /// The collection is not sharded, and lives on its database's primary shard.
    Unsharded,
    /// The newest version of what the shard owns; `0|0` if it owns nothing.
    Sharded(ChunkVersion),
}

impl ChunkVersion {
    pub fn new(major: u32, minor: u32, epoch: ObjectId) -> ChunkVersion {
        ChunkVersion { major, minor, epoch }
    }

    /// The version as `lastmod` stores it: the major number in the seconds, the minor one in the increment.
    pub fn timestamp(&self) -> Timestamp {
        Timestamp { time: self.major, increment: self.minor }
    }

    /// The version from `lastmod` and `lastmodEpoch`.
    pub fn from_timestamp(lastmod: Timestamp, epoch: ObjectId) -> ChunkVersion {
        ChunkVersion { major: lastmod.time, minor: lastmod.increment, epoch }
    }

    /// Compares two versions of one epoch by age.
    pub fn order(&self, other: &ChunkVersion) -> Ordering {
        (self.major, self.minor).cmp(&(other.major, other.minor))
    }

    /// Whether a sender with one of the two versions addresses the right owner: both have the same epoch and the same migrations.
    pub fn is_compatible(&self, other: &ChunkVersion) -> bool {
        self.epoch == other.epoch && self.major == other.major
    }
}

impl fmt::Display for ChunkVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}|{}||{}", self.major, self.minor, self.epoch)
    }
}

impl ShardVersion {
    /// The epoch of an unsharded collection, all zeros.
    fn no_epoch() -> ObjectId {
        ObjectId::from_bytes([0; 12])
    }

    /// Its two parts, as commands carry them.
    fn parts(self) -> (Timestamp, ObjectId) {
        match self {
            ShardVersion::Unsharded => (Timestamp { time: 0, increment: 0 }, ShardVersion::no_epoch()),
            ShardVersion::Sharded(version) => (version.timestamp(), version.epoch),
        }
    }

    /// Writes `[Timestamp, ObjectId]` as a field.
    pub fn write(self, document: &mut DocumentWriter<'_>, name: &str) {
        let (timestamp, epoch) = self.parts();
        let mut array = document.begin_array(name);
        array.bson(&Bson::Timestamp(timestamp));
        array.bson(&Bson::ObjectId(epoch));
        array.end();
    }

    /// Reads the field `shardVersion`.
    pub fn parse(value: RawBsonRef<'_>) -> Result<ShardVersion> {
        let refused =
            || Failure::new(Code::BadValue, "shardVersion must be an array of a timestamp and an ObjectId");
        let RawBsonRef::Array(items) = value else { return Err(refused()) };
        let mut items = items.into_iter();
        let (Some(Ok(RawBsonRef::Timestamp(timestamp))), Some(Ok(RawBsonRef::ObjectId(epoch))), None) =
            (items.next(), items.next(), items.next())
        else {
            return Err(refused());
        };
        if epoch == ShardVersion::no_epoch() {
            return Ok(ShardVersion::Unsharded);
        }
        Ok(ShardVersion::Sharded(ChunkVersion::from_timestamp(timestamp, epoch)))
    }

    /// Whether a command sent with this version may run on a shard with the version `owned`.
    pub fn is_compatible(self, owned: ShardVersion) -> bool {
        match (self, owned) {
            (ShardVersion::Unsharded, ShardVersion::Unsharded) => true,
            (ShardVersion::Sharded(sent), ShardVersion::Sharded(owned)) => sent.is_compatible(&owned),
            _ => false,
        }
    }
}

impl fmt::Display for ShardVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShardVersion::Unsharded => f.write_str("UNSHARDED"),
            ShardVersion::Sharded(version) => version.fmt(f),
        }
    }
}

/// The failure of a command whose version differs from the shard's, in the words of mongod 4.0.
pub fn stale_config(namespace: &str, received: ShardVersion, wanted: ShardVersion) -> Failure {
    let what =
        format!("version mismatch detected for {namespace}: received {received}, and {wanted} is wanted");
    let (received, received_epoch) = received.parts();
    let (wanted, wanted_epoch) = wanted.parts();
    Failure::new(Code::StaleConfig, what)
        .with("ns", namespace)
        .with("vReceived", Bson::Timestamp(received))
        .with("vReceivedEpoch", Bson::ObjectId(received_epoch))
        .with("vWanted", Bson::Timestamp(wanted))
        .with("vWantedEpoch", Bson::ObjectId(wanted_epoch))
}

#[cfg(test)]
mod tests {
    use bson::RawDocumentBuf;

    use super::*;

    #[test]
    fn versions_travel_and_compare_by_epoch_and_migrations() {
        let (one, other) = (ObjectId::new(), ObjectId::new());
        let sent = ShardVersion::Sharded(ChunkVersion::new(3, 7, one));
        for version in [sent, ShardVersion::Unsharded] {
            let mut bytes = Vec::new();
            let mut document = DocumentWriter::new(&mut bytes);
            version.write(&mut document, "shardVersion");
            document.end();
            let read = RawDocumentBuf::from_bytes(bytes).unwrap();
            let value = read.get("shardVersion").unwrap().unwrap();
            assert_eq!(ShardVersion::parse(value).unwrap(), version);
        }
        for (owned, compatible) in [
            (ShardVersion::Sharded(ChunkVersion::new(3, 0, one)), true),
            (ShardVersion::Sharded(ChunkVersion::new(4, 7, one)), false),
            (ShardVersion::Sharded(ChunkVersion::new(3, 7, other)), false),
            (ShardVersion::Unsharded, false),
        ] {
            assert_eq!(sent.is_compatible(owned), compatible, "{owned}");
        }
        for wrong in [RawBsonRef::Null, RawBsonRef::Int32(1)] {
            assert!(ShardVersion::parse(wrong).is_err());
        }
        let failure = stale_config("a.b", sent, ShardVersion::Unsharded);
        assert_eq!(failure.code(), Code::StaleConfig);
        assert_eq!(failure.extra().get_timestamp("vReceived").unwrap(), Timestamp { time: 3, increment: 7 });
        assert!(failure.message().contains("received 3|7||") && failure.message().contains("UNSHARDED"));
    }
}
