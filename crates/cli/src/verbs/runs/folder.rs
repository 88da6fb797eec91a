//! The folder whose runs the verb `runs` keeps.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use fathom_record::folders::Scan;

use crate::run_folders;

/// Where run folders are.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunsFolder {
    /// Where run folders are [default: the state folder's runs/]
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) runs: Option<PathBuf>,
}

impl RunsFolder {
    pub(super) fn scan(&self) -> fathom_errors::Result<(PathBuf, Scan)> {
        run_folders::scan(self.runs.as_deref())
    }

    pub(super) fn find(&self, named: &std::path::Path) -> Result<PathBuf> {
        run_folders::find(named, self.runs.as_deref())
    }

    pub(super) fn parent(&self) -> fathom_errors::Result<PathBuf> {
        run_folders::parent(self.runs.as_deref())
    }
}
