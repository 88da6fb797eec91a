//! RocksDB's C interface made safe: handles that free themselves, statuses that are errors, borrowed bytes with lifetimes.
//!
//! All unsafe code of the crate is below here. Nothing in it knows tables, transactions or MongoDB's defaults.

mod batch;
mod block_reads;
mod database;
mod iterator;
mod options;
mod read;
mod status;

pub(crate) use batch::Batch;
pub(crate) use block_reads::BlockReads;
pub(crate) use database::Database;
pub(crate) use iterator::Scan;
pub(crate) use options::{Cache, Native, NativeOptions};
pub(crate) use read::{ReadOptions, Snapshot};
pub(crate) use status::Status;
