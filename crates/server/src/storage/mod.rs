//! Collections and indexes on an engine's tables, laid out as mongod lays them out.
//!
//! A collection is a table of records by RecordId and one table for each index, `_id` among them; the catalog is a table of
//! its own, and so are the counts. What an operation must not do twice (retry after a write conflict) happens above.

pub(crate) mod bell;
mod capped;
mod catalog;
mod catalog_entry;
mod collection;
pub(crate) mod collection_stats;
mod directory;
mod document_bytes;
mod index;
mod journal;
mod op_observer;
mod pending_drops;
mod relaxed;
mod sizes;
mod state;
mod tickets;
#[cfg(test)]
mod tickets_tests;

/// What the tickets are built of. Their model compiles them with other types of these names.
mod sync {
    pub(super) use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    pub(super) use parking_lot::{Condvar, Mutex};
}

pub(crate) use capped::Limits;
pub(crate) use catalog::Catalog;
pub(crate) use catalog_entry::{CollectionOptions, IndexSpec, truthy as is_true};
pub(crate) use collection::Collection;
pub(crate) use directory::DataDirectory;
pub(crate) use document_bytes::document_of;
pub(crate) use index::{Index, IndexEntry, leading_record_id};
pub(crate) use journal::{Journal, MIN_VALID, SetTables};
pub(crate) use op_observer::OpObserver;
pub(crate) use relaxed::Effect;
pub(crate) use sizes::recount;
pub(crate) use state::{SharedState, State, Validator, set_validation};
pub(crate) use tickets::{LockWaits, Ticket, Tickets};
