//! Simulated studies with known truth: the rates of false alarms, of detection, and of intervals that contain the truth.
//!
//! Every test is seeded and prints the table in `docs/known-truth.md`. The bounds asserted are those of the
//! demands (3 to 7 % at a nominal 5 % over 2000 studies), not of what happened to be seen.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

mod drift;
mod factorial;
mod looks;
mod many;
mod regimes;
mod worlds;

/// Studies for each rate of error: at a true 5 % the standard error is 0.5 %.
const STUDIES: u64 = 2000;

fn percent(count: u64, of: u64) -> String {
    format!("{:.1} %", 100.0 * count as f64 / of as f64)
}

/// Whether `count` of `of` is within `least` to `most` percent.
fn within(count: u64, of: u64, least: f64, most: f64) -> bool {
    (least..=most).contains(&(100.0 * count as f64 / of as f64))
}
