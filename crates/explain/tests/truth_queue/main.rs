//! Verdicts on queues, knees and amplification against simulators whose truth is known (docs/methods.md#queues-and-what-a-deeper-one-would-bring).
//!
//! Every test is seeded and prints the rows of `docs/known-truth.md`. The asserted bounds are those that the docs
//! promise, not those that the seed happens to give.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

mod amplification;
mod device;
mod forecast;
mod knee;
