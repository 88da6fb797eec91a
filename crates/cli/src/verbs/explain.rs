//! `fathom explain`: where the mean time of operations goes and what spoils it, from a run folder or from a deployment that is
//! watched for a while.
//!
//! It only reads: of a run, its folder, which it leaves as it is; of a deployment, by reading commands. What cannot be told is
//! said, with what would tell.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, Command};
use fathom_errors::{Error, Kind};
use fathom_explain::FailCondition;
use fathom_process::Signals;
use fathom_record::disk::Entry;
use fathom_record::{Run, State};
use fathom_session::{
    Assessment, Events, Feed, LiveFeed, MonitorSpec, RecordSpec, SessionSpec, Tools, pause, run_folders,
};
use fathom_units::Nanos;
use indicatif::{ProgressBar, ProgressStyle};

use crate::arguments::MonitorArgs;
use crate::outcome::Outcome;
use crate::{assessment_text, output};

const EXAMPLES: &str = "\
EXAMPLES:
  fathom explain                                   the newest run folder
  fathom explain runs/20261121T093000Z-ycsb-4711   that one
  fathom explain --probe runs/20261121T093000Z-disk-4711
                                  with the device's curve, for what queues cost
  fathom explain --uri mongodb://db1 --for 5m      a deployment, as it is now
  fathom explain --uri mongodb://db1 --dir /data --namespace shop.orders --json
  fathom explain --uri mongodb://db1 --uri mongodb://db2       two, side by side
  fathom explain --fail-if 'p99>10ms'              for scripts: 1 if so

Only reading commands are sent, and the privilege clusterMonitor is enough;
docs/watch.md lists them. Ctrl-C judges what was seen until then.
Exit codes: 0 not held back, 1 held back by a named cause, 2 usage,
3 environment, 4 no cause can be named, or nothing was examined.";

/// How often servers are asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// The shortest watching that can say anything.
const SHORTEST: Nanos = Nanos::secs(5);

/// What the command line may say.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// The run folder to judge [default: the newest]
    #[arg(value_name = "RUN", conflicts_with_all = ["uri", "dir", "device", "namespace", "log", "time", "no_record"])]
    run: Option<PathBuf>,
    #[command(flatten)]
    source: MonitorArgs,
    /// How long a deployment is watched [default: 2m]
    #[arg(long = "for", value_name = "TIME")]
    time: Option<Nanos>,
    /// A run folder of 'fathom disk' on the same device: tells what a deeper queue would bring
    #[arg(long, value_name = "RUN")]
    probe: Option<PathBuf>,
    /// Fail where the clients' time exceeds a limit ('p99>10ms', 'read p99.9>50ms'): the exit code then tells that alone
    #[arg(long, value_name = "CONDITION")]
    fail_if: Option<FailCondition>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Where run folders are, and go [default: the state folder's runs/]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// Keep no run folder of what is watched
    #[arg(long)]
    no_record: bool,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("explain"))
        .about("Say where the time goes and why: of a run folder, or of a deployment watched for a while")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Judges, and shows.
pub(crate) fn run(config: Config) -> Result<Outcome> {
    if config.time.is_some() && !config.source.names_something() {
        let what = "--for says how long a deployment is watched, and none is named";
        return Err(Error::usage(what).advise("name one with --uri, --dir or --device").into());
    }
    let (assessment, state, folder) = match config.source.names_something() {
        true => monitored(&config)?,
        false => recorded(&config)?,
    };
    if config.json {
        let document = assessment_text::document(&assessment, state, folder.as_deref());
        output::line(&serde_json::to_string_pretty(&document)?)?;
    } else {
        output::line(&assessment_text::text(&assessment, state, folder.as_deref()))?;
    }
    let outcome = assessment.judgement.verdict.as_ref().map_or(Outcome::Unjudged, Outcome::from);
    Ok(outcome.or_by(config.fail_if.as_ref(), &assessment.evidence.results))
}

/// An old run, judged anew; its folder stays as it is.
fn recorded(config: &Config) -> Result<(Assessment, State, Option<PathBuf>)> {
    let folder = run_folders::named_or_newest(config.run.as_deref(), config.runs.as_deref())?;
    let (assessment, state) = Assessment::of_folder(&folder, probed(config)?)?;
    Ok((assessment, state, Some(folder)))
}

/// The steps of the probe that was named.
fn probed(config: &Config) -> Result<Vec<Entry>> {
    let Some(folder) = &config.probe else { return Ok(Vec::new()) };
    let mut results = Run::open(folder)?.results()?;
    results.retain(|entry| matches!(entry, Entry::Step(_)));
    if results.is_empty() {
        let what = format!("{} holds no step of a probe", folder.display());
        return Err(Error::new(Kind::Unsupported, what).advise("name a run of 'fathom disk'").into());
    }
    Ok(results)
}

/// A deployment, or this host, monitored for a while.
fn monitored(config: &Config) -> Result<(Assessment, State, Option<PathBuf>)> {
    let time = config.time.unwrap_or(Nanos::secs(120));
    if time < SHORTEST {
        return Err(
            Error::usage(format!("--for {time} is too short to say anything; take {SHORTEST}")).into()
        );
    }
    let monitor = MonitorSpec {
        time: Some(Duration::from(time)),
        is_judged: true,
        known_results: probed(config)?,
        ..config.source.spec(INTERVAL)?
    };
    let tools = Tools { signals: Signals::install()?, note: output::note };
    let record = RecordSpec::new("explain", config.runs.clone(), &monitor.directory());
    let mut progress = Progress { subject: monitor.subject(), time: Duration::from(time) };
    let spec = SessionSpec {
        record: (!config.no_record).then_some(record),
        monitor: Some(monitor),
        ..SessionSpec::default()
    };
    let mut result = fathom_session::run(&spec, &tools, &mut progress)?;
    if let Some(error) = result.error {
        return Err(error.into());
    }
    let assessment = result.assessments.pop();
    let missing = || Error::new(Kind::Unsupported, "nothing was judged");
    Ok((assessment.ok_or_else(missing)?, result.state, result.folder))
}

/// A bar on the terminal while a deployment is monitored.
struct Progress {
    subject: String,
    time: Duration,
}

impl Events for Progress {
    fn follow(
        &mut self,
        feed: &mut LiveFeed<'_>,
        until: Option<Instant>,
        signals: &Signals,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        let progress = match std::io::stderr().is_terminal() {
            true => ProgressBar::new(self.time.as_secs()),
            false => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("watching {msg} {wide_bar} {pos}/{len} s");
        progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        progress.set_message(self.subject.clone());
        while let Some(wait) = pause(until, signals) {
            feed.gather(wait);
            progress.set_position(begun.elapsed().as_secs());
        }
        progress.finish_and_clear();
        Ok(())
    }
}
