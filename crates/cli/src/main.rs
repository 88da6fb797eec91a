//! The entry point: parses the command line, calls one verb, and turns its outcome into an exit code. Only this module exits.
//!
//! With `-v` the last line of standard error has the exit code with the stable id of the outcome or of the refusal; docs/exits.md lists the ids.

#[cfg(feature = "lab")]
mod allocator;
mod arguments;
mod assessment_text;
#[cfg(feature = "lab")]
mod background;
mod command_line;
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
mod server_dumps;
mod verbs;
mod web;
mod work_view;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use fathom_errors::{Error, Kind};
// A statically linked program gets its random bytes from this crate.
use fathom_random_sys as _;

/// The id and the exit code of an error that none of our libraries made.
const INTERNAL: (&str, u8) = ("internal", 3);

fn main() -> ExitCode {
    let words = verbs::plain(command_line::take().into_iter());
    if asks_for_ids(&words) {
        output::show_ids();
    }
    let matches = match verbs::command().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => return refuse(error),
    };
    match verbs::dispatch(&matches) {
        Ok(outcome) => {
            let code = outcome.exit_code();
            if output::shows_ids() {
                output::note(&format!("fathom: exit {code} [{}]", outcome.id()));
            }
            ExitCode::from(code)
        }
        Err(error) => fail(&error),
    }
}

/// Returns whether a word of ours is `-v`, `-vv` ... or `--verbose`. The words after `--` are for another program. The words are read because
/// an error of clap has no matches.
fn asks_for_ids(words: &[OsString]) -> bool {
    let is_verbose = |word: &OsStr| {
        let letters = word.to_str().and_then(|word| word.strip_prefix('-')).unwrap_or_default();
        letters == "-verbose" || (!letters.is_empty() && letters.bytes().all(|letter| letter == b'v'))
    };
    words.iter().skip(1).take_while(|word| *word != "--").any(|word| is_verbose(word))
}

/// Prints help and version to standard output with exit code 0, and a usage error to standard error with 2, in clap's words.
fn refuse(mut error: clap::Error) -> ExitCode {
    drop_misleading_tips(&mut error);
    let text = error.render().to_string();
    match command_line::without_logins(&text) {
        // A reader that closed the pipe (`fathom --help | head -1`) is no failure of this program.
        clean if clean == text => _ = error.print(),
        clean => output::note(clean.trim_end()),
    }
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    refused(usage_id(error.kind()), Kind::Usage.exit_code())
}

/// The stable id of a usage error that clap found.
fn usage_id(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => "usage.invalid-value",
        ErrorKind::UnknownArgument => "usage.unknown-argument",
        ErrorKind::InvalidSubcommand => "usage.unknown-verb",
        ErrorKind::NoEquals
        | ErrorKind::TooManyValues
        | ErrorKind::TooFewValues
        | ErrorKind::WrongNumberOfValues => "usage.number-of-values",
        ErrorKind::ArgumentConflict => "usage.argument-conflict",
        ErrorKind::MissingRequiredArgument => "usage.missing-argument",
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "usage.missing-verb"
        }
        _ => Kind::Usage.id(),
    }
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
    // The reader has closed our output, so it gets no message.
    if let Some(closed) = ours.filter(|error| error.kind() == Kind::OutputClosed) {
        return ExitCode::from(closed.kind().exit_code());
    }
    // An error of this workspace prints its own cause; anyhow's chain would print it twice.
    let text = ours.map_or_else(|| format!("{error:#}"), Error::to_string);
    output::note(&format!("fathom: {text}"));
    let (id, code) = ours.map_or(INTERNAL, |error| (error.id(), error.kind().exit_code()));
    refused(id, code)
}

fn refused(id: &str, code: u8) -> ExitCode {
    if output::shows_ids() {
        output::note(&format!("fathom: refusal [{id}], exit {code}"));
    }
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_of_ours_ask_for_ids() {
        let asks = |line: &str| asks_for_ids(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        for line in
            ["fathom disk -v", "fathom serve -vvv --port 1", "fathom disk --verbose", "fathom disk -v -- x"]
        {
            assert!(asks(line), "{line}");
        }
        for line in
            ["fathom disk", "-v disk", "fathom cluster init -- -v", "fathom disk - --version", "fathom -V"]
        {
            assert!(!asks(line), "{line}");
        }
    }
}
