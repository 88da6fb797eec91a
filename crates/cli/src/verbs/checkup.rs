//! `fathom checkup`: the host's settings, the disk, and the verdict, in one go and one run folder.
//!
//! Host check, disk profile, and a load of the built-in server on each engine, or of a deployment. What it makes in the
//! directory it takes away again; it does not touch a database that lies there.

use std::path::PathBuf;

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
use fathom_units::Bytes;
use serde_json::json;

use super::disk;
use crate::live::{Format, Live, WIDTH};
use crate::loading::{self, LoadPlan};
use crate::outcome::Outcome;
use crate::probing::{self, DocumentArgs, Ended, Plan, Wanted};
use crate::watched_load::{self, Judged};
use crate::{lab_server, output};

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
    let signals = Signals::install()?;
    let format = match config.json {
        None => Format::Text,
        Some(Json::Document) => Format::Document,
        Some(Json::Lines) => Format::Lines,
    };
    let options = Options { dir: Some(config.dir.clone()), mongodb: config.mongodb };
    let diagnosis = doctor::examine(&View::live(), &options)?;
    let wanted = config.wanted()?;
    if let Some(uri) = &config.uri {
        loading::check_reachable(uri)?;
    }
    let run = match config.no_record {
        true => None,
        false => probing::open_run("checkup", config.runs.clone(), config.seed, &config.dir),
    };
    let mut live = Live::new(format, run);
    if !lab_server::IS_BUILT_IN && !config.no_load && config.uri.is_none() {
        output::note(
            "fathom: this build has no server to load, so the disk alone is judged; --uri names one",
        );
    }
    show_host(format, &diagnosis, config.verbose)?;
    let ended = probing::probe_and_record(&wanted, &mut live, &signals, &diagnosis.findings)?;
    show_end(&live, &diagnosis, &ended)?;
    let outcome = outcome(&ended.probed.findings, &ended.probed.loads);
    match ended.probed.error {
        Some(error) => Err(error.into()),
        None => Ok(outcome.or_by(config.fail_if.as_ref(), &live.entries)),
    }
}

/// What was named on the disk or under load; host settings alone hold nothing back.
fn outcome(disk: &[Finding], loads: &[Judged]) -> Outcome {
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
    fn wanted(&self) -> Result<Wanted> {
        let pace = if self.quick { Pace::Quick } else { Pace::Full };
        Ok(Wanted {
            dir: self.dir.clone(),
            size: self.size.or_else(|| disk::quick_size(&self.dir).filter(|_| self.quick)),
            direct: true,
            permits: Permits { any_file_system: self.any_fs, destroy: None },
            verify: false,
            keep: false,
            seed: self.seed,
            documents: self.documents.documents()?,
            layout_budget: Some(disk::layout_budget(self.quick)),
            plan: Plan::Profile(pace, disk::default_engine()),
            load: (!self.no_load && (lab_server::IS_BUILT_IN || self.uri.is_some())).then(|| LoadPlan {
                dir: self.dir.clone(),
                uri: self.uri.clone(),
                quick: self.quick,
                seed: self.seed,
            }),
        })
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

fn show_end(live: &Live, diagnosis: &Diagnosis, ended: &Ended) -> Result<()> {
    let probed = &ended.probed;
    let mut document = json!({
        "schema": fathom_record::SCHEMA,
        "fathom_version": env!("CARGO_PKG_VERSION"),
        "verb": "checkup",
        "state": ended.state,
        "error": probed.error.as_ref().map(Error::to_string),
        "run_folder": ended.folder,
        "disk_findings": probed.findings,
        "loads": watched_load::document(&probed.loads),
    });
    match live.format {
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
            document["results"] = json!(live.entries);
            return Ok(output::line(&document.to_string())?);
        }
        _ => {}
    }
    if probed.interrupted {
        output::line("\nInterrupted: the figures above are what was measured until then.")?;
    }
    let findings = findings_text(&probed.findings, WIDTH, false);
    if !findings.is_empty() {
        output::line(&format!("\n{findings}"))?;
    }
    let under_load = watched_load::text(&probed.loads);
    if !under_load.is_empty() {
        output::line(&format!("\n{under_load}"))?;
    }
    let settings = diagnosis.findings.iter().filter(|finding| finding.is_alarm()).count();
    let verb = if settings == 1 { "setting differs" } else { "settings differ" };
    live.verdict_text().map_or(Ok(()), |verdict| output::line(&verdict))?;
    output::line(&match settings {
        0 => "No host setting differs from MongoDB's advice.".to_owned(),
        n => format!("{n} host {verb} from MongoDB's advice; see 'fathom doctor'."),
    })?;
    if let Some(folder) = &ended.folder {
        output::line(&format!("Run folder: {}", folder.display()))?;
    }
    Ok(())
}
