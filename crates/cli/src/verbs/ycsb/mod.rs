//! `fathom ycsb`: YCSB's command line for MongoDB, at a fraction of its cost and with honest latency.
//!
//! What the properties mean is decided in `fathom_load`; here they become a run, status lines, a report and a run folder.

mod core_run;
mod document;
mod document_run;
mod drive;
mod find_max;
mod observe;
mod points;
mod summary;
mod words;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Command, ValueEnum};
use fathom_errors::{Error, Kind};
use fathom_load::client_settings::ClientSettings;
use fathom_load::driving::{Arrivals, check_official_driver};
use fathom_load::properties::Properties;
use fathom_load::ycsb_report::ReportSettings;
use fathom_process::Signals;
use fathom_stats::Slo;
use fathom_units::Nanos;

pub(crate) use words::plain;

use crate::outcome::Outcome;
use crate::output;

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

/// Connections of a search, where nobody says how many.
const FIND_MAX_THREADS: &str = "64";

/// What the command line may say.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// load the records, or run operations on them
    #[arg(value_enum, value_name = "load|run")]
    phase: Option<Word>,
    /// The binding: mongodb (mongodb-async is taken for it)
    binding: Option<String>,
    /// A file of properties; may be repeated, later ones win
    #[arg(short = 'P', value_name = "FILE")]
    files: Vec<PathBuf>,
    /// One property; beats all files
    #[arg(short = 'p', value_name = "NAME=VALUE", allow_hyphen_values = true)]
    properties: Vec<String>,
    /// Connections, each with one operation under way (-threads)
    #[arg(long, value_name = "N")]
    threads: Option<String>,
    /// Operations a second over all of them (-target)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    target: Option<String>,
    /// Status lines on standard error
    #[arg(short = 's')]
    status: bool,
    /// What stands in front of each status line
    #[arg(short = 'l', value_name = "LABEL", allow_hyphen_values = true)]
    label: Option<String>,
    /// The binding's class, where no binding is named (-db)
    #[arg(long, value_name = "CLASS")]
    db: Option<String>,
    /// load, where no phase is named (-load)
    #[arg(long)]
    load: bool,
    /// run, where no phase is named (-t)
    #[arg(long)]
    run: bool,
    /// Who talks to the server. official is MongoDB's Rust driver, which shows what a driver
    /// costs: closed loops and rates, but no pipelinedepth and no w=0
    #[arg(long, value_enum, value_name = "WHO", default_value_t = Driver::Own, hide_possible_values = true)]
    driver: Driver,
    /// Exit with 0 also when operations failed, as YCSB does
    #[arg(long)]
    ycsb_exit_codes: bool,
    /// A workload of any documents and commands (YAML) in place of YCSB's; see docs/workloads.md
    #[arg(long, value_name = "FILE", conflicts_with = "find_max")]
    workload: Option<PathBuf>,
    /// Find the highest rate that holds --slo: Poisson arrivals at rising rates
    #[arg(long, requires = "slo", conflicts_with = "target")]
    find_max: bool,
    /// A latency objective for --find-max, such as 'p99<10ms'
    #[arg(long, requires = "find_max")]
    slo: Option<Slo>,
    /// How long each step of --find-max is measured
    #[arg(long, default_value = "30s", value_name = "TIME")]
    step: Nanos,
    /// Serve what goes on as OpenMetrics: a port of the loopback, or ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,
    /// Watch the servers and this host beside the load, into the same run folder, for fathom explain
    #[arg(long, conflicts_with = "no_record")]
    watch: bool,
    /// The directory of the data on this host, where the servers do not say it themselves
    #[arg(long, value_name = "DIR", requires = "watch")]
    watch_dir: Option<PathBuf>,
    /// Print one JSON document in place of YCSB's report
    #[arg(long)]
    json: bool,
    /// Where run folders go [default: the state folder's runs/]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// Keep no run folder
    #[arg(long)]
    no_record: bool,
    /// Taken and without effect: there is no class path here (-cp)
    #[arg(long, hide = true)]
    classpath: Option<String>,
    /// Taken and without effect: there is no JVM here (-jvm-args)
    #[arg(long, hide = true, allow_hyphen_values = true)]
    jvm_args: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Word {
    Load,
    Run,
}

/// Who talks to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Driver {
    /// Event loops of our own
    Own,
    /// MongoDB's official driver for Rust
    Official,
}

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

fn warn(warnings: &[String]) {
    warnings.iter().for_each(|warning| output::note(&format!("fathom: {warning}")));
}

/// How the report looks; where operations are due at a rate, the two clocks differ, and both are worth seeing.
fn report_settings(
    properties: &Properties,
    settings: &ClientSettings,
) -> Result<(ReportSettings, Vec<String>)> {
    let mut clocks = properties.clone();
    if properties.get("measurement.interval").is_none() && settings.plan.arrivals != Arrivals::Closed {
        clocks.set("measurement.interval", "both", "default");
    }
    Ok(ReportSettings::of(&clocks)?)
}

/// A report's file that cannot be written is better refused now than when there is something to write.
fn check_export_file(settings: &ClientSettings) -> Result<()> {
    if let Some(file) = &settings.export_file {
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
        opened.map_err(|error| Error::io("write the report to", file, error))?;
    }
    Ok(())
}

/// A server that cannot be reached, refuses the login or speaks something else is the environment's fault, not an operation's.
fn environment(error: Error) -> Error {
    match error.kind() {
        Kind::Io | Kind::Malformed => error.with_kind(Kind::Unsupported),
        _ => error,
    }
}

impl Config {
    /// The properties of all files and flags.
    fn properties(&self) -> Result<Properties> {
        let mut properties = Properties::default();
        for file in &self.files {
            properties.add_file(file)?;
        }
        for pair in &self.properties {
            properties.add_flag(pair)?;
        }
        for (name, value, flag) in [
            ("threadcount", &self.threads, "-threads"),
            ("target", &self.target, "-target"),
            ("label", &self.label, "-l"),
            ("db", &self.db, "-db"),
        ] {
            if let Some(value) = value {
                properties.set(name, value, flag);
            }
        }
        if self.find_max {
            // A search has a time of its own, and needs connections for what is under way when a server stalls.
            properties.set("operationcount", "0", "--find-max");
            properties.set("maxexecutiontime", "3600", "--find-max");
            if properties.get("threadcount").is_none() {
                properties.set("threadcount", FIND_MAX_THREADS, "--find-max");
            }
        }
        if self.status {
            properties.set("status", "true", "-s");
        }
        self.phase(&mut properties)?;
        self.check_binding(&properties)?;
        Ok(properties)
    }

    /// How long a step of the search takes.
    fn step(&self) -> Result<Nanos> {
        if !(Nanos::secs(1)..=Nanos::secs(86_400)).contains(&self.step) {
            return Err(Error::usage(format!("--step {} makes no sense; take 1s to a day", self.step)).into());
        }
        Ok(self.step)
    }

    fn phase(&self, properties: &mut Properties) -> Result<()> {
        let named = self.phase.map(|word| word == Word::Run);
        let flagged = (self.load != self.run).then_some(self.run);
        match named.or(flagged) {
            Some(run) => properties.set("dotransactions", if run { "true" } else { "false" }, "the phase"),
            None if self.load && self.run => {
                return Err(Error::usage("-load and -t exclude each other").into());
            }
            None => {}
        }
        Ok(())
    }

    fn check_binding(&self, properties: &Properties) -> Result<()> {
        const CLASSES: [&str; 4] = [
            "site.ycsb.db.MongoDbClient",
            "com.yahoo.ycsb.db.MongoDbClient",
            "site.ycsb.db.AsyncMongoDbClient",
            "com.yahoo.ycsb.db.AsyncMongoDbClient",
        ];
        let refuse = |what: &str| {
            let error = Error::new(Kind::Usage, format!("the binding {what} is not known"));
            Err(error.advise("mongodb is").into())
        };
        match (self.binding.as_deref(), properties.text("db")) {
            (Some("mongodb" | "mongodb-async"), _) | (None, None) => Ok(()),
            (Some(other), _) => refuse(other),
            (None, Some(class)) if CLASSES.contains(&class) => Ok(()),
            (None, Some(class)) => refuse(class),
        }
    }
}
