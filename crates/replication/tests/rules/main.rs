//! The rules of a member, one by one: a test plays its driver and all other members.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

mod anything;
mod catch_up;
mod configurations;
mod desk;
mod documents;
mod elections;
mod heartbeats;
mod positions;
mod stepdown;
mod sync_source;
mod takeovers;
mod voting;
mod write_concerns;
