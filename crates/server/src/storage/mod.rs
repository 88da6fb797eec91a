//! Collections and indexes on an engine's tables, with mongod's layout.
//!
//! A collection is a table of records by RecordId and one table for each index, `_id` included; the catalog and the counts
//! have a table each. Retries after a write conflict are handled by the layer above.

pub(crate) mod background_waker;
mod capped;
mod catalog;
mod catalog_entry;
mod collection;
pub(crate) mod collection_stats;
mod directory;
mod document_bytes;
mod idempotent_apply;
mod index;
mod journal;
mod lock_kind;
mod lock_waits;
mod op_observer;
mod operation_locks;
mod pending_drops;
mod sizes;
mod state;
mod tickets;
#[cfg(test)]
mod tickets_tests;

/// The types used by the tickets. Their model compiles the tickets with other types of the same names.
mod sync {
    pub(super) use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    pub(super) use parking_lot::{Condvar, Mutex};
}

pub(crate) use capped::CappedLimits;
pub(crate) use catalog::Catalog;
pub(crate) use catalog_entry::{CollectionOptions, IndexSpec, truthy as is_true};
pub(crate) use collection::Collection;
pub(crate) use directory::DataDirectory;
pub(crate) use document_bytes::document_of;
pub(crate) use idempotent_apply::WriteEffects;
pub(crate) use index::{Index, IndexEntry, leading_record_id};
pub(crate) use journal::{JournalFlusher, MIN_VALID, SetTables};
pub(crate) use lock_kind::{LockKind, LockKindMap};
pub(crate) use lock_waits::LockWaits;
pub(crate) use op_observer::OpObserver;
pub(crate) use operation_locks::{HeldLock, OperationLocks};
pub(crate) use sizes::recount;
pub(crate) use state::{CollectionState, ExclusiveState, SharedState, Validator, set_validation};
pub(crate) use tickets::{Ticket, TicketHistory, Tickets};
