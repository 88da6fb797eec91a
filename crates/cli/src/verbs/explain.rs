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
use fathom_explain::{FailCondition, Judgement, judge};
use fathom_process::Signals;
use fathom_record::disk::Entry;
use fathom_record::{Run, State};
use fathom_units::Nanos;
use indicatif::{ProgressBar, ProgressStyle};

use crate::explaining::{self, Explained};
use crate::outcome::Outcome;
use crate::watching::{Session, SourceArgs, WatchPlan};
use crate::{output, probing, run_folders};

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
    source: SourceArgs,
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
    let explained = match config.source.names_something() {
        true => watched(&config)?,
        false => of_folder(&config)?,
    };
    if config.json {
        output::line(&serde_json::to_string_pretty(&explaining::document(&explained))?)?;
    } else {
        output::line(&explaining::text(&explained))?;
    }
    let outcome = explained.judgement.verdict.as_ref().map_or(Outcome::Unjudged, Outcome::from);
    Ok(outcome.or_by(config.fail_if.as_ref(), &explained.evidence.results))
}

/// An old run, judged anew; its folder stays as it is.
fn of_folder(config: &Config) -> Result<Explained> {
    let folder = run_folders::named_or_newest(config.run.as_deref(), config.runs.as_deref())?;
    Explained::of_folder(folder, probed(config)?)
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

/// A deployment, or this host, watched for a while.
fn watched(config: &Config) -> Result<Explained> {
    let time = config.time.unwrap_or(Nanos::secs(120));
    if time < SHORTEST {
        return Err(
            Error::usage(format!("--for {time} is too short to say anything; take {SHORTEST}")).into()
        );
    }
    let plan = config.source.plan(INTERVAL)?;
    let probed = probed(config)?;
    let signals = Signals::install()?;
    let run = match config.no_record {
        true => None,
        false => probing::open_run("explain", config.runs.clone(), 0, &plan.place()),
    };
    let mut session = Session::start(&plan, run, None)?;
    follow(&mut session, &plan, Duration::from(time), &signals);
    session.stop();
    session.gather(Duration::ZERO);
    let mut recent = std::mem::take(&mut session.recent);
    recent.evidence.results.extend(probed);
    let judgement: Judgement = judge(&recent.evidence);
    let state = if signals.stopped() { State::Interrupted } else { State::Complete };
    let folder = session.end(state, None, |kept| kept.judgement(&judgement));
    Ok(Explained {
        subject: plan.subject(),
        judgement,
        notes: recent.notes,
        evidence: recent.evidence,
        state,
        folder,
    })
}

fn follow(session: &mut Session, plan: &WatchPlan, time: Duration, signals: &Signals) {
    let begun = Instant::now();
    let progress = match std::io::stderr().is_terminal() {
        true => ProgressBar::new(time.as_secs()),
        false => ProgressBar::hidden(),
    };
    let style = ProgressStyle::with_template("watching {msg} {wide_bar} {pos}/{len} s");
    progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    progress.set_message(plan.subject());
    while !signals.stopped() && begun.elapsed() < time {
        session.gather(Duration::from_millis(200).min(time.saturating_sub(begun.elapsed())));
        progress.set_position(begun.elapsed().as_secs());
    }
    progress.finish_and_clear();
}
