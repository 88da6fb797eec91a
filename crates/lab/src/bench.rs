//! What trials need of this process: the program, the ledger, the signals, and a folder.

use std::path::PathBuf;

use fathom_process::{Ledger, Signals};
use fathom_session::ChildTools;

/// Where and by what trials run.
#[derive(Debug)]
pub struct Bench {
    /// This program, of which servers, loads and probes are made.
    pub program: PathBuf,
    /// Where things are written down before they are made.
    pub ledger: Ledger,
    /// The signals that this process gets.
    pub signals: Signals,
    /// Where storage and data go.
    pub work: PathBuf,
}

impl Bench {
    /// What sessions in children need of it.
    pub(crate) fn child_tools(&self) -> ChildTools<'_> {
        ChildTools { program: &self.program, ledger: &self.ledger, signals: &self.signals }
    }
}
