//! The rules by which MongoDB splits a collection over shards: the shard key of a document, chunks and their versions,
//! their owners, and the shards that a query targets.
//!
//! Pure functions: they take documents of the config servers and return decisions, so that a router and a shard decide alike. The rules are those of
//! mongodb/mongo@v4.0:src/mongo/s and src/mongo/db/s. Zones and collations other than the simple one are not supported.

mod chunk;
mod initial;
mod ownership;
mod routing_table;
mod shard_key;
mod targeting;
mod version;

pub use chunk::{Chunk, ChunkRange, chunk_id};
pub use initial::{InitialChunks, MAX_INITIAL_CHUNKS, MAX_INITIAL_CHUNKS_PER_SHARD, hashed_split_points};
pub use ownership::Ownership;
pub use routing_table::{CollectionEntry, RoutingTable};
pub use shard_key::ShardKey;
pub use targeting::TargetShards;
pub use version::{ChunkVersion, ShardVersion, stale_config};

/// The result of every function here; the client sees the failure.
pub type Result<T, E = fathom_wire::Failure> = std::result::Result<T, E>;
