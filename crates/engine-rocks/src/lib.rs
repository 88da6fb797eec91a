//! The RocksDB engine, laid out and tuned as in mongo-rocks, on the installed RocksDB of version 7 or later.
//!
//! All tables share one tree: a key is a prefix of four bytes and the table's own key (`keys`). RocksDB has no
//! transactions of MongoDB's kind, so a transaction consists of a snapshot, a map of changes and a table of the writers of keys
//! (`transaction`, `store`, `conflicts`). The engine refuses settings by table, which one tree cannot have, and a change of
//! the rate limit at run time, which the C interface does not offer.

mod catalog;
mod conflicts;
mod drops;
mod engine;
mod home;
mod keys;
mod native;
mod operations;
mod options;
mod session;
mod statistics;
mod store;
mod sys;
mod transaction;

pub use engine::RocksEngine;
pub use options::{Compression, Options, default_cache_bytes};
