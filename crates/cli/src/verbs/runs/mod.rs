//! `fathom runs`: the keeper of run folders: lists, searches, compares, follows over months, hands on, and clears away.
//!
//! It changes nothing but where the name of the action says so (`import`, `prune`), and then only folders that are runs of Fathom.

mod bundle;
mod comparison;
mod list;
mod prune;
mod serve;

use anyhow::Result;
use clap::{Args, Command, Subcommand};
use fathom_errors::Error;

use crate::outcome::Outcome;

pub(super) use bundle::look_at;
use list::RunsFolder;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom runs                                      all runs, newest first
  fathom runs list --verb ycsb --state complete --since 7d
  fathom runs search readahead sda                 where these words stand
  fathom runs diff 20261120 20261121               a part of a name is enough
  fathom runs trend throughput                     a figure over the months
  fathom runs export 4711 -o run.tar.zst           one file to hand on
  fathom runs import run.tar.zst
  fathom runs prune --older 30d --keep 20 --dry-run
  fathom runs --serve                              a page at 127.0.0.1:7219

Exit codes: 0 ok, 1 a bundle or run is not what it says, 2 usage, 3 environment.";

/// What the command line may say.
#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    filter: list::Filter,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Serve a page of the runs at this address until Ctrl-C [default address: 127.0.0.1:7219]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = false, default_missing_value = "7219")]
    serve: Option<String>,
    /// With --serve: let it listen on an address that other machines reach
    #[arg(long, requires = "serve")]
    to_network: bool,
    #[command(flatten)]
    folder: RunsFolder,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List runs, newest first: how each ended, how long, how large, and what came of it
    List {
        #[command(flatten)]
        filter: list::Filter,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Find runs by words in their command line, facts of the machine, and findings
    Search(list::SearchArgs),
    /// Say what differs between two runs, and whether they can be compared at all
    Diff(comparison::DiffArgs),
    /// Follow figures over all runs of the same kind, with the points where their level changed
    Trend(comparison::TrendArgs),
    /// Pack a run into one file with a SHA-256 of each part
    Export(bundle::ExportArgs),
    /// Unpack a bundle, after its sums were checked
    Import(bundle::ImportArgs),
    /// Check a bundle against its sums, or that every part of a run can be read
    Verify(bundle::VerifyArgs),
    /// Remove old or large runs, and nothing but runs
    Prune(prune::PruneArgs),
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("runs"))
        .about("List, search, compare, follow, hand on and clear away run folders")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Does what was asked.
pub(crate) fn run(config: Config) -> Result<Outcome> {
    let folder = &config.folder;
    let has_own = !config.filter.is_empty() || config.json || config.serve.is_some();
    let Some(action) = config.action else {
        return match &config.serve {
            Some(_) if config.json || !config.filter.is_empty() => {
                Err(Error::usage("--serve takes no filter; the page has its own").into())
            }
            Some(address) => serve::run(address, config.to_network, folder),
            None => list::list(&config.filter, folder, config.json),
        };
    };
    if has_own {
        let what = "an option stands before the action";
        return Err(Error::usage(what).advise("write it behind, like fathom runs list --verb disk").into());
    }
    match action {
        Action::List { filter, json } => list::list(&filter, folder, json),
        Action::Search(args) => list::search(&args, folder),
        Action::Diff(args) => comparison::diff(&args, folder),
        Action::Trend(args) => comparison::trend(&args, folder),
        Action::Export(args) => bundle::export(&args, folder),
        Action::Import(args) => bundle::import(&args, folder),
        Action::Verify(args) => bundle::verify(&args, folder),
        Action::Prune(args) => prune::run(&args, folder),
    }
}
