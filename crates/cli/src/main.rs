//! The entry point: parses the command line, calls one verb, and turns its outcome into an exit code. Only this module exits.

#[cfg(feature = "lab")]
mod allocator;
mod arguments;
mod assessment_text;
#[cfg(feature = "lab")]
mod background;
mod confirmation;
mod metrics;
mod outcome;
mod output;
mod output_file;
mod progress;
mod recording_arguments;
mod recording_inputs;
mod result_printer;
mod run_page;
mod verbs;
mod web;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use fathom_errors::{Error, Kind};
// A statically linked program gets its random bytes from this crate.
use fathom_random_sys as _;

fn main() -> ExitCode {
    let matches = match verbs::command().try_get_matches_from(verbs::plain(std::env::args_os())) {
        Ok(matches) => matches,
        Err(error) => return refuse(error),
    };
    match verbs::dispatch(&matches) {
        Ok(outcome) => outcome.into(),
        Err(error) => fail(&error),
    }
}

/// Prints help and version to standard output with exit code 0, and a usage error to standard error with 2, in clap's words.
fn refuse(mut error: clap::Error) -> ExitCode {
    drop_misleading_tips(&mut error);
    // A reader that closed the pipe (`fathom --help | head -1`) is no failure of this program.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}

/// Drops the tip to pass an unknown option as a value after `--`. The verbs that pass options through do so without it.
fn drop_misleading_tips(error: &mut clap::Error) {
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value, use"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
}

/// Prints the error as one sentence on standard error, and returns the exit code of its kind.
fn fail(error: &anyhow::Error) -> ExitCode {
    let ours = error.chain().find_map(|cause| cause.downcast_ref::<Error>());
    // An error of this workspace prints its own cause; anyhow's chain would print it twice.
    let text = ours.map_or_else(|| format!("{error:#}"), Error::to_string);
    let kind = ours.map(Error::kind);
    if kind != Some(Kind::OutputClosed) {
        output::note(&format!("fathom: {text}"));
    }
    ExitCode::from(kind.map_or(3, Kind::exit_code))
}
