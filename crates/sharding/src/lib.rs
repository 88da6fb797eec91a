//! How MongoDB splits a collection over shards: the shard key of a document, chunks and their versions, who owns what, and
//! which shards a query concerns.
//!
//! Pure: documents of the config servers in, decisions out, so that a router and a shard decide alike. The rules are those of
//! mongodb/mongo@v4.0:src/mongo/s and src/mongo/db/s. Zones and collations other than the simple one are not here.

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
pub use targeting::Targeted;
pub use version::{ChunkVersion, ShardVersion, stale_config};

/// What every function here returns: the failure is what the client sees.
pub type Result<T, E = fathom_wire::Failure> = std::result::Result<T, E>;
