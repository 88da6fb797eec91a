//! The RocksDB engine, laid out and tuned as mongo-rocks does it, on whatever RocksDB from 7 on is installed.
//!
//! All tables share one tree: a key is a prefix of four bytes and the table's own key (`keys`). RocksDB has no
//! transactions of MongoDB's kind, so a transaction is a snapshot, a map of changes and a table of who writes which key
//! (`transaction`, `store`, `conflicts`). It refuses settings by table, which one tree cannot have, and a change of the
//! rate limit at run time, which the C interface cannot make.

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
