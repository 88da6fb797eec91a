//! What one member of a replica set decides, and nothing else: no socket, no thread, no clock, no disk.
//!
//! The server drives a [`Coordinator`]: it hands in what happened and when, and carries out the [`Action`]s that come out. So every rule
//! can be tested in simulated time, with thousands of schedules of failures a second. It refuses to know what an oplog entry means.

mod chance;
pub mod commit_point;
pub mod config;
pub mod coordinator;
mod fields;
mod host;
mod last_vote;
mod member_state;
pub mod messages;
mod moment;
mod optime;
mod standing;
pub mod write_concern;

pub use config::ReplicaSetConfig;
pub use coordinator::{Action, Ballot, Coordinator, FollowerMode, Options};
pub use host::Host;
pub use last_vote::LastVote;
pub use member_state::MemberState;
pub use moment::{Clocks, Moment};
pub use optime::{NO_TERM, OpTime, from_bson as timestamp_from_bson, to_bson as timestamp_to_bson};
pub use write_concern::{Progress, WriteConcern};
