//! RocksDB behind the engine interface, on real directories and disks. One module per topic.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod common;
mod conformance;
mod drops;
mod full_disk;
mod opening;
mod settings;
mod speed;
