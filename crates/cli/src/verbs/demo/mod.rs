//! `fathom demo`: a recorded run of a server in trouble, seen as it would have been seen live: watch, explain, report.
//!
//! It needs no root, no server and no network, and leaves nothing but the page. What is shown comes from the same code as of a
//! run of one's own; only the readings are from the program itself. How they were recorded stands in docs/demo.md.

mod page;
mod recording;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Command};
use fathom_process::Signals;
use fathom_session::JudgeThread;

use self::page::Place;
use self::recording::{Recording, Replay};
use super::watch::follow::{Ended, Following};
use crate::outcome::Outcome;
use crate::output;

/// How often the view is renewed: on a screen by what was recorded, within what a person can follow; in lines by the clock.
const SCREEN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
const LINES: Duration = Duration::from_secs(1);
/// How often what was seen is judged at most.
const JUDGED: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
EXAMPLES:
  fathom demo                          the whole, in less than a minute
  fathom demo --no-watch               only what was found, and the page
  fathom demo --keep demo-run          keeps the run folder, to try verbs on it
  fathom demo --output demo.html       puts the page there
  fathom demo --json | jq .findings    what 'fathom explain --json' says

Keys while it runs: q goes on to the findings, Ctrl-C ends it, ? help.
Exit codes: 0 ok, 2 usage, 3 environment.";

/// What the command line may say.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// How many times as fast as it was recorded
    #[arg(long, default_value_t = 8, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(1..=1000))]
    speed: u32,
    /// Do not show the recording
    #[arg(long)]
    no_watch: bool,
    /// Lines in place of the screen; so too where standard output is no terminal
    #[arg(long, conflicts_with = "no_watch")]
    plain: bool,
    /// Print what was found as one JSON document, and do not show the recording
    #[arg(long, conflicts_with = "plain")]
    json: bool,
    /// Keep the run folder, as this new folder
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Where the page goes [default: the state folder's demo.html, or the kept folder's report.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("demo"))
        .about("See watch, explain and report on a recorded run of a server in trouble")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Shows the three.
pub(crate) fn run(config: Config) -> Result<Outcome> {
    let signals = Signals::install()?;
    // What cannot be is refused before anything is unpacked or shown.
    let place = Place::of(config.output.as_deref(), config.keep.as_deref())?;
    let recording = Recording::unpack(config.keep.as_deref())?;
    let shows = !config.no_watch && !config.json;
    if shows && watched(&config, &recording, &signals)? == Ended::Stopped {
        output::note("Ended. 'fathom demo --no-watch' goes straight to what was found.");
        return Ok(Outcome::Clean);
    }
    if config.json {
        output::line(&serde_json::to_string_pretty(&recording.document())?)?;
    } else {
        output::line(&recording.text())?;
    }
    let page = place.put(&recording.page)?;
    for line in farewell(&page, config.keep.as_deref()) {
        if config.json { output::note(&line) } else { output::line(&line)? }
    }
    Ok(Outcome::Clean)
}

/// The recording as the view of `fathom watch` shows it.
fn watched(config: &Config, recording: &Recording, signals: &Signals) -> Result<Ended> {
    let is_screen = !config.plain && std::io::stdout().is_terminal();
    let mut replay = Replay::start(recording, config.speed, is_screen);
    let second = Duration::from_secs(1) / config.speed;
    let following = Following {
        target: format!("a recording, {} times as fast; q goes on", config.speed),
        feed: &mut replay,
        judge: JudgeThread::start(JUDGED)?,
        signals,
        interval: if is_screen { second.clamp(SCREEN.0, SCREEN.1) } else { LINES },
        until: None,
    };
    if is_screen {
        return Ok(following.on_terminal()?);
    }
    output::line(&format!(
        "A recorded run, {} times as fast: what 'fathom watch --plain' says of it.\n",
        config.speed
    ))?;
    let ended = following.in_lines(false)?;
    output::line("")?;
    Ok(ended)
}

/// Where the page is, and how to go on.
fn farewell(page: &std::path::Path, kept: Option<&std::path::Path>) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        "This was a recording: the lab server on a disk of 2,000 requests a second,".to_owned(),
        "with a checkpoint every ten seconds (docs/demo.md).".to_owned(),
        format!("The page to hand on: {}", page.display()),
    ];
    lines.extend(kept.map(|kept| format!("The run folder:      {}", kept.display())));
    let next = [
        "",
        "With a server of your own, read-only:",
        "  fathom watch --uri mongodb://HOST --dir DBPATH",
        "  fathom explain --uri mongodb://HOST --for 2m",
        "With none: 'fathom checkup --dir DIR' probes a disk and loads a server on it.",
    ];
    lines.extend(next.map(str::to_owned));
    lines
}
