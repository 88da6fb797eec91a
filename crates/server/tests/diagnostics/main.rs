//! What the server says of itself is true and has the shape that mongod's tools know.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

mod counters;
mod operations;
mod shapes;
mod slow;
mod support;
