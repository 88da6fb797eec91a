//! `fathom ftdc`: reads a mongod's recording of itself, as text, CSV, JSON lines, OpenMetrics or Parquet, and copies it without private text.
//!
//! It needs no server, no login and no load, only the right to read the files.

mod export;
mod info;
mod metric_list;
mod open_metrics;
mod parquet_file;
mod rows;
mod scrub;

use anyhow::Result;
use clap::{Args, Command, Subcommand};

use crate::outcome::VerbOutcome;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom ftdc info /var/lib/mongodb/diagnostic.data
  fathom ftdc info case-4711.zip           archives, also inside each other
  fathom ftdc metrics diagnostic.data --metric '*log sync*'
  fathom ftdc export diagnostic.data --metric 'serverStatus.opcounters.*'
  fathom ftdc export diagnostic.data --format parquet -o all.parquet
  fathom ftdc scrub diagnostic.data -o for-strangers

mongod records its counters and those of the host once a second in the folder
diagnostic.data of its dbPath (a mongos next to its log). Reading it needs no
login: 'sudo -u mongodb fathom ftdc ...' or a copy of the folder.

Exit codes: 0 ok, 2 usage or a file that is not a recording, 3 environment.";

const INFO_EXAMPLES: &str = "\
EXAMPLES:
  fathom ftdc info /var/lib/mongodb/diagnostic.data
  fathom ftdc info member1/ member2/ member3/ --tz Europe/Berlin
  ssh db1 sudo tar cz -C /var/lib/mongodb diagnostic.data | fathom ftdc info -";

const METRICS_EXAMPLES: &str = "\
EXAMPLES:
  fathom ftdc metrics diagnostic.data
  fathom ftdc metrics diagnostic.data --metric '*.disks.*' --metric '*.Dirty_kb'
  fathom ftdc metrics diagnostic.data --from 2026-11-27T19:28 --to 2026-11-27T19:31";

const EXPORT_EXAMPLES: &str = "\
EXAMPLES:
  fathom ftdc export diagnostic.data --metric '*.opLatencies.*' > latencies.csv
  fathom ftdc export diagnostic.data --format jsonl | jq .
  fathom ftdc export diagnostic.data --format parquet -o all.parquet
  fathom ftdc export diagnostic.data --metric '*.opcounters.*' --format openmetrics

csv has a row for each sample and a column for each metric; jsonl an object for
each sample; parquet a row for each value (time, server, metric, value), which
DuckDB, pandas and Spark read; openmetrics is for 'promtool tsdb
create-blocks-from openmetrics'. Values are as recorded: counters count since
the start of the server, and numbers with a fraction lack it.";

const SCRUB_EXAMPLES: &str = "\
EXAMPLES:
  fathom ftdc scrub /var/lib/mongodb/diagnostic.data -o for-strangers
  fathom ftdc scrub case-4711.zip -o for-strangers

Each name has the same mask everywhere. All numbers stay, and so do the names
and versions of software and hardware. docs/ftdc.md lists both.";

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: FtdcSubcommand,
}

#[derive(Debug, Subcommand)]
enum FtdcSubcommand {
    /// Describe recordings: versions, roles, span, periods, gaps, restarts
    #[command(after_help = INFO_EXAMPLES)]
    Info(info::InfoArgs),
    /// List metrics with the least and the most value of each
    #[command(after_help = METRICS_EXAMPLES)]
    Metrics(metric_list::MetricsArgs),
    /// Write the values of metrics as CSV, JSON lines, OpenMetrics or Parquet
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(export::ExportArgs),
    /// Copy recordings without host names, paths, arguments and namespaces
    #[command(after_help = SCRUB_EXAMPLES)]
    Scrub(scrub::ScrubArgs),
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("ftdc"))
        .about("Show and export a mongod's recording of itself (diagnostic.data)")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Runs the chosen action.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    match config.action {
        FtdcSubcommand::Info(args) => info::run(&args),
        FtdcSubcommand::Metrics(args) => metric_list::run(&args),
        FtdcSubcommand::Export(args) => export::run(&args),
        FtdcSubcommand::Scrub(args) => scrub::run(&args),
    }
}
