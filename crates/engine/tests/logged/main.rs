//! Runs the suite's durable parts on a small engine with a log: without flaws, and with flaws that must be found.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test, and the engine that only it uses")]

mod engine;
mod log;

use std::panic;
use std::path::Path;
use std::process::Child;

use engine::LoggedEngine;
use fathom_engine::conformance::{Subject, crash};
use log::Flaw;

/// The flaw of a child process; `None` if it is not set.
const FLAW_VARIABLE: &str = "FATHOM_LOGGED_FLAW";

fn subject() -> Subject<'static> {
    Subject { open: &|folder| LoggedEngine::open(folder, flaw_of_this_process()), durable: true }
}

fathom_engine::conformance_tests!(subject);
fathom_engine::conformance_crash_tests!(subject);

fn flaw_of_this_process() -> Option<Flaw> {
    let name = std::env::var(FLAW_VARIABLE).ok()?;
    Flaw::ALL.into_iter().find(|flaw| format!("{flaw:?}") == name)
}

/// Starts the child of the crash test, with a flaw.
fn start_flawed(folder: &Path, flaw: Flaw) -> Child {
    let mut command = crash::command(concat!(module_path!(), "::kills::helper_process"), folder);
    command.env(FLAW_VARIABLE, format!("{flaw:?}")).spawn().unwrap()
}

/// The harness's complaint about an engine with a flaw; there must be one.
fn complaint_about(flaw: Flaw) -> String {
    let spawn = |folder: &Path| start_flawed(folder, flaw);
    let result = panic::catch_unwind(panic::AssertUnwindSafe(|| crash::rounds(&subject(), &spawn, 12)));
    let payload = result.expect_err("twelve kills did not show the flaw");
    payload.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn commits_that_were_never_written_are_missed() {
    let complaint = complaint_about(Flaw::ForgetsToFlush);
    assert!(complaint.contains("was acknowledged as durable"), "{complaint}");
}

#[test]
fn transactions_that_survive_in_part_are_found() {
    let complaint = complaint_about(Flaw::TearsTransactions);
    let expected = ["half a transaction", "is not there", "must not be", "has the value of another"];
    assert!(expected.iter().any(|words| complaint.contains(words)), "{complaint}");
}

#[test]
fn commits_that_overtake_others_are_found() {
    let complaint = complaint_about(Flaw::LetsCommitsOvertake);
    assert!(complaint.contains("commits before it did not"), "{complaint}");
}
