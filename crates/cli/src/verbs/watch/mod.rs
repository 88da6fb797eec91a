//! `fathom watch`: shows servers, devices and host on one clock, as a screen, as lines, as a page of metrics, or as a run folder.
//!
//! It only reads: none of its commands changes anything, and it writes only the run folder that `--record` asks for.

mod draw;
pub(super) mod follow;
mod replay;
mod terminal;
#[cfg(test)]
mod tests;
mod text_view;
mod view;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, Command};
use fathom_errors::{Error, Kind};
use fathom_process::Signals;
use fathom_session::{Events, JudgeThread, LiveFeed, MonitorSpec, RecordSpec, SessionSpec, SessionTools};
use fathom_units::Nanos;

use self::follow::WatchLoop;
use self::replay::{ReplayArgs, ReplayView};
use crate::arguments::MonitorArgs;
use crate::metrics::SeriesMetrics;
use crate::outcome::VerbOutcome;
use crate::output;

/// The shortest and the longest useful interval.
const INTERVALS: (Nanos, Nanos) = (Nanos::millis(100), Nanos::secs(60));
/// The shortest time between two judgements.
const MIN_JUDGEMENT_INTERVAL: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
EXAMPLES:
  fathom watch --dir /var/lib/mongodb              this host's devices
  fathom watch --uri mongodb://db1 --dir /data     a server, and the disk here
  fathom watch --uri mongodb://db1 --plain | tee watch.log
  fathom watch --uri mongodb://db1 --for 10m --record --json > watch.jsonl
  fathom watch --uri mongodb://db1 --metrics 9216  for Prometheus and Grafana
  fathom watch --replay diagnostic.data --at 2026-11-27T19:28 --speed 60

Keys: q quit, p pause, m mark, ? help. Only commands that read are sent, and
nothing is changed; docs/watch.md lists them. clusterMonitor is enough.
Exit codes: 0 ok, 2 usage, 3 environment.";

/// The arguments of `fathom watch`.
#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(flatten)]
    source: MonitorArgs,
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
    /// Directory for run folders [default: the state folder's runs/]
    #[arg(long, value_name = "DIR", requires = "record", conflicts_with = "replay")]
    runs: Option<PathBuf>,
    /// Serve every series as OpenMetrics: a port of the loopback, or ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,
    /// Print lines instead of the screen, as when standard output is not a terminal
    #[arg(long)]
    plain: bool,
    /// A JSON object a line
    #[arg(long, conflicts_with = "plain")]
    json: bool,
    #[command(flatten)]
    replay: ReplayArgs,
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

/// Watches until the time is over, the user quits, or a signal comes.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    if !(INTERVALS.0..=INTERVALS.1).contains(&config.interval) {
        let what = format!("--interval {} is out of range", config.interval);
        return Err(Error::usage(what).advise("use 100ms to 60s").into());
    }
    if let Some(path) = &config.replay.replay {
        let view = ReplayView {
            hindsight: Duration::from(config.hindsight),
            interval: config.interval(),
            judged: MIN_JUDGEMENT_INTERVAL,
            time: config.time.map(Duration::from),
            is_plain: config.plain,
            is_json: config.json,
        };
        return replay::run(&config.replay, path, &view);
    }
    let monitor = MonitorSpec {
        hindsight: Some(Duration::from(config.hindsight)),
        time: config.time.map(Duration::from),
        ..config.source.spec(config.interval())?
    };
    let tools = SessionTools { signals: Signals::install()?, note: output::note };
    let record = RecordSpec::new("watch", config.runs.clone(), &monitor.directory());
    let mut view = WatchOutput {
        target: monitor.subject(),
        metrics: config.metrics.as_deref().map(SeriesMetrics::serve).transpose()?,
        config: &config,
    };
    let spec = SessionSpec {
        record: config.record.then_some(record),
        monitor: Some(monitor),
        ..SessionSpec::default()
    };
    let result = fathom_session::run(&spec, &tools, &mut view)?;
    if let Some(folder) = &result.folder {
        output::note(&format!("Run folder: {}", folder.display()));
    }
    if let Some(error) = result.error {
        return Err(error.into());
    }
    if config.record && result.folder.is_none() {
        // The reason was printed before; the user must not rely on an incomplete record.
        let what = "what was watched is not kept, or not whole";
        return Err(Error::new(Kind::Unsupported, what).advise("name another place with --runs").into());
    }
    Ok(VerbOutcome::Clean)
}

/// The consumers of the samplers' readings: the screen, or lines; and the page of metrics.
struct WatchOutput<'c> {
    config: &'c Config,
    target: String,
    metrics: Option<SeriesMetrics>,
}

impl Events for WatchOutput<'_> {
    fn follow(
        &mut self,
        feed: &mut LiveFeed<'_>,
        until: Option<Instant>,
        signals: &Signals,
    ) -> Result<(), Error> {
        let metrics = self.metrics.take();
        if let Some(metrics) = metrics.clone() {
            metrics.follow(feed.clock(), self.config.interval());
            feed.listen(move |readings| metrics.take(readings));
        }
        let watch = WatchLoop {
            feed,
            target: self.target.clone(),
            judge: JudgeThread::start(MIN_JUDGEMENT_INTERVAL)?,
            signals,
            interval: self.config.interval(),
            until,
            metrics,
        };
        watch.show(self.config.plain, self.config.json).map(drop)
    }
}
