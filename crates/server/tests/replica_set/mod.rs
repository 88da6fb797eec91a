//! Replica sets of real servers in one process: what clients see of primaries, secondaries, elections and write concerns.

mod basics;
mod elections;
mod retryable;
mod schema;
mod set;
mod shard;
mod shutdown;
