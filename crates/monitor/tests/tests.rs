//! Tests of samplers on real hosts, servers and clusters. One module per topic.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod cluster;
mod host;
mod lab_server;
mod runner;
mod transactions;
