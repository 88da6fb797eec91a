//! What members of a set say to each other, in MongoDB 4.0's field names, read and written.
//!
//! Fields that are not known are ignored, since newer members send more. What a reply needs besides (`ok`, `operationTime`) the server
//! adds.

mod heartbeat;
mod metadata;
mod request_votes;
mod update_position;

pub use heartbeat::{HeartbeatArguments, HeartbeatReply};
pub use metadata::{OplogQueryMetadata, ReplicationMetadata};
pub use request_votes::{RequestVotesArguments, RequestVotesReply};
pub use update_position::{Position, UpdatePosition};
