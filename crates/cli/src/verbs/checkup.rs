//! `fathom checkup`: the host's settings, the disk, and the verdict, in one go and one run folder.
//!
//! Host check, disk profile, and a load of the built-in server on each engine, or of a deployment. What it makes in the
//! directory it takes away again; it does not touch a database that lies there.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Command, ValueEnum};
use fathom_errors::Error;
use fathom_explain::FailCondition;
use fathom_host::View;
use fathom_host::doctor::{self, Diagnosis, MongoVersion, Options};
use fathom_probe::{Pace, Permits};
use fathom_process::Signals;
use fathom_record::{Confidence, Finding};
use fathom_report::{findings_brief, findings_text};
use fathom_session::{
    Assessment, CoreLoad, Driver, ENGINES, IS_BUILT_IN, LoadSpec, MonitorSpec, ProbePlan, ProbeSpec,
    RecordSpec, ServerSpec, SessionResult, SessionSpec, Tools, WorkloadSpec,
};
use fathom_units::Bytes;
use serde_json::json;

use crate::arguments::{DocumentArgs, default_engine};
use crate::assessment_text;
use crate::outcome::Outcome;
use crate::output::{self, WIDTH};
use crate::result_printer::{Format, ResultPrinter, verdict_text};

/// Connections of the loads.
const CONNECTIONS: u32 = 16;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom checkup --dir /var/lib/mongodb            about four minutes
  fathom checkup --dir /data --quick               within half a minute
  fathom checkup --dir /data --uri mongodb://db1   your server in place of ours
  fathom checkup --dir /data --mongodb 7.0 --json > checkup.json

The probe and the built-in server make files in the directory and remove them again.
Commands that would change the host are printed, never run.
Exit codes: 0 not held back, 1 held back by a named cause, 2 usage,
3 environment, 4 no cause can be named. Host settings alone never make a 1.";

/// What the command line may say.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// Directory on the disk where the data are, or will be
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Within half a minute: a smaller file, fewer and shorter steps
    #[arg(long)]
    quick: bool,
    /// Load this deployment in place of the built-in server; a database is made there, and dropped
    #[arg(long, value_name = "URI", conflicts_with = "no_load")]
    uri: Option<String>,
    /// Load no server
    #[arg(long)]
    no_load: bool,
    /// The version of MongoDB to judge the host for
    #[arg(long, value_name = "VERSION")]
    mongodb: Option<MongoVersion>,
    /// Size of the test file; a quarter of the free room up to 2G where absent
    #[arg(long)]
    size: Option<Bytes>,
    #[command(flatten)]
    documents: DocumentArgs,
    /// Probe a network or FUSE file system all the same
    #[arg(long)]
    any_fs: bool,
    /// Fail where the time of operations under load exceeds a limit ('p99>10ms'): the exit code then tells that alone
    #[arg(long, value_name = "CONDITION", conflicts_with = "no_load")]
    fail_if: Option<FailCondition>,
    /// Seed of all random streams
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Print JSON: one document, or a line per result
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "document", value_name = "SHAPE")]
    json: Option<Json>,
    /// Show each host setting whole: what was read, what is wanted, the command that would fix it
    #[arg(long, short)]
    verbose: bool,
    /// Where run folders go [default: the state folder's runs/]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// Keep no run folder
    #[arg(long)]
    no_record: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Json {
    Document,
    Lines,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("checkup"))
        .about("Check the host, probe the disk, load a server on it, and say what spoils it: the main job")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Checks the host, probes the disk, judges both.
pub(crate) fn run(config: Config) -> Result<Outcome> {
    let tools = Tools { signals: Signals::install()?, note: output::note };
    let format = match config.json {
        None => Format::Text,
        Some(Json::Document) => Format::Document,
        Some(Json::Lines) => Format::Lines,
    };
    let options = Options { dir: Some(config.dir.clone()), mongodb: config.mongodb };
    let diagnosis = doctor::examine(&View::live(), &options)?;
    let spec = config.session(diagnosis.findings.clone())?;
    if let Some(uri) = &config.uri {
        fathom_session::check_reachable(uri)?;
    }
    if !IS_BUILT_IN && !config.no_load && config.uri.is_none() {
        output::note(
            "fathom: this build has no server to load, so the disk alone is judged; --uri names one",
        );
    }
    show_host(format, &diagnosis, config.verbose)?;
    let result = fathom_session::run(&spec, &tools, &mut ResultPrinter::new(format))?;
    show_end(format, &diagnosis, &result)?;
    let outcome = outcome(&result.probe_findings, &result.assessments);
    match result.error {
        Some(error) => Err(error.into()),
        None => Ok(outcome.or_by(config.fail_if.as_ref(), &result.results)),
    }
}

/// What was named on the disk or under load; host settings alone hold nothing back.
fn outcome(disk: &[Finding], loads: &[Assessment]) -> Outcome {
    let named = |finding: &&Finding| finding.is_alarm() && finding.confidence != Confidence::CannotTell;
    if disk.iter().any(|finding| named(&finding)) {
        return Outcome::Findings;
    }
    let under_load: Vec<Outcome> =
        loads.iter().filter_map(|one| one.judgement.verdict.as_ref()).map(Outcome::from).collect();
    if under_load.contains(&Outcome::Findings) {
        Outcome::Findings
    } else if under_load.contains(&Outcome::Unjudged) || disk.iter().any(Finding::is_alarm) {
        Outcome::Unjudged
    } else {
        Outcome::Clean
    }
}

impl Config {
    fn session(&self, host_findings: Vec<Finding>) -> Result<SessionSpec> {
        let record = RecordSpec::new("checkup", self.runs.clone(), &self.dir).seed(self.seed);
        Ok(SessionSpec {
            record: (!self.no_record).then_some(record),
            findings: host_findings,
            probe: Some(self.probe()?),
            loads: self.loads(),
            monitor: None,
        })
    }

    fn probe(&self) -> Result<ProbeSpec> {
        let pace = if self.quick { Pace::Quick } else { Pace::Full };
        Ok(ProbeSpec {
            size: self.size.or_else(|| ProbeSpec::size_for(&self.dir, pace)),
            permits: Permits { any_file_system: self.any_fs, destroy: None },
            seed: self.seed,
            documents: self.documents.documents()?,
            layout_budget: Some(ProbeSpec::layout_budget_for(pace)),
            ..ProbeSpec::new(&self.dir, ProbePlan::Profile(pace, default_engine()))
        })
    }

    /// A load of the deployment that is named, else of the lab server on each engine.
    fn loads(&self) -> Vec<LoadSpec> {
        let dir = || self.dir.clone();
        let servers: Vec<ServerSpec> = match &self.uri {
            _ if self.no_load => Vec::new(),
            Some(uri) => vec![ServerSpec::NewDatabase { uri: uri.clone(), dir: dir() }],
            None if !IS_BUILT_IN => Vec::new(),
            None => ENGINES
                .map(|(engine, name)| {
                    let (engine, name) = (engine.to_owned(), format!("Server on {name}"));
                    ServerSpec::Local { engine, name, dir: dir() }
                })
                .to_vec(),
        };
        servers.into_iter().enumerate().map(|(number, server)| self.load(number, server)).collect()
    }

    fn load(&self, number: usize, server: ServerSpec) -> LoadSpec {
        LoadSpec {
            server,
            workload: WorkloadSpec::Core(self.parts()),
            driver: Driver::Own,
            monitor: Some(MonitorSpec {
                is_judged: true,
                is_required: false,
                first_member: number,
                ..MonitorSpec::default()
            }),
            is_strict: true,
            has_points: false,
        }
    }

    /// A load, and the workloads A and C.
    fn parts(&self) -> Vec<CoreLoad> {
        let (load_s, run_s, records) = if self.quick { (2, 1, 20_000) } else { (30, 15, 200_000) };
        let part = |(name, reads, seconds): (&str, Option<f64>, u64)| {
            let mut load = CoreLoad {
                name: name.to_owned(),
                is_run: Some(reads.is_some()),
                records: Some(records),
                operations: Some(0),
                time: Some(Duration::from_secs(seconds)),
                connections: Some(CONNECTIONS),
                read_share: Some(reads.unwrap_or(1.0)),
                seed: Some(self.seed),
                ..CoreLoad::default()
            };
            load.properties.set("workload", "CoreWorkload", "checkup");
            load.properties.set("requestdistribution", "zipfian", "checkup");
            load
        };
        [("load", None, load_s), ("workload A", Some(0.5), run_s), ("workload C", Some(1.0), run_s)]
            .map(part)
            .to_vec()
    }
}

fn show_host(format: Format, diagnosis: &Diagnosis, verbose: bool) -> Result<()> {
    match format {
        Format::Text => {
            let subject = &diagnosis.subject;
            output::line(&format!("Host settings for {} with MongoDB {}", subject.dir, subject.mongodb))?;
            for assumption in &diagnosis.assumptions {
                output::line(&format!("  assumed: {assumption}"))?;
            }
            if verbose {
                output::line(&format!("\n{}", findings_text(&diagnosis.findings, WIDTH, true)))?;
            } else {
                output::line(&findings_brief(&diagnosis.findings, WIDTH))?;
            }
            output::line("")?;
        }
        Format::Lines => {
            for finding in &diagnosis.findings {
                let mut line = json!(finding);
                line["type"] = json!("host_finding");
                output::line(&line.to_string())?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn show_end(format: Format, diagnosis: &Diagnosis, result: &SessionResult) -> Result<()> {
    let mut document = json!({
        "schema": fathom_record::SCHEMA,
        "fathom_version": env!("CARGO_PKG_VERSION"),
        "verb": "checkup",
        "state": result.state,
        "error": result.error.as_ref().map(Error::to_string),
        "run_folder": result.folder,
        "disk_findings": result.probe_findings,
        "loads": assessment_text::document_under_load(&result.assessments),
    });
    match format {
        Format::Lines => {
            document["type"] = json!("end");
            return Ok(output::line(&document.to_string())?);
        }
        Format::Document => {
            document["host"] = json!({
                "subject": diagnosis.subject,
                "assumptions": diagnosis.assumptions,
                "findings": diagnosis.findings,
            });
            document["results"] = json!(result.results);
            return Ok(output::line(&document.to_string())?);
        }
        _ => {}
    }
    if result.is_interrupted {
        output::line("\nInterrupted: the figures above are what was measured until then.")?;
    }
    let findings = findings_text(&result.probe_findings, WIDTH, false);
    if !findings.is_empty() {
        output::line(&format!("\n{findings}"))?;
    }
    let under_load = assessment_text::text_under_load(&result.assessments);
    if !under_load.is_empty() {
        output::line(&format!("\n{under_load}"))?;
    }
    let settings = diagnosis.findings.iter().filter(|finding| finding.is_alarm()).count();
    let verb = if settings == 1 { "setting differs" } else { "settings differ" };
    verdict_text(&result.results).map_or(Ok(()), |verdict| output::line(&verdict))?;
    output::line(&match settings {
        0 => "No host setting differs from MongoDB's advice.".to_owned(),
        n => format!("{n} host {verb} from MongoDB's advice; see 'fathom doctor'."),
    })?;
    if let Some(folder) = &result.folder {
        output::line(&format!("Run folder: {}", folder.display()))?;
    }
    Ok(())
}
