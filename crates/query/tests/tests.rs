//! Filters and plans through the public interface. One module per topic.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod filter_matches;
mod filter_refusals;
mod plan_choice;
mod plan_walks;
