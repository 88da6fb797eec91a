//! Findings in, text for people out. No sockets, no devices, no colour.

mod budget;
mod disk;
#[cfg(test)]
mod disk_tests;
mod findings;
mod fio;
mod load;
mod wrap;

pub use budget::budget_lines;
pub use disk::{entry_lines, phase_heading, shape};
pub use findings::{findings_brief, findings_text};
pub use fio::{FioStep, fio_json};
pub use wrap::wrapped;
