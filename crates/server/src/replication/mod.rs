//! Membership of a replica set: the oplog, following it, elections' consequences, and what clients wait for.
//!
//! What a member decides is `fathom-replication`'s; what it does with its data, its threads and its connections is here. The way is
//! mongod 4.0's (server.md, 4.1 and 4.2), with two differences that hold for every engine alike: majority reads wait until what they
//! saw is committed instead of reading an older snapshot, and a rollback fetches documents instead of going back in the engine.

mod apply;
mod clock;
mod difference;
mod driver;
mod entry;
mod fetch;
mod figures;
mod finish_write;
mod follow;
mod initial_sync;
mod links;
mod oplog;
mod outcomes;
mod publisher;
mod reload;
mod report;
mod retryable;
mod rollback;
mod set;
mod start;
mod store;
mod tables;
mod trim;
mod unreplicated;
mod wait;

pub(crate) use difference::difference;
pub(crate) use driver::note;
pub(crate) use entry::{Change, Image, Kind as ChangeKind, Statement, stamp_of, timestamp_of};
pub(crate) use figures::{Figures, Timed};
pub(crate) use initial_sync::make_oplog;
pub(crate) use links::{ask, own_index};
pub(crate) use oplog::{Logged, Oplog, is_replicated, not_primary};
pub(crate) use retryable::{Again, Checkout, again, session_of};
pub(crate) use set::{ReplicaSet, majority_of};
pub(crate) use start::{join, recover, start};
pub(crate) use store::{note_applied, set_config, set_vote};
pub(crate) use tables::SetTables;
pub(crate) use unreplicated::Unreplicated;
pub(crate) use wait::{for_cluster_time, for_majority, newest};

/// How far the data were applied; not journaled, for it belongs to the data.
pub(crate) const MIN_VALID: &str = "local.replset.minvalid";
/// The records of sessions, where a mongod has them: each member's own.
pub(crate) const TRANSACTIONS: &str = "config.transactions";
