//! WiredTiger behind the engine interface, on real directories and disks. One module per topic.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod conformance;
mod crash;
mod engine;
mod full_disk;
