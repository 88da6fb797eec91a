//! Judgements on simulations whose truth is known: a module for each simulator and for what is judged on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

mod guard;
mod layers;
mod members;
mod path;
mod routed;
mod seconds;
mod stalls;
mod stations;
