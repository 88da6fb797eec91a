//! The replication protocol of one replica set member as pure decisions, without sockets, threads, a clock or a disk.
//!
//! The server drives a [`Coordinator`]: it passes in each event with its time, and executes the resulting [`Action`]s. Every rule can
//! therefore be tested in simulated time, with thousands of failure schedules a second. The crate does not interpret oplog entries.

pub mod commit_point;
pub mod config;
pub mod coordinator;
mod fields;
mod host;
mod last_vote;
mod member_state;
pub mod messages;
mod monotonic_time;
mod optime;
mod set_progress;
mod splitmix;
pub mod write_concern;

pub use config::ReplicaSetConfig;
pub use coordinator::{Action, Ballot, Coordinator, CoordinatorOptions, FollowerMode};
pub use host::Host;
pub use last_vote::LastVote;
pub use member_state::MemberState;
pub use monotonic_time::{Clocks, MonotonicTime};
pub use optime::{NO_TERM, OpTime, from_bson as timestamp_from_bson, to_bson as timestamp_to_bson};
pub use write_concern::{Progress, WriteConcern};
