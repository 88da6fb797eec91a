//! `fathom import`: turns a part of a mongod's recording of itself into a run folder.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Command};
use fathom_report::printable;
use fathom_session::RecordingImport;
use fathom_units::count;
use serde_json::json;

use crate::outcome::VerbOutcome;
use crate::output;
use crate::recording_arguments::{RecordingArgs, TimeRangeArgs, note_problems, precise_time, short_time};

const EXAMPLES: &str = "\
EXAMPLES:
  fathom import diagnostic.data --from 2026-11-27T19:00 --to 2026-11-27T20:00
  fathom import member1/ member2/ member3/     members of a set on one clock
  fathom report last                           a page of what was imported

A run folder holds up to six hours. 'fathom explain diagnostic.data' judges a
recording of any length without importing it, and names the part of interest.
Exit codes: 0 ok, 2 usage or a file that is not a recording, 3 environment.";

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(flatten)]
    recording: RecordingArgs,
    #[command(flatten)]
    time_range: TimeRangeArgs,
    /// Directory of run folders [default: the state folder's runs/]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("import"))
        .about("Make a run folder of a part of mongod's own recording (diagnostic.data)")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Imports the named recording.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    let zone = config.recording.zone();
    let range_ms = config.time_range.range_ms(&zone)?;
    let arguments = std::env::args().collect();
    let RecordingImport { folder, run: recorded } =
        RecordingImport::write(&config.recording.paths, range_ms, config.runs.as_deref(), arguments)?;
    let readings = recorded.readings_count();
    let (begin_ms, end_ms) = recorded.span_ms();
    if config.json {
        let document = json!({
            "schema": 1,
            "run_folder": folder,
            "servers": recorded.servers,
            "readings": readings,
            "first": precise_time(begin_ms, &zone),
            "last": precise_time(end_ms, &zone),
        });
        output::line(&serde_json::to_string_pretty(&document)?)?;
    } else {
        let servers = match recorded.servers {
            1 => "1 server".to_owned(),
            number => format!("{number} servers"),
        };
        let folder = printable(&folder.display().to_string());
        output::line(&format!(
            "Imported {} readings of {servers}, {} to {}.\nTo judge it: fathom explain {folder}\nA page of it: fathom report {folder}",
            count(readings as f64),
            short_time(begin_ms, &zone),
            short_time(end_ms, &zone),
        ))?;
    }
    note_problems(&recorded.problems);
    Ok(VerbOutcome::Clean)
}
