//! Membership of a replica set: following the oplog, elections' consequences, and what clients wait for.
//!
//! What a member decides is `fathom-replication`'s, what its threads share is in `replica_set`; what it does with its data, its threads and
//! its connections is here. The way is
//! mongod 4.0's (server.md, 4.1 and 4.2), with two differences that hold for every engine alike: majority reads wait until what they
//! saw is committed instead of reading an older snapshot, and a rollback fetches documents instead of going back in the engine.

mod apply;
mod driver;
mod fetch;
mod follow;
mod initial_sync;
mod links;
mod progress;
mod rollback;
mod start;
mod store;
mod trim;
mod wait;

pub(crate) use driver::note;
pub(crate) use initial_sync::make_oplog;
pub(crate) use links::{ask, own_index};
pub(crate) use start::{join, recover, start};
pub(crate) use store::{set_config, set_vote};
pub(crate) use wait::{for_cluster_time, for_majority, for_write, newest};
