//! Safe wrappers of RocksDB's C interface: handles that free themselves, statuses as errors, borrowed bytes with lifetimes.
//!
//! All unsafe code of the crate is in this module. It knows nothing of tables, transactions or MongoDB's defaults.

mod database;
mod iterator;
mod options;
mod status;

pub(crate) use database::{Database, DatabaseSnapshot, WriteBatch};
pub(crate) use iterator::RangeScan;
pub(crate) use options::{BlockCache, NativeHandle, NativeOptions, ReadOptions};
pub(crate) use status::RocksStatus;
