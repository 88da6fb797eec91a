//! `fathom runs diff`: what differs between two runs.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use fathom_explain::compare;
use fathom_record::comparison::Comparison;
use fathom_report::comparison_lines;

use super::Place;
use super::bundle::look_at;
use crate::live::WIDTH;
use crate::output;
use crate::verbs::Outcome;

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
pub(super) fn run(args: &DiffArgs, place: &Place) -> Result<Outcome> {
    let comparison = of(&place.find(&args.a)?, &place.find(&args.b)?)?;
    if args.json {
        output::line(&serde_json::to_string_pretty(&comparison)?)?;
    } else {
        output::line(&comparison_lines(&comparison, WIDTH).join("\n"))?;
    }
    Ok(Outcome::Clean)
}

/// The comparison of two folders.
pub(in crate::verbs) fn of(a: &Path, b: &Path) -> Result<Comparison> {
    Ok(compare(&look_at(a)?, &look_at(b)?)?)
}
