//! `fathom ycsb`: YCSB's command line for MongoDB, at a fraction of its cost and with honest latency.
//!
//! `fathom_load` interprets the properties. This module adds a run, status lines, a report and a run folder.

mod config;
mod failure_advice;
mod load_printer;
mod load_progress;
mod points;
mod results;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Command};
use fathom_errors::Error;
use fathom_load::client_settings::ClientSettings;
use fathom_load::driving::check_official_driver;
use fathom_load::ycsb_report::ReportSettings;
use fathom_process::Signals;
use fathom_session::{
    Driver, LoadPlan, LoadSpec, MonitorSpec, RecordSpec, ServerSpec, SessionResult, SessionSpec,
    SessionTools, WorkloadSpec,
};
use serde_json::json;

pub(crate) use self::config::{Config, plain};
use self::config::{DriverWord, check_export_file, report_settings, warn};
use self::failure_advice::TargetCollection;
use self::load_printer::LoadPrinter;
use crate::metrics::LoadMetrics;
use crate::outcome::VerbOutcome;
use crate::output;
use crate::run_page;

/// The time for which memory keeps the samplers' readings, which are in the run folder.
const HINDSIGHT: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
EXAMPLES:
  fathom ycsb load mongodb -P workloada -threads 16
  fathom ycsb run mongodb -P workloada -p operationcount=100000 -s
  fathom ycsb run mongodb -P workloadc -target 5000 \\
      -p mongodb.url=mongodb://db1/ycsb
  fathom ycsb run mongodb -P workloadb -target 5000 \\
      -p arrivals=poisson -p operationcount=0 -p maxexecutiontime=60
  fathom ycsb run mongodb -P workloadb --find-max --slo 'p99<10ms'
  fathom ycsb load mongodb --workload nested-orders
  fathom ycsb run mongodb -P workloada --watch && fathom explain
  fathom ycsb -load -db site.ycsb.db.MongoDbClient -P workloada

The report is written to standard output, all else to standard error. --watch
also makes a page of the run, report.html in its folder. Ctrl-C ends a run with
its report. docs/ycsb.md lists the properties of YCSB and those of Fathom.
Exit codes: 0 ok, 1 operations failed, 2 usage, 3 environment.";

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("ycsb"))
        .about("Load a MongoDB as YCSB does: its command line, files, keys and report, cheaper")
        .long_about(None)
        .after_help(EXAMPLES)
        // A script adds its own options to those of its user, as with YCSB.
        .args_override_self(true)
}

/// Loads or runs, and reports.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    let reasons = [
        (!config.watch, "a load without --watch"),
        (config.json, "--json"),
        (config.no_record, "--no-record"),
    ];
    config.page.check(&reasons)?;
    if config.driver == DriverWord::Official {
        check_official_driver()?;
        if config.find_max {
            let what = "--find-max measures a server, so it cannot be used with --driver official";
            return Err(Error::usage(what).into());
        }
    }
    let tools = SessionTools { signals: Signals::install()?, note: output::note };
    let workload = config.workload(config.properties()?)?;
    let LoadClient { settings, report, server, collection } = match &workload {
        WorkloadSpec::Core(parts) => {
            let plan = parts.first().cloned().unwrap_or_default().plan()?;
            let collection = Some(TargetCollection::new(&plan));
            LoadClient { collection, ..LoadClient::new(plan, false)? }
        }
        WorkloadSpec::Search(search) => LoadClient::new(search.load.plan()?, false)?,
        WorkloadSpec::Documents(load) => {
            let plan = load.plan()?;
            let is_paced = plan.is_paced();
            LoadClient::new(plan, is_paced)?
        }
        WorkloadSpec::Capacity(_) => {
            return Err(Error::usage("capacities are measured by 'fathom checkup'").into());
        }
    };
    let record = RecordSpec::new("ycsb", config.runs.clone(), Path::new(".")).seed(settings.plan.seed);
    let monitor =
        MonitorSpec { dir: config.watch_dir.clone(), hindsight: Some(HINDSIGHT), ..MonitorSpec::default() };
    let load = LoadSpec {
        server: ServerSpec::Url,
        workload,
        driver: match config.driver {
            DriverWord::Own => Driver::Own,
            DriverWord::Official => Driver::Official,
        },
        monitor: config.watch.then_some(monitor),
        is_strict: false,
        has_points: report.wants_raw(),
    };
    let spec = SessionSpec {
        record: (!config.no_record).then_some(record),
        loads: vec![load],
        ..SessionSpec::default()
    };
    let metrics = config.metrics.as_deref().map(LoadMetrics::serve).transpose()?;
    let mut printer = LoadPrinter::new(&config, &settings, &report, metrics, collection);
    let result = fathom_session::run(&spec, &tools, &mut printer)?;
    end(&config, printer, &server, result)
}

/// The client of a load, as planned.
struct LoadClient {
    settings: ClientSettings,
    report: ReportSettings,
    /// The deployment, without secrets.
    server: String,
    /// The collection of a core workload.
    collection: Option<TargetCollection>,
}

impl LoadClient {
    /// Reads the settings of the report, warns, and refuses a file that cannot be written, all before any request to the servers.
    fn new<W>(plan: LoadPlan<W>, is_paced: bool) -> Result<LoadClient> {
        let LoadPlan { settings, properties, binding, mut warnings, .. } = plan;
        let (report, more) = report_settings(&properties, &settings)?;
        warnings.extend(more);
        warn(&warnings);
        if is_paced && properties.get("measurement.interval").is_none() {
            output::note(
                "fathom: phases come at a rate: -p measurement.interval=both shows both clocks in the report",
            );
        }
        check_export_file(&settings)?;
        Ok(LoadClient { settings, report, server: binding.target.to_string(), collection: None })
    }
}

/// Prints the path of the run folder and the end of the output, and returns the outcome.
fn end(
    config: &Config,
    mut printer: LoadPrinter<'_>,
    server: &str,
    result: SessionResult,
) -> Result<VerbOutcome> {
    if let Some(error) = result.error {
        return Err(error.into());
    }
    if let Some(folder) = &result.folder {
        output::note(&format!("Run folder: {}", folder.display()));
        if config.watch {
            output::note(&format!("To judge it: fathom explain {}", folder.display()));
            // Standard output is used for YCSB's report.
            let page = (!config.json).then(|| run_page::of_ended_run(&config.page, Some(folder))).flatten();
            page.iter().for_each(|page| output::note(page));
        }
    }
    if let Some(slo) = &config.slo {
        // The search was stopped before its first result.
        let Some(search) = &result.search else { return Ok(VerbOutcome::Clean) };
        if config.json {
            output::line(&results::search_document(search, slo, result.folder.as_deref()).to_string())?;
        } else {
            results::show_search(search)?;
        }
        return Ok(if search.found.rate_per_s.is_some() {
            VerbOutcome::Clean
        } else {
            VerbOutcome::Findings
        });
    }
    if let Some(error) = printer.report_error.take() {
        return Err(error.into());
    }
    if config.json {
        let document = json!({
            "schema": fathom_record::SCHEMA,
            "fathom_version": env!("CARGO_PKG_VERSION"),
            "verb": "ycsb",
            "server": server,
            "error": result.broken,
            "run_folder": result.folder,
            "parts": printer.parts,
        });
        output::line(&document.to_string())?;
    }
    if let Some(broken) = result.broken {
        output::note(&format!("fathom: {broken}"));
        return Ok(VerbOutcome::Findings);
    }
    let fails = printer.has_failures && !config.ycsb_exit_codes;
    Ok(if fails { VerbOutcome::Findings } else { VerbOutcome::Clean })
}
