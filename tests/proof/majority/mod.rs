//! Nothing acknowledged at majority is lost: replica sets of the built program in network namespaces, under random faults.
//!
//! The promises, which are checked on the replies to clients and on the data in the end:
//! - A write that was acknowledged at `w: "majority"` stays, once, in the order of writes that did not overlap.
//! - A write that failed for certain never appears.
//! - A read at `majority`, of whichever member, never shows what is rolled back later. It may be stale; but the member that
//!   acknowledged a write shows it from then on, and a member does not go back as long as it lives.
//! - A read at `linearizable` is never stale.
//! - No term has two primaries.
//! - Once all is well again, all members have the same data, log and valid indexes.
//! - A write at `w: 1` may be lost; then it is in a file under `rollback`, unless its member was killed before its journal had it.
//!
//! A schedule takes some 20 s; `FATHOM_SCHEDULES=100` runs a hundred on each kind of set, `FATHOM_SEED=7` the one of seed 7.

mod clients;
mod history;
mod loss;
mod members;
mod nemesis;
mod outcome;
mod schedule;
mod schedules;
mod watch;
