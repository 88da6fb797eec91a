//! Tests of the router with Fathom's own servers behind it: config servers, shards, and what clients see of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

mod administration;
mod chunks;
mod cluster;
mod merged;
mod relayed;
mod unsharded;
mod writes;
