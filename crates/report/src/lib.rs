//! Findings in, text for people out. No sockets, no devices, no colour.

mod amplification;
mod budget;
mod disk;
#[cfg(test)]
mod disk_tests;
mod figures;
mod findings;
mod fio;
mod load;
mod members;
mod page;
mod queue;
mod wrap;

pub use amplification::amplification_lines;
pub use budget::budget_blocks;
pub use disk::{entry_lines, phase_heading, shape};
pub use findings::{findings_brief, findings_text};
pub use fio::{FioStep, fio_json};
pub use members::member_lines;
pub use page::{OverTime, PageSource, page};
pub use queue::queue_lines;
pub use wrap::wrapped;
