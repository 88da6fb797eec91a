//! YCSB's `CoreWorkload`: what its records are, and what is done to them.

mod mix;
mod requests;
mod settings;
mod shared;
mod source;
mod values;

pub use mix::{Mix, Operation};
pub use settings::{CoreWorkload, Phase};
pub use shared::{Acknowledged, CoreShared, Retry, first_free};
pub use source::{CoreSource, CoreState};
pub use values::{Lengths, Values};
