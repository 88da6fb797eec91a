//! The initial chunks of a collection (mongodb/mongo@v4.0:src/mongo/db/s/config/initial_split_policy.cpp).

use bson::oid::ObjectId;
use bson::{Bson, Document, Timestamp, doc};
use fathom_wire::{Code, Failure};

use crate::{Chunk, ChunkRange, ChunkVersion, Result, ShardKey};

/// The maximum number of initial chunks, for each shard and in all.
pub const MAX_INITIAL_CHUNKS_PER_SHARD: u64 = 8192;
pub const MAX_INITIAL_CHUNKS: u64 = 1_000_000;

/// The way a new collection is split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitialChunks {
    /// One chunk, on the primary shard: for ranged keys, and for collections that already have documents.
    One,
    /// This number of equal ranges of a hashed key, over all shards; `None` means two for each shard.
    Hashed(Option<u64>),
}

/// The hashes at which the key range is split into `chunks` parts, ascending.
pub fn hashed_split_points(chunks: u64) -> Vec<i64> {
    let chunks = i64::try_from(chunks.max(1)).unwrap_or(i64::MAX);
    let interval = (i64::MAX / chunks).wrapping_mul(2);
    let mut points = Vec::new();
    let mut current = 0_i64;
    if chunks % 2 == 0 {
        points.push(current);
        current = current.wrapping_add(interval);
    } else {
        current = current.wrapping_add(interval / 2);
    }
    for _ in 0..(chunks - 1) / 2 {
        points.push(current);
        points.push(-current);
        current = current.wrapping_add(interval);
    }
    points.sort_unstable();
    points
}

impl InitialChunks {
    /// The chunks, ascending, with versions 1|0, 1|1 and so on. `shards` are all shards, sorted by name; `primary` is the
    /// database's primary shard.
    pub fn make(
        &self,
        key: &ShardKey,
        shards: &[String],
        primary: &str,
        epoch: ObjectId,
        now: Timestamp,
    ) -> Result<Vec<Chunk>> {
        let (min, max) = (key.outermost(Bson::MinKey), key.outermost(Bson::MaxKey));
        let InitialChunks::Hashed(wanted) = self else {
            let version = ChunkVersion::new(1, 0, epoch);
            return Ok(vec![Chunk::new(ChunkRange { min, max }, primary, version, now)]);
        };
        let count = checked(*wanted, shards.len() as u64)?;
        let name = key.paths().next().unwrap_or_default().to_owned();
        let points = hashed_split_points(count).into_iter().map(|point| doc! { name.clone(): point });
        let mut ends: Vec<Document> = vec![min];
        ends.extend(points);
        ends.push(max);
        let block = usize::try_from((count / (shards.len() as u64).max(1)).max(1)).unwrap_or(usize::MAX);
        let mut chunks = Vec::with_capacity(ends.len());
        for (place, pair) in ends.windows(2).enumerate() {
            let [min, max] = pair else { continue };
            let owner = shards.get((place / block) % shards.len().max(1)).map_or(primary, String::as_str);
            let version = ChunkVersion::new(1, u32::try_from(place).unwrap_or(u32::MAX), epoch);
            let range = ChunkRange { min: min.clone(), max: max.clone() };
            chunks.push(Chunk::new(range, owner, version, now));
        }
        Ok(chunks)
    }
}

fn checked(wanted: Option<u64>, shards: u64) -> Result<u64> {
    let count = wanted.filter(|wanted| *wanted > 0).unwrap_or(2 * shards.max(1));
    if count > MAX_INITIAL_CHUNKS_PER_SHARD * shards.max(1) || count > MAX_INITIAL_CHUNKS {
        let what = format!(
            "numInitialChunks cannot be more than either: {MAX_INITIAL_CHUNKS_PER_SHARD} * number of shards; or {MAX_INITIAL_CHUNKS}"
        );
        return Err(Failure::new(Code::InvalidOptions, what));
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(wanted: Option<u64>, shards: usize) -> Vec<Chunk> {
        let key = ShardKey::new(&doc! { "_id": "hashed" }).unwrap();
        let shards: Vec<String> = (1..=shards).map(|number| format!("sh{number}")).collect();
        let now = Timestamp { time: 1, increment: 18 };
        InitialChunks::Hashed(wanted).make(&key, &shards, "sh1", ObjectId::new(), now).unwrap()
    }

    /// docs/methods.md#chunks, and config-chunks.json of a real cluster of two shards.
    #[test]
    fn two_shards_begin_as_in_a_real_cluster() {
        const HALF: i64 = 4_611_686_018_427_387_902;
        assert_eq!(hashed_split_points(4), [-HALF, 0, HALF]);
        let chunks = made(None, 2);
        let seen: Vec<_> = chunks
            .iter()
            .map(|chunk| {
                (chunk.range.min.get("_id").unwrap().clone(), chunk.shard.as_str(), chunk.version.minor)
            })
            .collect();
        let expected = [
            (Bson::MinKey, "sh1", 0),
            (Bson::Int64(-HALF), "sh1", 1),
            (Bson::Int64(0), "sh2", 2),
            (Bson::Int64(HALF), "sh2", 3),
        ];
        assert_eq!(seen, expected);
        assert!(chunks.iter().all(|chunk| chunk.version.major == 1));
        assert_eq!(chunks[3].range.max, doc! { "_id": Bson::MaxKey });
    }

    #[test]
    fn odd_numbers_have_no_cut_at_zero() {
        let points = hashed_split_points(3);
        assert_eq!(points, [-3_074_457_345_618_258_602, 3_074_457_345_618_258_602]);
        assert_eq!(hashed_split_points(1), Vec::<i64>::new());
        for chunks in 1..40 {
            let points = hashed_split_points(chunks);
            assert_eq!(points.len() as u64, chunks - 1);
            assert!(points.is_sorted_by(|one, other| one < other), "{points:?}");
        }
    }

    #[test]
    fn blocks_go_to_shards_in_turn_and_limits_hold() {
        let shards: Vec<String> = made(Some(7), 3).into_iter().map(|chunk| chunk.shard).collect();
        assert_eq!(shards, ["sh1", "sh1", "sh2", "sh2", "sh3", "sh3", "sh1"]);
        assert_eq!(made(Some(2), 3).len(), 2);
        assert!(checked(Some(8193), 1).is_err());
        assert!(checked(Some(1_000_001), 200).is_err());
        assert_eq!(checked(None, 3).unwrap(), 6);
    }
}
