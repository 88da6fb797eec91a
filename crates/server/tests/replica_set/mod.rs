//! Replica sets of real servers in one process: primaries, secondaries, elections and write concerns as clients see them.

mod basics;
mod elections;
mod retryable;
mod schema;
mod set;
mod shard;
mod shutdown;
