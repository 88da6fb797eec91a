//! The door: parse, hand over to one verb, turn its outcome into an exit code. The only place that exits.

#[cfg(feature = "lab")]
mod allocator;
mod arguments;
mod assessment_text;
#[cfg(feature = "lab")]
mod background;
mod metrics;
mod outcome;
mod output;
mod result_printer;
mod verbs;
mod web;

use std::process::ExitCode;

use fathom_errors::{Error, Kind};
// What a static program gets random bytes by.
use fathom_random_sys as _;

fn main() -> ExitCode {
    let matches = match verbs::command().try_get_matches_from(verbs::plain(std::env::args_os())) {
        Ok(matches) => matches,
        Err(error) => return refuse(&error),
    };
    match verbs::dispatch(&matches) {
        Ok(outcome) => outcome.into(),
        Err(error) => fail(&error),
    }
}

/// Help and version go to standard output with 0, a usage error to standard error with 2, as clap words them.
fn refuse(error: &clap::Error) -> ExitCode {
    // A reader that went away (`fathom --help | head -1`) is not our failure.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}

/// One sentence on standard error, and the code that its kind stands for.
fn fail(error: &anyhow::Error) -> ExitCode {
    let ours = error.chain().find_map(|cause| cause.downcast_ref::<Error>());
    // Ours tells its own cause; anyhow's chain would tell it twice.
    let text = ours.map_or_else(|| format!("{error:#}"), Error::to_string);
    let kind = ours.map(Error::kind);
    if kind != Some(Kind::OutputClosed) {
        output::note(&format!("fathom: {text}"));
    }
    ExitCode::from(kind.map_or(3, Kind::exit_code))
}
