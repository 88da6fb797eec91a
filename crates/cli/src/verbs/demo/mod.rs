//! `fathom demo`: replays a recorded run of a server in trouble as it looked live, then shows the finding, the change that it advises, the
//! same load after the change, and the page of both runs.
//!
//! It needs no root, no server and no network, and leaves nothing but the page. The output comes from the same code as that of the
//! user's own runs; only the readings are from the program itself. docs/demo.md describes their recording.

mod change;
mod page;
mod recording;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Command};
use fathom_process::Signals;
use fathom_session::JudgeThread;

use self::page::PageFile;
use self::recording::{AFTER, BEFORE, PROBE, Recording};
use super::watch::follow::{FollowEnd, WatchLoop};
use crate::outcome::VerbOutcome;
use crate::output;

/// The bounds of the interval between two frames on a screen, so that a reader can follow. In lines the interval is that of the clock.
const FRAME_INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
const LINE_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between two judgements.
const MIN_JUDGEMENT_INTERVAL: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
EXAMPLES:
  fathom demo                          all of it, in less than a minute
  fathom demo --no-watch               only the findings, the change, the page
  fathom demo --keep demo-runs         keeps the run folders for other verbs
  fathom demo --output demo.html       writes the page there
  fathom demo --json | jq .findings    the findings of 'fathom explain --json'

Keys while it runs: q skips to the findings, Ctrl-C ends it, ? shows help.
Exit codes: 0 ok, 2 usage, 3 environment.";

/// The arguments of `fathom demo`.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// Speed of the replay, as a multiple of real time
    #[arg(long, default_value_t = 8, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with_all = ["no_watch", "json"])]
    speed: u32,
    /// Do not show the recording
    #[arg(long)]
    no_watch: bool,
    /// Print lines instead of the screen, as when standard output is not a terminal
    #[arg(long, conflicts_with = "no_watch")]
    plain: bool,
    /// Print what was found as one JSON document, and do not show the recording
    #[arg(long, conflicts_with = "plain")]
    json: bool,
    /// Keep the run folders, in this new folder
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// The file of the page [default: the state folder's demo.html, or the kept folder's report.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("demo"))
        .about("See a recorded server in trouble: watch, the finding, the change, before and after")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Runs the whole demo.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    let signals = Signals::install()?;
    // Impossible options are refused before anything is unpacked or shown.
    let file = PageFile::choose(config.output.as_deref(), config.keep.as_deref())?;
    let recording = Recording::unpack(config.keep.as_deref())?;
    let shows = !config.no_watch && !config.json;
    if shows && watched(&config, &recording, &signals)? == FollowEnd::Stopped {
        output::note("Ended. 'fathom demo --no-watch' shows the findings at once.");
        return Ok(VerbOutcome::Clean);
    }
    if config.json {
        output::line(&serde_json::to_string_pretty(&recording.document())?)?;
    } else {
        output::line(&recording.text())?;
        output::line(&story(&recording).join("\n"))?;
    }
    let page = file.put(&recording.page)?;
    for line in farewell(&page, config.keep.as_deref()) {
        if config.json { output::note(&line) } else { output::line(&line)? }
    }
    Ok(VerbOutcome::Clean)
}

/// The change, the result after it, and both in three sentences.
fn story(recording: &Recording) -> Vec<String> {
    let mut lines = vec![String::new()];
    lines.extend(recording.change.lines());
    lines.extend([String::new(), "In three sentences".to_owned()]);
    for sentence in recording.change.sentences() {
        lines.extend(fathom_report::wrapped(&sentence, "  ", "  ", output::WIDTH));
    }
    lines
}

/// Shows the recording in the view of `fathom watch`.
fn watched(config: &Config, recording: &Recording, signals: &Signals) -> Result<FollowEnd> {
    let is_screen = !config.plain && std::io::stdout().is_terminal();
    let mut replay = recording.replay(config.speed, is_screen);
    let second = Duration::from_secs(1) / config.speed;
    let watch = WatchLoop {
        target: format!("a recording, {} times as fast; q skips it", config.speed),
        feed: &mut replay,
        judge: JudgeThread::start(MIN_JUDGEMENT_INTERVAL)?,
        signals,
        interval: if is_screen { second.clamp(FRAME_INTERVALS.0, FRAME_INTERVALS.1) } else { LINE_INTERVAL },
        until: None,
        metrics: None,
    };
    if is_screen {
        return Ok(watch.on_terminal()?);
    }
    output::line(&format!(
        "A recorded run, {} times as fast, as 'fathom watch --plain' prints it:\n",
        config.speed
    ))?;
    let ended = watch.in_lines(false)?;
    output::line("")?;
    Ok(ended)
}

/// The path of the page, and the next steps.
fn farewell(page: &Path, kept: Option<&Path>) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        format!("The page of both runs to hand on: {}", page.display()),
        "Both are recordings of the lab server on a disk that takes 50 ms for each".to_owned(),
        "request and serves 128 at once (docs/demo.md).".to_owned(),
    ];
    if let Some(kept) = kept {
        let run = |name: &str| kept.join(name).display().to_string();
        let (before, after) = (run(BEFORE), run(AFTER));
        lines.extend([
            format!("The run folders:  {before}  {after}"),
            format!("  fathom explain {before} --probe {}", run(PROBE)),
            format!("  fathom runs diff {before} {after}"),
        ]);
    }
    let next = [
        "",
        "With a server of your own, read-only:",
        "  fathom watch --uri mongodb://HOST --dir DBPATH",
        "  fathom explain --uri mongodb://HOST --for 2m",
        "With none: 'fathom checkup --dir DIR' measures what a disk carries.",
    ];
    lines.extend(next.map(str::to_owned));
    lines
}
