//! Faults made on purpose on the real server and real disks, and whether they are named: the proof of `fathom explain`.
//!
//! A program of its own, so that no other test runs beside it; within it one study at a time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

#[path = "faults/cache.rs"]
mod cache;
#[path = "faults/checkpoint.rs"]
mod checkpoint;
#[path = "faults/device.rs"]
mod device;
#[path = "faults/network.rs"]
mod network;
#[path = "faults/pair.rs"]
mod pair;
#[path = "faults/processor.rs"]
mod processor;
#[path = "faults/stall.rs"]
mod stall;
#[path = "faults/study.rs"]
mod study;
