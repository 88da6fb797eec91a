//! Verdicts on queues, knees and amplification against simulators whose truth is known (facts/analysis.md A3, A5, A8).
//!
//! Every test is seeded and prints the rows that stand in `docs/known-truth.md`; the bounds asserted are those that the docs
//! promise, not what the seed happens to give.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

mod amplification;
mod device;
mod forecast;
mod knee;
