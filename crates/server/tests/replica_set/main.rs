//! Replica sets of real servers in one process: what clients see of primaries, secondaries, elections and write concerns.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

mod basics;
mod elections;
mod retryable;
mod schema;
mod set;
mod shard;
mod shutdown;

#[path = "../served/mod.rs"]
mod served;
