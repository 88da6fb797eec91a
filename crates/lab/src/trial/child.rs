//! This program's own verbs as children, each with its record in a folder of its own.
//!
//! A child begins only when it is in the ledger and under its storage's limits, as servers do (`fathom_cluster::become_server`):
//! where this process is killed, `fathom cleanup` knows the child and ends it.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fathom_cluster::let_begin;
use fathom_errors::{Error, Kind, Result};
use fathom_process::{Guard, Thing};
use fathom_record::Run;
use rustix::process::{Pid, Signal, kill_process};

use crate::Bench;

/// How this program is called to become another one, once it is told to.
pub(super) const LAUNCH: [&str; 2] = ["cluster", "launch"];
/// How often it is looked whether a child has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long a child that was asked to end may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a verb to its end; what it prints goes into files of `folder`, and so does its run folder, which is opened. `may_find` says
/// whether an exit with findings is fine.
pub(super) fn record(
    bench: &Bench,
    arguments: &[String],
    folder: &Path,
    may_find: bool,
    adopt: &dyn Fn(u32) -> Result<()>,
) -> Result<Run> {
    fs::create_dir_all(folder).map_err(|cause| Error::io("create", folder, cause))?;
    let file = |name: &str| {
        let path = folder.join(name);
        File::create(&path).map_err(|cause| Error::io("create", &path, cause))
    };
    let runs = folder.to_string_lossy().into_owned();
    let failed = |cause| Error::io("start", &bench.program, cause);
    let mut child = Command::new(&bench.program)
        // It leaves our session when it begins, so that Ctrl-C is ours to pass on.
        .args(LAUNCH)
        .arg("--")
        .arg(&bench.program)
        .args(arguments)
        .args(["--runs", &runs])
        .stdin(Stdio::piped())
        .stdout(file("output.txt")?)
        .stderr(file("notes.txt")?)
        .spawn()
        .map_err(failed)?;
    let recorded = Thing::process(child.id()).and_then(|thing| Ok(bench.ledger.will_make(thing)?.guard()));
    let (status, guard) = match recorded {
        Ok(guard) => {
            let begun = adopt(child.id()).map(|()| let_begin(&mut child));
            (begun.and_then(|()| wait(bench, &mut child)), Some(guard))
        }
        Err(error) => (Err(error), None),
    };
    if status.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    // It has ended: there is nothing left to undo.
    let kept = guard.map_or(Ok(()), Guard::keep);
    let status = status?;
    let fine = status.success() || (may_find && status.code() == Some(1));
    if !fine {
        return Err(complaint(arguments, status, &folder.join("notes.txt")));
    }
    kept?;
    opened(folder)
}

/// Waits until it has ended; a signal is passed on, and ends the trial.
fn wait(bench: &Bench, child: &mut std::process::Child) -> Result<ExitStatus> {
    let failed =
        |cause: std::io::Error| Error::new(Kind::Unsupported, "cannot wait for a child").because(cause);
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status);
        }
        if bench.signals.wait(LOOK) {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            if let Some(pid) = pid {
                // One that is gone already is waited for all the same.
                let _ = kill_process(pid, Signal::INT);
            }
            let until = Instant::now() + PATIENCE;
            while Instant::now() < until && child.try_wait().map_err(failed)?.is_none() {
                std::thread::sleep(LOOK);
            }
            return Err(Error::new(Kind::Stopped, "the study was asked to stop"));
        }
    }
}

/// What a child said last, as why the trial failed.
fn complaint(arguments: &[String], status: ExitStatus, notes: &Path) -> Error {
    let said = fs::read_to_string(notes).unwrap_or_default();
    let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing");
    let verb: Vec<&str> = arguments.iter().take(2).map(String::as_str).collect();
    let kind = match status.code() {
        Some(2) => Kind::Usage,
        _ => Kind::Unsupported,
    };
    Error::new(kind, format!("'fathom {}' ended with {status}", verb.join(" "))).because(last.to_owned())
}

/// The one run folder in a folder.
fn opened(folder: &Path) -> Result<Run> {
    let scan = fathom_record::folders::scan(folder)?;
    let run = scan.runs.first().ok_or_else(|| {
        Error::new(Kind::NotFound, format!("{} holds no run, though one ended well", folder.display()))
    })?;
    Run::open(&run.path)
}
