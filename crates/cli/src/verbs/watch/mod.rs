//! `fathom watch`: servers, devices and host on one clock, as a screen, as lines, as a page of metrics, as a run folder.
//!
//! It only looks: no command that it sends changes anything, and nothing is written but the run folder that `--record` asks for.

mod draw;
pub(super) mod follow;
mod plain;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, Command};
use fathom_errors::{Error, Kind};
use fathom_process::Signals;
use fathom_record::State;
use fathom_units::Nanos;

use self::follow::Following;
use crate::metrics::SeriesMetrics;
use crate::outcome::Outcome;
use crate::watching::{Judging, Session, SourceArgs};
use crate::{output, probing};

/// The shortest and the longest interval that make sense.
const INTERVALS: (Nanos, Nanos) = (Nanos::millis(100), Nanos::secs(60));
/// How often what was seen is judged at most.
const JUDGED: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
EXAMPLES:
  fathom watch --dir /var/lib/mongodb              this host's devices
  fathom watch --uri mongodb://db1 --dir /data     a server, and the disk here
  fathom watch --uri mongodb://db1 --plain | tee watch.log
  fathom watch --uri mongodb://db1 --for 10m --record --json > watch.jsonl
  fathom watch --uri mongodb://db1 --metrics 9216  for Prometheus and Grafana

Keys: q quit, p pause, m mark, ? help. Nothing is changed: only reading commands
are sent; docs/watch.md lists them, and the privilege they need (clusterMonitor).
Exit codes: 0 ok, 2 usage, 3 environment.";

/// What the command line may say.
#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(flatten)]
    source: SourceArgs,
    /// How often the servers are asked and the view is renewed
    #[arg(long, default_value = "1s", value_name = "TIME")]
    interval: Nanos,
    /// End after this time
    #[arg(long = "for", value_name = "TIME")]
    time: Option<Nanos>,
    /// How far the view looks back
    #[arg(long, default_value = "5m", value_name = "TIME")]
    hindsight: Nanos,
    /// Keep all that is read in a run folder, for fathom explain
    #[arg(long)]
    record: bool,
    /// Where run folders go [default: the state folder's runs/]
    #[arg(long, value_name = "DIR", requires = "record")]
    runs: Option<PathBuf>,
    /// Serve every series as OpenMetrics: a port of the loopback, or ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,
    /// Lines in place of the screen; so too where standard output is no terminal
    #[arg(long)]
    plain: bool,
    /// A JSON object a line
    #[arg(long, conflicts_with = "plain")]
    json: bool,
}

impl Config {
    fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval.get())
    }
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("watch"))
        .about("Watch servers, devices and host on one clock: where the time goes, live")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Watches until the time is over, somebody quits, or a signal comes.
pub(crate) fn run(config: Config) -> Result<Outcome> {
    if !(INTERVALS.0..=INTERVALS.1).contains(&config.interval) {
        let what = format!("--interval {} makes no sense", config.interval);
        return Err(Error::usage(what).advise("take 100ms to 60s").into());
    }
    let plan = config.source.plan(config.interval())?;
    let signals = Signals::install()?;
    let run = match config.record {
        true => probing::open_run("watch", config.runs.clone(), 0, &plan.place()),
        false => None,
    };
    let metrics = config.metrics.as_deref().map(SeriesMetrics::serve).transpose()?;
    let hindsight = Some(Duration::from_nanos(config.hindsight.get()));
    let mut session = Session::start(&plan, run, hindsight)?;
    session.publish(metrics);
    let until = config.time.map(|time| Instant::now() + Duration::from_nanos(time.get()));
    let following = Following {
        seen: &mut session,
        target: plan.subject(),
        judging: Judging::start(JUDGED)?,
        signals: &signals,
        interval: config.interval(),
        until,
    };
    let followed = if config.plain || config.json || !std::io::stdout().is_terminal() {
        following.in_lines(config.json)
    } else {
        following.on_terminal()
    };
    let error = followed.as_ref().err().map(ToString::to_string);
    let state = if error.is_some() { State::Failed } else { State::Complete };
    let folder = session.end(state, error, |_| {});
    if let Some(folder) = &folder {
        output::note(&format!("Run folder: {}", folder.display()));
    }
    followed?;
    if config.record && folder.is_none() {
        // Why stands above; who asked for a record must not take it for kept.
        let what = "what was watched is not kept, or not whole";
        return Err(Error::new(Kind::Unsupported, what).advise("name another place with --runs").into());
    }
    Ok(Outcome::Clean)
}
