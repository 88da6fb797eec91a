//! `fathom ycsb`: YCSB's command line for MongoDB, at a fraction of its cost and with honest latency.
//!
//! What the properties mean is decided in `fathom_load`; here they become a run, status lines, a report and a run folder.

mod config;
mod core_run;
mod document;
mod document_run;
mod drive;
mod find_max;
mod observe;
mod points;
mod summary;
mod words;

use anyhow::Result;
use clap::{Args, Command};
use fathom_load::driving::check_official_driver;
use fathom_process::Signals;

use crate::outcome::Outcome;

pub(crate) use config::Config;
use config::Driver;
pub(crate) use words::plain;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom ycsb load mongodb -P workloads/workloada -threads 16
  fathom ycsb run mongodb -P workloads/workloada -p operationcount=100000 -s
  fathom ycsb run mongodb -P workloads/workloadc -target 5000 \\
      -p mongodb.url=mongodb://db1/ycsb
  fathom ycsb run mongodb -P workloads/workloadb -target 5000 \\
      -p arrivals=poisson -p operationcount=0 -p maxexecutiontime=60
  fathom ycsb run mongodb -P workloads/workloadb --find-max --slo 'p99<10ms'
  fathom ycsb load mongodb --workload workloads/nested-orders.yaml
  fathom ycsb run mongodb -P workloads/workloada --watch && fathom explain
  fathom ycsb -load -db site.ycsb.db.MongoDbClient -P workloads/workloada

The report goes to standard output, all else to standard error. Ctrl-C ends a
run with its report. Properties are YCSB's and ours; docs/ycsb.md lists them.
Exit codes: 0 ok, 1 operations failed, 2 usage, 3 environment.";

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("ycsb"))
        .about("Load a MongoDB as YCSB does: its command line, files, keys and report, cheaper")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Loads or runs, and reports.
pub(crate) fn run(config: Config) -> Result<Outcome> {
    if config.driver == Driver::Official {
        check_official_driver()?;
    }
    let signals = Signals::install()?;
    let properties = config.properties()?;
    match &config.workload {
        Some(file) => document_run::run(&config, file, &properties, signals),
        None => core_run::run(&config, &properties, signals),
    }
}
