//! A session in a child process. The child reads the specification from standard input and writes a report to standard output.
//!
//! The child does nothing before it has read the whole specification. The parent sends it after the child is in the ledger and under the
//! limits of its storage. A killed parent therefore leaves a child that ends by itself, or one that `fathom cleanup` ends. Connection
//! strings, which may hold passwords, do not appear on a command line.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_process::{Guard, Ledger, Resource, Signals};
use fathom_record::{Run, State};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::{NoEvents, SessionSpec, SessionTools, run};

/// The verb by which this program becomes the child.
pub const VERB: &str = "session";
/// The files of the child's standard output and standard error.
const REPORT: &str = "report.json";
const NOTES: &str = "notes.txt";
/// The interval between two checks for the child's end.
const PAUSE: Duration = Duration::from_millis(20);
/// The time limit for a child to end after a signal.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A child's report on its session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionReport {
    pub state: State,
    /// The run folder, if it is complete.
    pub folder: Option<PathBuf>,
    /// The kind and the sentence of the error, if there was one.
    pub error: Option<(Kind, String)>,
}

/// The parent's means to run sessions in child processes.
#[derive(Clone, Copy, Debug)]
pub struct ChildTools<'c> {
    pub program: &'c Path,
    /// The ledger, which records the child before it begins.
    pub ledger: &'c Ledger,
    /// The parent's signals, which are passed on to the child.
    pub signals: &'c Signals,
}

/// Runs a session in a child and opens its run folder. Files in `folder` take the child's output. `adopt` may put the process under
/// limits before the session begins.
///
/// # Errors
/// When the child cannot be started, or its session failed; the latter keeps the kind of the session's error.
pub fn run_in_child(
    tools: ChildTools<'_>,
    spec: &SessionSpec,
    folder: &Path,
    adopt: &dyn Fn(u32) -> Result<()>,
) -> Result<Run> {
    fs::create_dir_all(folder).map_err(|cause| Error::io("create", folder, cause))?;
    let file = |name: &str| {
        let path = folder.join(name);
        File::create(&path).map_err(|cause| Error::io("create", &path, cause))
    };
    let text = serde_json::to_vec(spec)
        .map_err(|cause| Error::usage("the session cannot be written as JSON").because(cause))?;
    let mut child = Command::new(tools.program)
        .arg(VERB)
        .stdin(Stdio::piped())
        .stdout(file(REPORT)?)
        .stderr(file(NOTES)?)
        .spawn()
        .map_err(|cause| Error::io("start", tools.program, cause))?;
    let recorded = Resource::process(child.id()).and_then(|thing| Ok(tools.ledger.will_make(thing)?.guard()));
    let (status, guard) = match recorded {
        Ok(guard) => {
            let begun = adopt(child.id()).map(|()| give(&mut child, &text));
            (begun.and_then(|()| wait(tools.signals, &mut child)), Some(guard))
        }
        Err(error) => (Err(error), None),
    };
    if status.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    // The child has ended: there is nothing left to undo.
    let kept = guard.map_or(Ok(()), Guard::keep);
    let report = report(status?, folder)?;
    kept?;
    opened(report)
}

/// Sends the specification to the child. `wait` finds a child that has already ended.
fn give(child: &mut Child, text: &[u8]) {
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(text);
    }
}

/// Waits until the child has ended. A signal is passed on, and is an error.
fn wait(signals: &Signals, child: &mut Child) -> Result<ExitStatus> {
    let failed = |cause: io::Error| Error::new(Kind::Unsupported, "cannot wait for a child").because(cause);
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status);
        }
        if signals.wait(PAUSE) {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            if let Some(pid) = pid {
                // A child that has already ended is waited for too.
                let _ = kill_process(pid, Signal::INT);
            }
            let until = Instant::now() + STOP_TIMEOUT;
            while Instant::now() < until && child.try_wait().map_err(failed)?.is_none() {
                std::thread::sleep(PAUSE);
            }
            return Err(Error::new(Kind::Stopped, "the study was asked to stop"));
        }
    }
}

/// Reads the child's report. The error for a child without one quotes its last line.
fn report(status: ExitStatus, folder: &Path) -> Result<SessionReport> {
    let text = fs::read(folder.join(REPORT)).unwrap_or_default();
    serde_json::from_slice(&text).map_err(|_| {
        let printed = fs::read_to_string(folder.join(NOTES)).unwrap_or_default();
        let last = printed.lines().rev().map(str::trim).find(|line| !line.is_empty());
        Error::new(Kind::Unsupported, format!("the session ended with {status} and without a report"))
            .because(last.unwrap_or("it said nothing").to_owned())
    })
}

/// Opens the run folder of a successful session.
fn opened(report: SessionReport) -> Result<Run> {
    if let Some((kind, sentence)) = report.error {
        return Err(Error::new(kind, sentence));
    }
    let folder = report.folder.ok_or_else(|| {
        Error::new(Kind::Unsupported, "the session left no run folder").advise("look into its notes.txt")
    })?;
    Run::open(&folder)
}

/// Runs a session as the child: reads the specification, runs it, and writes the report.
///
/// # Errors
/// When there is no specification, because the parent has ended or a user ran the verb, and when the report cannot be written.
pub fn become_session(note: fn(&str), report: &mut dyn Write) -> Result<()> {
    let mut text = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut text);
    read.map_err(|cause| Error::io("read the session from", "standard input", cause))?;
    if text.is_empty() {
        return Err(Error::new(Kind::Stopped, "no session came on standard input")
            .advise("this verb is how a study runs its trials; 'fathom compare' starts it"));
    }
    let spec: SessionSpec = serde_json::from_slice(&text).map_err(|cause| {
        Error::new(Kind::Malformed, "the session on standard input cannot be read").because(cause)
    })?;
    // The parent receives Ctrl-C and passes it on. The call fails in a process that already leads its group, which is harmless.
    let _ = rustix::process::setsid();
    let tools = SessionTools { signals: Signals::install()?, note };
    let outcome = match run(&spec, &tools, &mut NoEvents) {
        Ok(result) => {
            let error = result.error.map(|error| (error.kind(), error.to_string()));
            let broken = result.broken.map(|why| (Kind::Io, why));
            SessionReport { state: result.state, folder: result.folder, error: error.or(broken) }
        }
        Err(error) => SessionReport {
            state: State::Failed,
            folder: None,
            error: Some((error.kind(), error.to_string())),
        },
    };
    let text = serde_json::to_string(&outcome)
        .map_err(|cause| Error::new(Kind::Malformed, "cannot write the report").because(cause))?;
    writeln!(report, "{text}").map_err(|cause| Error::io("write the report to", "standard output", cause))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use fathom_record::{Manifest, RunWriter};
    use fathom_testkit::{Scratch, assert, assert_eq, test};

    use super::*;

    /// Runs a session with a shell script in place of this program.
    fn run_script(scratch: &Scratch, script: &str) -> Result<Run> {
        let program = scratch.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let ledger = Ledger::open_in(&scratch.path().join("state")).unwrap();
        let signals = Signals::install().unwrap();
        let tools = ChildTools { program: &program, ledger: &ledger, signals: &signals };
        run_in_child(tools, &SessionSpec::default(), &scratch.path().join("trial"), &|_| Ok(()))
    }

    #[test]
    fn the_report_names_the_run_folder() {
        let scratch = Scratch::new().unwrap();
        let manifest = Manifest::new("ycsb", "0", Vec::new());
        let folder =
            RunWriter::create(&scratch.path(), manifest).unwrap().finish(State::Complete, None).unwrap();
        let report = SessionReport { state: State::Complete, folder: Some(folder.clone()), error: None };
        let report = serde_json::to_string(&report).unwrap();
        let script =
            format!("[ \"$1\" = session ] || exit 9\ngrep -q '\"loads\":' || exit 8\necho '{report}'");
        assert_eq!(run_script(&scratch, &script).unwrap().manifest, Run::open(&folder).unwrap().manifest);
    }

    #[test]
    fn an_error_of_the_session_keeps_its_kind() {
        let scratch = Scratch::new().unwrap();
        let error = Some((Kind::NoSpace, "the disk is full".to_owned()));
        let report = SessionReport { state: State::Failed, folder: None, error };
        let script = format!("cat > /dev/null; echo '{}'", serde_json::to_string(&report).unwrap());
        let error = run_script(&scratch, &script).map(drop).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::NoSpace, "the disk is full"));
    }

    #[test]
    fn a_child_that_dies_is_told_by_its_last_words() {
        let scratch = Scratch::new().unwrap();
        let script = "cat > /dev/null; echo 'engine: out of pages' >&2; kill -ABRT $$";
        let error = run_script(&scratch, script).map(drop).unwrap_err().to_string();
        assert!(error.contains("out of pages") && error.contains("SIGABRT"), "{error}");
    }
}
