//! YCSB's `CoreWorkload`: what its records are, and what is done to them.

mod lengths;
mod mix;

pub use lengths::Lengths;
pub use mix::{Mix, Operation};
