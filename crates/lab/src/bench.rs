//! The means that trials need from this process: the program, the ledger, the signals, and a folder.

use std::path::PathBuf;

use fathom_process::{Ledger, Signals};
use fathom_session::ChildTools;

/// The program and the folders with which trials run.
#[derive(Debug)]
pub struct Bench {
    /// This program, which child processes run as servers, loads and probes.
    pub program: PathBuf,
    /// The ledger that records resources before they are made.
    pub ledger: Ledger,
    /// The signals that this process gets.
    pub signals: Signals,
    /// The folder for storage and data.
    pub work: PathBuf,
}

impl Bench {
    /// The tools for sessions in child processes.
    pub(crate) fn child_tools(&self) -> ChildTools<'_> {
        ChildTools { program: &self.program, ledger: &self.ledger, signals: &self.signals }
    }
}
