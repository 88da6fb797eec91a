//! Collections and indexes on an engine's tables, laid out as mongod lays them out.
//!
//! A collection is a table of records by RecordId and one table for each index, `_id` among them; the catalog is a table of
//! its own, and so are the counts. What an operation must not do twice (retry after a write conflict) happens above.

pub(crate) mod background;
pub(crate) mod bell;
mod build;
mod capped;
mod catalog;
mod catalog_entry;
mod check;
mod checkpoint;
mod collection;
#[cfg(test)]
mod crash_tests;
mod directory;
mod document_bytes;
mod index;
mod journal;
mod lock_waits;
mod pending_drops;
mod relaxed;
mod scratch;
mod sizes;
mod state;
mod tickets;
#[cfg(test)]
mod tickets_tests;
mod ttl;

/// What the tickets are built of. Their model compiles them with other types of these names.
mod sync {
    pub(super) use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    pub(super) use parking_lot::{Condvar, Mutex};
}

pub(crate) use build::build_indexes;
pub(crate) use capped::Limits;
pub(crate) use catalog::Catalog;
pub(crate) use catalog_entry::{CollectionOptions, IndexSpec, truthy as is_true};
pub(crate) use check::{Report, check};
pub(crate) use collection::Collection;
pub(crate) use directory::DataDirectory;
pub(crate) use document_bytes::document_of;
pub(crate) use index::{Index, IndexEntry, leading_record_id};
pub(crate) use journal::Journal;
pub(crate) use lock_waits::LockWaits;
pub(crate) use relaxed::Effect;
pub(crate) use sizes::recount;
pub(crate) use state::{SharedState, State};
pub(crate) use tickets::{Ticket, Tickets};
