//! RocksDB's C interface made safe: handles that free themselves, statuses that are errors, borrowed bytes with lifetimes.
//!
//! All unsafe code of the crate is below here. Nothing in it knows tables, transactions or MongoDB's defaults.

mod database;
mod iterator;
mod options;
mod status;

pub(crate) use database::{Batch, Database, Snapshot};
pub(crate) use iterator::Scan;
pub(crate) use options::{Cache, Native, NativeOptions, ReadOptions};
pub(crate) use status::Status;
