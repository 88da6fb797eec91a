//! `fathom runs`: manages run folders: lists, shows, searches, compares, follows over months, exports, and removes them.
//!
//! It only changes anything if the name of the action says so (`import`, `prune`), and then only folders that are runs of Fathom.

mod bundle;
mod comparison;
mod list;
mod prune;
mod serve;
mod show;

use anyhow::Result;
use clap::{Args, Command, Subcommand};
use fathom_errors::Error;

use crate::outcome::VerbOutcome;

use list::RunsFolder;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom runs                                      all runs, newest first
  fathom runs list --verb ycsb --state complete --since 7d
  fathom runs show                                 the newest run's text again
  fathom runs show last~1                          that of the run before
  fathom runs search readahead sda                 runs with these words
  fathom runs diff                                 the newest run and the one
                                                   of the same verb before it
  fathom runs diff 20261120 20261121               a part of a name is enough
  fathom runs trend throughput                     a figure over the months
  fathom runs export 4711 -o run.tar.zst           one file to pass on
  fathom runs import run.tar.zst
  fathom runs prune --older 30d --keep 20 --dry-run
  fathom runs --serve                              a page at 127.0.0.1:7219

Exit codes: 0 ok, 1 a bundle or run is damaged, 2 usage, 3 environment.";

const LIST_EXAMPLES: &str = "\
EXAMPLES:
  fathom runs list --verb ycsb --state complete --since 7d
  fathom runs list --limit 5 --json";

const SHOW_EXAMPLES: &str = "\
EXAMPLES:
  fathom runs show                 the newest run
  fathom runs show last~2          two runs before it
  fathom runs show 4711            the run with this part in its name";

const SEARCH_EXAMPLES: &str = "\
EXAMPLES:
  fathom runs search readahead sda
  fathom runs search xfs --verb disk --since 30d";

const DIFF_EXAMPLES: &str = "\
EXAMPLES:
  fathom runs diff                 the newest run and that of its verb before it
  fathom runs diff 4711            that run and that of its verb before it
  fathom runs diff last~1 last     A, then B";

const TREND_EXAMPLES: &str = "\
EXAMPLES:
  fathom runs trend
  fathom runs trend read p99 --verb ycsb --points";

const EXPORT_EXAMPLES: &str = "\
EXAMPLES:
  fathom runs export last
  fathom runs export 4711 -o run.tar.zst";

const IMPORT_EXAMPLES: &str = "\
EXAMPLES:
  fathom runs import run.tar.zst
  fathom runs import run.tar.zst --runs /data/runs";

const VERIFY_EXAMPLES: &str = "\
EXAMPLES:
  fathom runs verify run.tar.zst   every part against its SHA-256
  fathom runs verify last          whether every part can be read";

const PRUNE_EXAMPLES: &str = "\
EXAMPLES:
  fathom runs prune --older 30d --keep 20 --dry-run
  fathom runs prune --total 50GB --yes";

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Option<RunsSubcommand>,
    #[command(flatten)]
    filter: list::RunFilter,
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
enum RunsSubcommand {
    /// List runs, newest first: how each ended, how long, how large, its main figure and verdict
    #[command(after_help = LIST_EXAMPLES)]
    List {
        #[command(flatten)]
        filter: list::RunFilter,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Show the text of a run again: what its verb printed as the answer
    #[command(after_help = SHOW_EXAMPLES)]
    Show(show::ShowArgs),
    /// Find runs by words in their command line, facts of the machine, and findings
    #[command(after_help = SEARCH_EXAMPLES)]
    Search(list::SearchArgs),
    /// Show what differs between two runs, and whether they are comparable
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(comparison::DiffArgs),
    /// Follow figures over all runs of the same kind, with the points where their level changed
    #[command(after_help = TREND_EXAMPLES)]
    Trend(comparison::TrendArgs),
    /// Pack a run into one file with a SHA-256 of each part
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(bundle::ExportArgs),
    /// Check the sums of a bundle, and unpack it
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(bundle::ImportArgs),
    /// Check a bundle against its sums, or that every part of a run can be read
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(bundle::VerifyArgs),
    /// Remove old or large runs, and nothing but runs
    #[command(after_help = PRUNE_EXAMPLES)]
    Prune(prune::PruneArgs),
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("runs"))
        .about("List, show, search, compare, follow, hand on and clear away run folders")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Runs the chosen action.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
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
        let what = "an option is before the action";
        return Err(Error::usage(what).advise("write it behind, like fathom runs list --verb disk").into());
    }
    match action {
        RunsSubcommand::List { filter, json } => list::list(&filter, folder, json),
        RunsSubcommand::Show(args) => show::run(&args, folder),
        RunsSubcommand::Search(args) => list::search(&args, folder),
        RunsSubcommand::Diff(args) => comparison::diff(&args, folder),
        RunsSubcommand::Trend(args) => comparison::trend(&args, folder),
        RunsSubcommand::Export(args) => bundle::export(&args, folder),
        RunsSubcommand::Import(args) => bundle::import(&args, folder),
        RunsSubcommand::Verify(args) => bundle::verify(&args, folder),
        RunsSubcommand::Prune(args) => prune::run(&args, folder),
    }
}
