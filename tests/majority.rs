//! Nothing acknowledged at majority is lost: replica sets of the built program in network namespaces, under random faults.
//!
//! What is promised, and checked on what clients saw and what is there in the end:
//! - A write that was acknowledged at `w: "majority"` stays, once, in the order of writes that did not overlap.
//! - A write that failed for certain never appears.
//! - A read at `majority`, of whichever member, never shows what is rolled back later. It may be stale; but the member that
//!   acknowledged a write shows it from then on, and a member does not go back as long as it lives.
//! - A read at `linearizable` is never stale.
//! - No term has two primaries.
//! - Once all is well again, all members have the same data, log and valid indexes.
//! - A write at `w: 1` may be lost; then it is in a file under `rollback`, unless its member was killed before its journal had it.
//!
//! A program of its own, so that no other test runs beside it. A set takes some 20 s; `FATHOM_SCHEDULES=100` runs a hundred of
//! them, `FATHOM_SEED=7` the one of seed 7.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

#[path = "majority/clients.rs"]
mod clients;
#[path = "majority/history.rs"]
mod history;
#[path = "majority/loss.rs"]
mod loss;
#[path = "majority/members.rs"]
mod members;
#[path = "majority/nemesis.rs"]
mod nemesis;
#[path = "majority/outcome.rs"]
mod outcome;
#[path = "majority/schedule.rs"]
mod schedule;
#[path = "majority/schedules.rs"]
mod schedules;
#[path = "majority/watch.rs"]
mod watch;
