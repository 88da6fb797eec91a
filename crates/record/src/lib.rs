//! The run folder: everything that was measured, before anything is shown.

mod finding;

pub use finding::{Confidence, Finding, Severity};
