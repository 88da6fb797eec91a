//! `fathom watch --replay`: shows the view over a run folder or over a mongod's recording of itself.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use fathom_errors::{Error, Kind};
use fathom_explain::Evidence;
use fathom_ftdc::SampleFilter;
use fathom_process::Signals;
use fathom_session::{JudgeThread, MAX_RECORDED_S, RecordedRun, RecordingCompanions, Replay, open_run};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::follow::WatchLoop;
use crate::outcome::VerbOutcome;
use crate::output;
use crate::recording_arguments::{note_problems, parse_time, parse_zone};

/// The arguments of watching servers and devices, which a replay does not do. clap waives the requirement of an argument that
/// conflicts with another one that is given, so each argument of a replay has these conflicts itself.
const LIVE: [&str; 7] = ["uri", "dir", "device", "namespace", "log", "record", "metrics"];

/// The recording to replay.
#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// Show a run folder or a mongod's recording (diagnostic.data) as if it happened now
    #[arg(long, value_name = "PATH", conflicts_with_all = LIVE)]
    pub(super) replay: Option<PathBuf>,
    /// The time at which a replay begins, like 2026-11-27T19:28 [default: the first sample]
    #[arg(long, value_name = "TIME", requires = "replay", conflicts_with_all = LIVE)]
    at: Option<String>,
    /// How many seconds of a replay pass in one
    #[arg(long, value_name = "FACTOR", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600), requires = "replay", conflicts_with_all = LIVE)]
    speed: u32,
    /// The time zone of --at [default: UTC]
    #[arg(long, value_name = "ZONE", value_parser = parse_zone, requires = "at", conflicts_with_all = LIVE)]
    tz: Option<TimeZone>,
}

/// The display of a replay.
pub(super) struct ReplayView {
    /// The time that the view looks back.
    pub(super) hindsight: Duration,
    /// The interval between two updates of the view.
    pub(super) interval: Duration,
    /// The shortest time between two judgements.
    pub(super) judged: Duration,
    /// Ends the replay after this time.
    pub(super) time: Option<Duration>,
    pub(super) is_plain: bool,
    pub(super) is_json: bool,
}

/// Replays the run folder or the recording at a path.
pub(super) fn run(args: &ReplayArgs, path: &Path, view: &ReplayView) -> Result<VerbOutcome> {
    let zone = args.tz.clone().unwrap_or(TimeZone::UTC);
    let at_ms = args.at.as_deref().map(|at| parse_time(at, &zone)).transpose()?;
    let mut replay = match path.join("manifest.json").exists() {
        true => run_replay(args.speed, path, at_ms, view.hindsight)?,
        false => recording_replay(args.speed, path, at_ms, view.hindsight)?,
    };
    let signals = Signals::install()?;
    let watch = WatchLoop {
        feed: &mut replay,
        target: path.display().to_string(),
        judge: JudgeThread::start(view.judged)?,
        signals: &signals,
        interval: view.interval,
        until: view.time.map(|time| Instant::now() + time),
        metrics: None,
    };
    watch.show(view.is_plain, view.is_json)?;
    Ok(VerbOutcome::Clean)
}

fn run_replay(speed: u32, path: &Path, at_ms: Option<i64>, hindsight: Duration) -> Result<Replay> {
    let run = open_run(path)?;
    let readings = run.readings()?;
    if readings.is_empty() {
        let what = format!("{} holds no reading to replay", path.display());
        return Err(Error::new(Kind::Unsupported, what).advise("name a run that was watched").into());
    }
    let evidence = Evidence::from_run(&run)?;
    let notes = run.manifest.notes();
    let replay = Replay::start(&evidence, &notes, readings, speed, Some(hindsight));
    let started_ms = run.manifest.started.parse::<Timestamp>().map(Timestamp::as_millisecond).ok();
    let offset_ms = at_ms.zip(started_ms).and_then(|(at, started)| u64::try_from(at - started).ok());
    Ok(replay.from_moment(offset_ms.unwrap_or(0) * 1_000_000))
}

fn recording_replay(speed: u32, path: &Path, at_ms: Option<i64>, hindsight: Duration) -> Result<Replay> {
    let hindsight_ms = i64::try_from(hindsight.as_millis()).unwrap_or(i64::MAX);
    let inputs = [path.to_owned()];
    let dumps = RecordingCompanions::find_dumps(&inputs, &[]).dumps;
    let run = match at_ms {
        Some(at_ms) => {
            let from_ms = at_ms.saturating_sub(hindsight_ms);
            let to_ms = from_ms.saturating_add(MAX_RECORDED_S as i64 * 1000);
            RecordedRun::read(&inputs, SampleFilter::new(from_ms..=to_ms), &dumps)?
        }
        None => match RecordedRun::read(&inputs, SampleFilter::new(i64::MIN..=i64::MAX), &dumps) {
            // Standard input can be read once.
            Err(error) if error.kind() == Kind::Usage && path != Path::new("-") => {
                let run = RecordedRun::read_first(&inputs, &dumps)?;
                output::note(
                    "fathom: note: the recording is longer than six hours, and these are its first six; --at TIME begins later",
                );
                run
            }
            Err(error) if error.kind() == Kind::Usage => {
                return Err(error.advise("choose the time at which the replay begins with --at").into());
            }
            read => read?,
        },
    };
    note_problems(&run.problems);
    if run.servers > 1 {
        output::note(
            "fathom: note: several servers were recorded; the view does not distinguish their hosts",
        );
    }
    Ok(run.replay(at_ms, speed, hindsight))
}
