//! YCSB's `CoreWorkload`: its records and its operations on them.

mod mix;
mod requests;
mod settings;
mod shared;
mod source;
mod values;

pub use mix::{Mix, Operation};
pub use settings::{CoreWorkload, Phase};
pub use shared::{CoreShared, InsertedRecords, Retry, first_free};
pub use source::{CoreSource, CoreState};
pub use values::{Lengths, Values};
