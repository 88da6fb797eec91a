//! The wire crate from outside: messages, documents, compression and SCRAM, with vectors written by others and with anything at all.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests name what they show, and fail by panicking")]

mod compression;
mod documents;
mod messages;
mod scram;
mod values;
