//! `fathom runs diff`: what differs between two runs.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use fathom_explain::{ReadRun, compare};
use fathom_report::comparison_lines;

use super::bundle::look_at;
use super::folder::RunsFolder;
use crate::live::WIDTH;
use crate::outcome::Outcome;
use crate::output;

/// What the command line may say.
#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// The run to compare with: a path, its name, or a part of the name
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The run that is compared
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Compares and shows.
pub(super) fn run(args: &DiffArgs, place: &RunsFolder) -> Result<Outcome> {
    let read = |named| -> Result<ReadRun> { Ok(ReadRun::of(look_at(&place.find(named)?)?)?) };
    let comparison = compare(&read(&args.a)?, &read(&args.b)?);
    if args.json {
        output::line(&serde_json::to_string_pretty(&comparison)?)?;
    } else {
        output::line(&comparison_lines(&comparison, WIDTH).join("\n"))?;
    }
    Ok(Outcome::Clean)
}
