//! A server as a shard: which cluster it belongs to, what it owns of each collection, and how a chunk goes to another shard.
//!
//! What it owns it reads from the config servers, when a router's version does not fit what it knows. Documents that are here and
//! not its own, because their chunk is coming or has gone, are kept out of every answer.

mod housekeeping;
mod identity;
mod migration;
mod ownership;

pub(crate) use housekeeping::{clean_up, expect_range, give_up_range, note_received};
pub(crate) use identity::adopt;
pub(crate) use migration::{Migration, move_chunk};
pub(crate) use ownership::{check, commit_collection, ownership};
