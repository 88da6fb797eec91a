//! Turns results and findings into text and pages. It uses no sockets, no devices and no colour.

mod amplification;
mod budget;
mod capacity;
mod comparison;
mod disk;
#[cfg(test)]
mod disk_tests;
mod findings;
mod fio;
mod history;
mod page;
mod run_list;
mod run_verdict;
mod runs_page;
mod study;
mod terminal_text;

pub use amplification::{amplification_lines, member_lines};
pub use budget::{budget_blocks, queue_lines};
pub use capacity::{capacity_sentences, need_lines};
pub use comparison::comparison_lines;
pub use disk::{entry_lines, phase_heading, shape};
pub use findings::{findings_brief, findings_first, findings_text, verdict_lines};
pub use fio::{FioStep, fio_json};
pub use history::{history_lines, sparkline};
pub use page::{
    OperationRow, PageLatencyLog, PageSource, RecordedServer, RecordingSource, ServerOperations, Strip, page,
    pair_page, recording_page,
};
pub use run_list::{Headline, run_table, took, value_of};
pub use run_verdict::verdict_sentence;
pub use runs_page::{ListedRun, RunsPage, problem_page, runs_page};
pub use study::study_lines;
pub use terminal_text::{printable, wrapped};
