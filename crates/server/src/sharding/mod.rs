//! A server as a shard: which cluster it belongs to, what it owns of each collection, and how a chunk goes to another shard.
//!
//! What it owns it reads from the config servers, when a router's version does not fit what it knows. Documents that are here and
//! not its own, because their chunk is coming or has gone, are kept out of every answer.

mod check;
mod coming;
mod commit;
mod config_servers;
mod gate;
mod housekeeping;
mod identity;
mod key_range;
mod known;
mod look_up;
mod migration;
mod ranges;
mod state;

pub(crate) use check::check;
pub(crate) use commit::{commit_collection, ownership};
pub(crate) use housekeeping::{clean_up, expect_range, give_up_range, note_received};
pub(crate) use identity::adopt;
pub(crate) use migration::{Migration, move_chunk};
pub use state::ClusterRole;
pub(crate) use state::{Identity, Sharding};
