//! Tests of the kit on a real machine; `make proof` runs the modules named `timed`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod disturbance;
mod slow_disk;
