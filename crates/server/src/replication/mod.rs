//! Membership in a replica set: following the oplog, carrying out elections, and waiting for write and read concerns.
//!
//! `fathom-replication` decides, `replica_set` holds the state that a member's threads share, and this module does the work on its data, threads and
//! connections. The layers are ordered as in mongod 4.0 (docs/methods.md#the-oplog), with two differences that apply to every engine alike: majority
//! reads wait until the data they read is committed instead of reading an older snapshot, and a rollback fetches documents instead of going back in
//! the engine.

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
