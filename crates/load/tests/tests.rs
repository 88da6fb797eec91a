//! The load generator through its public interface. One module per topic.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod docs;
mod document_format;
mod document_mutations;
mod document_requests;
mod document_run;
mod honesty;
mod user_bytes;
mod ycsb_report;
