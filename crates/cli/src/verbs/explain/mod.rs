//! `fathom explain`: the parts of operations' mean time and the causes of delay, from a run folder, from a deployment that is watched for a while,
//! or from the recording that a server made of itself and its log.
//!
//! It only reads: from a run, its folder, to which it adds only the page; from a deployment, by reading commands. If a question cannot be
//! decided, the output says so, and names the data that would decide it.

mod recording;
mod recording_text;
mod slow_operation_text;

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
    Assessment, Events, LiveFeed, MonitorSpec, RecordSpec, SessionSpec, SessionTools, run_folders,
};
use fathom_units::Nanos;
use jiff::tz::TimeZone;

use crate::arguments::MonitorArgs;
use crate::outcome::VerbOutcome;
use crate::progress::{PlanBar, PlanPart};
use crate::recording_arguments::{TimeRangeArgs, parse_zone};
use crate::recording_inputs::RecordingInputs;
use crate::run_page::{self, PageArgs};
use crate::{assessment_text, output};

const EXAMPLES: &str = "\
EXAMPLES:
  fathom explain                                   the newest run folder
  fathom explain runs/20261121T093000Z-ycsb-4711   that one
  fathom explain --probe runs/20261121T093000Z-disk-4711
                                  with the device's curve, for what queues cost
  fathom explain --uri mongodb://db1 --for 5m      a deployment, as it is now
  fathom explain /var/lib/mongodb/diagnostic.data  mongod's own recording
  fathom explain case.tar.gz --from 2026-11-27T19:00 --tz Europe/Berlin
  fathom explain diagnostic.data --device sdb      whose database is on sdb
  fathom explain diagnostic.data --log mongod.log* with the shapes that read
  journalctl -o cat -u mongod | fathom explain --log -    a log alone
  fathom explain --uri mongodb://db1 --dir /data --namespace shop.orders --json
  fathom explain --uri mongodb://db1 --uri mongodb://db2       two, side by side
  fathom explain --fail-if 'p99>10ms'              for scripts: 1 if so

Only commands that read are sent, and the privilege clusterMonitor is enough;
docs/watch.md lists them. Ctrl-C judges what was read until then. The run
folder gets a page, report.html (not with --no-report or --json).
Exit codes: 0 not held back, 1 held back by a named cause, 2 usage,
3 environment, 4 no cause can be named, or nothing was examined.";

/// The interval between requests to servers.
const INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time that allows a judgement.
const MIN_TIME: Nanos = Nanos::secs(5);

/// The arguments of `fathom explain`.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// The run folder to judge [default: the newest], or recordings: folders diagnostic.data or above it, archives of them, - for standard input, and logs
    #[arg(value_name = "RUN|RECORDING|LOG", conflicts_with_all = ["uri", "dir", "namespace", "time", "no_record"])]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    time_range: TimeRangeArgs,
    /// The time zone of a recording's times [default: UTC]
    #[arg(long, value_name = "ZONE", value_parser = parse_zone)]
    tz: Option<TimeZone>,
    #[command(flatten)]
    source: MonitorArgs,
    /// How long a deployment is watched [default: 2m]
    #[arg(long = "for", value_name = "TIME")]
    time: Option<Nanos>,
    /// A run folder of 'fathom disk' on the same device, to forecast what a deeper queue would bring
    #[arg(long, value_name = "RUN")]
    probe: Option<PathBuf>,
    /// Fail where the clients' time exceeds a limit ('p99>10ms', 'read p99.9>50ms'): the exit code then tells that alone
    #[arg(long, value_name = "CONDITION")]
    fail_if: Option<FailCondition>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Directory of run folders [default: the state folder's runs/]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// Keep no run folder of what is watched
    #[arg(long)]
    no_record: bool,
    #[command(flatten)]
    page: PageArgs,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("explain"))
        .about("Show which layers the time is spent in, and why: of a run folder, a deployment, or mongod's own recording")
        .long_about(None)
        .after_help(EXAMPLES)
}

pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    config.page.check(&[(config.json, "--json"), (config.no_record, "--no-record")])?;
    // With a path, --device says which disk of a recording is the database's.
    let is_watched = config.source.names_something() && config.paths.is_empty();
    if config.time.is_some() && !is_watched {
        let what = "--for says how long a deployment is watched, and none is named";
        return Err(Error::usage(what).advise("name one with --uri, --dir or --device").into());
    }
    let inputs = match is_watched {
        true => None,
        false => RecordingInputs::from_paths(&config.paths, &config.source.log),
    };
    if config.no_record && !is_watched {
        let what = "--no-record is for a deployment that is watched, and none is named";
        return Err(Error::usage(what).advise("name one with --uri, --dir or --device").into());
    }
    if config.no_record && config.runs.is_some() && config.probe.is_none() {
        let what = "--runs names the place of a run folder, and --no-record makes none";
        return Err(Error::usage(what).into());
    }
    if let Some(inputs) = inputs {
        refuse_with_recordings(&config)?;
        let inputs = inputs.with_device(&config.source.device)?;
        let zone = config.tz.clone().unwrap_or(TimeZone::UTC);
        return recording::run(&inputs, config.time_range.range_ms(&zone)?, &zone, config.json);
    }
    if config.tz.is_some() || config.time_range.is_given() {
        let what = "--from, --to and --tz choose a part of a recording or a log, and none is named";
        return Err(Error::usage(what).advise("name a folder diagnostic.data or an archive of it").into());
    }
    let (assessment, state, folder) = match is_watched {
        true => monitored(&config)?,
        false => recorded(&config)?,
    };
    if config.json {
        let document = assessment_text::document(&assessment, state, folder.as_deref());
        output::line(&serde_json::to_string_pretty(&document)?)?;
    } else {
        output::line(&assessment_text::text(&assessment, state, folder.as_deref()))?;
        run_page::of_ended_run(&config.page, folder.as_deref()).map_or(Ok(()), |page| output::line(&page))?;
    }
    let outcome = assessment.judgement.verdict.as_ref().map_or(VerbOutcome::Unjudged, VerbOutcome::from);
    Ok(outcome.or_by(config.fail_if.as_ref(), &assessment.evidence.results))
}

/// Refuses options that are only for runs and deployments.
fn refuse_with_recordings(config: &Config) -> Result<()> {
    config.page.check(&[(true, "a recording ('fathom report' makes one)")])?;
    let flags = [
        (config.probe.is_some(), "--probe"),
        (config.fail_if.is_some(), "--fail-if"),
        (config.runs.is_some(), "--runs"),
    ];
    match flags.iter().find(|(is_given, _)| *is_given) {
        Some((_, flag)) => {
            Err(Error::usage(format!("{flag} is for runs and deployments, not for recordings")).into())
        }
        None => Ok(()),
    }
}

/// Judges an old run by this version's rules; its folder stays as it is.
fn recorded(config: &Config) -> Result<(Assessment, State, Option<PathBuf>)> {
    if let [_, second, ..] = config.paths.as_slice() {
        let what = format!("one run is judged at a time, and {} is a second one", second.display());
        return Err(Error::usage(what).advise("'fathom compare A B' compares two").into());
    }
    let is_missing = |path: &&PathBuf| path.components().count() > 1 && !path.try_exists().unwrap_or(true);
    if let Some(path) = config.paths.first().filter(is_missing) {
        let what = format!("there is no file or folder {}", path.display());
        return Err(Error::new(Kind::NotFound, what)
            .advise("name a run folder, or the recording of a server (diagnostic.data)")
            .into());
    }
    if !config.source.device.is_empty() {
        let what =
            "--device names what is watched, or the disk of a recorded database, and not that of a run";
        return Err(Error::usage(what).into());
    }
    if !config.source.log.is_empty() {
        let what = "--log is for a server that --uri names, or for its recording, and not for run folders";
        return Err(Error::usage(what).into());
    }
    let folder =
        run_folders::named_or_newest(config.paths.first().map(PathBuf::as_path), config.runs.as_deref())?;
    let (assessment, state) = Assessment::from_folder(&folder, probed(config)?)?;
    Ok((assessment, state, Some(folder)))
}

/// The steps of the probe that was named.
fn probed(config: &Config) -> Result<Vec<Entry>> {
    let Some(folder) = &config.probe else { return Ok(Vec::new()) };
    let folder = run_folders::find(folder, config.runs.as_deref())?;
    let mut results = Run::open(&folder)?.results()?;
    results.retain(|entry| matches!(entry, Entry::Step(_)));
    if results.is_empty() {
        let what = format!("{} holds no step of a probe", folder.display());
        return Err(Error::new(Kind::Unsupported, what).advise("name a run of 'fathom disk'").into());
    }
    Ok(results)
}

/// Monitors a deployment, or this host, for a while.
fn monitored(config: &Config) -> Result<(Assessment, State, Option<PathBuf>)> {
    let time = config.time.unwrap_or(Nanos::secs(120));
    if time < MIN_TIME {
        return Err(
            Error::usage(format!("--for {time} is too short to say anything; take {MIN_TIME}")).into()
        );
    }
    let monitor = MonitorSpec {
        time: Some(Duration::from(time)),
        is_judged: true,
        known_results: probed(config)?,
        ..config.source.spec(INTERVAL)?
    };
    let tools = SessionTools { signals: Signals::install()?, note: output::note };
    let record = RecordSpec::new("explain", config.runs.clone(), &monitor.directory());
    let mut progress = MonitorBar(PlanBar::new(vec![PlanPart {
        key: String::new(),
        name: format!("watching {}", monitor.subject()),
        time: Duration::from(time),
    }]));
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
struct MonitorBar(PlanBar);

impl Events for MonitorBar {
    fn follow(
        &mut self,
        feed: &mut LiveFeed<'_>,
        until: Option<Instant>,
        signals: &Signals,
    ) -> Result<(), Error> {
        self.0.follow(feed, until, signals);
        Ok(())
    }
}
