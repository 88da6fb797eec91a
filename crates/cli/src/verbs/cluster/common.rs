//! The arguments and functions that actions on a cluster share: its folder, their time limit, and their output.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use fathom_cluster::{Cluster, Launcher, Tools};
use fathom_errors::Error;
use fathom_process::{Ledger, Signals};

use crate::output;

#[derive(Clone, Debug, Args)]
pub(super) struct ClusterFolder {
    /// The folder that holds the cluster
    #[arg(long, value_name = "DIR", default_value = "./data")]
    pub(super) dir: PathBuf,
}

#[derive(Clone, Debug, Args)]
pub(super) struct TimeoutArgs {
    /// Time limit for servers to be ready, or to end
    #[arg(long, value_name = "TIME", default_value = "90s", value_parser = duration)]
    pub(super) timeout: Duration,
    /// Print more of what is done
    #[arg(long)]
    pub(super) verbose: bool,
}

pub(super) fn duration(text: &str) -> Result<Duration, Error> {
    text.parse::<fathom_units::Nanos>().map(|nanos| Duration::from_nanos(nanos.0))
}

/// The path of this program, which also runs as the servers.
pub(super) fn own() -> Result<PathBuf> {
    Ok(std::env::current_exe().map_err(|cause| Error::io("find", "this program", cause))?)
}

impl ClusterFolder {
    pub(super) fn open(&self) -> Result<Cluster> {
        Ok(Cluster::open(&self.dir, &own()?)?)
    }

    pub(super) fn look(&self) -> Result<Cluster> {
        Ok(Cluster::look(&self.dir, &own()?)?)
    }
}

/// Prints a line of progress to standard error.
pub(super) fn say(text: &str) {
    output::note(&format!("fathom: {text}"));
}

impl TimeoutArgs {
    pub(super) fn tools(&self) -> Result<Tools<'static>> {
        Ok(Tools {
            ledger: Ledger::open()?,
            launcher: Launcher::current()?,
            signals: Signals::install()?,
            timeout: self.timeout,
            tell: if self.verbose { &say } else { &|_| () },
        })
    }
}

/// A count in words: `3 servers`.
pub(super) fn servers(count: usize) -> String {
    if count == 1 { "1 server".to_owned() } else { format!("{count} servers") }
}
