//! The server as a shard: its cluster, its ownership of chunks of each collection, and the migration of a chunk to another shard.
//!
//! It reads its ownership from the config servers when a router's version differs from its own. Documents on this shard that it does not own,
//! because their chunk is arriving or has moved away, are excluded from every answer.

mod housekeeping;
mod identity;
mod migration;
mod ownership;

pub(crate) use housekeeping::{clean_up, expect_range, give_up_range, note_received};
pub(crate) use identity::adopt;
pub(crate) use migration::{Migration, move_chunk};
pub(crate) use ownership::{check, commit_collection, ownership};
