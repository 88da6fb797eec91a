//! Tests of the wire crate's public interface: messages, documents, compression and SCRAM, with independent vectors and arbitrary input.

#![allow(clippy::unwrap_used, reason = "tests name what they show, and fail by panicking")]

mod compression;
mod documents;
mod messages;
mod scram;
mod values;
