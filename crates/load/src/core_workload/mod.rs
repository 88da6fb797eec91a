//! YCSB's `CoreWorkload`: what its records are, and what is done to them.

mod acknowledged;
mod lengths;
mod mix;
mod requests;
mod resume;
mod settings;
mod source;
mod values;

pub use acknowledged::Acknowledged;
pub use lengths::Lengths;
pub use mix::{Mix, Operation};
pub use resume::first_free;
pub use settings::{CoreWorkload, Phase};
pub use source::{CoreShared, CoreSource, CoreState, Retry};
pub use values::Values;
