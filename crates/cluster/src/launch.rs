//! Starts a server in a session of its own, so that it lives on after us, and so that none is ever without an owner.
//!
//! A child is first this program again, which waits for a word on its standard input. Only when the child is in the ledger is the
//! word given; then it leaves our session, joins its control groups and becomes the server. Killed at any moment, we leave either a
//! child that ends by itself or one that `fathom cleanup` knows. Process number and start time stay the same through all this.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use fathom_errors::{Error, Kind, Result};
use fathom_process::{Guard, Ledger, ProcessId, Thing};

/// The word that lets a child become a server.
const GO: &str = "go";

/// How this program is called to become a server: `fathom cluster launch`.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// This program.
    pub program: PathBuf,
    /// Its arguments before those that say what to become.
    pub words: Vec<String>,
}

impl Launcher {
    /// The program that runs now.
    pub fn current() -> Result<Launcher> {
        let program = std::env::current_exe().map_err(|cause| Error::io("find", "this program", cause))?;
        Ok(Launcher::new(&program))
    }

    /// A build of this program.
    pub fn new(program: &Path) -> Launcher {
        let words = ["cluster", "launch"].map(str::to_owned).to_vec();
        Launcher { program: program.to_owned(), words }
    }
}

/// What a server is made of.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: &'a [String],
    /// What it prints goes there; the file is emptied first.
    pub console: &'a Path,
    /// Control groups that it joins before it begins.
    pub groups: &'a [PathBuf],
}

/// A server that was started, and ends when this is dropped, unless it is let go.
#[derive(Debug)]
pub struct Started {
    /// The process.
    pub id: ProcessId,
    child: Child,
    guard: Guard,
}

impl Started {
    /// How it ended, if it has.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Lets it run on without us.
    pub fn let_go(self) -> Result<()> {
        self.guard.keep()
    }
}

/// Starts a server. It begins only once the ledger has it.
///
/// # Errors
/// When it cannot be started or recorded; then no process is left.
pub fn launch(launcher: &Launcher, ledger: &Ledger, launch: Launch<'_>) -> Result<Started> {
    let failed = |cause| Error::io("start", launch.program, cause);
    let console = OpenOptions::new().create(true).write(true).truncate(true).open(launch.console);
    let console = console.map_err(|cause| Error::io("create", launch.console, cause))?;
    let mut command = Command::new(&launcher.program);
    command.args(&launcher.words);
    for group in launch.groups {
        command.arg("--join").arg(group);
    }
    command.arg("--").arg(launch.program).args(launch.arguments);
    let second = console.try_clone().map_err(failed)?;
    command.stdin(Stdio::piped()).stdout(console).stderr(second);
    let mut child = command.spawn().map_err(failed)?;
    let recorded = ProcessId::of(child.id())
        .ok_or_else(|| Error::new(Kind::NotFound, format!("process {} ended at once", child.id())))
        .and_then(|id| Ok((id, ledger.will_make(Thing::Process(id))?.guard())));
    let (id, guard) = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            // Its input closes, and it ends.
            drop(child.stdin.take());
            let _ = child.wait();
            return Err(error);
        }
    };
    let_begin(&mut child);
    Ok(Started { id, child, guard })
}

/// Gives the word to a child that waits for it in [`become_server`].
fn let_begin(child: &mut Child) {
    if let Some(mut stdin) = child.stdin.take() {
        // One that has ended already is found when it does not answer.
        let _ = writeln!(stdin, "{GO}");
    }
}

/// Becomes a server, or any other program, once the parent has said so on standard input; returns only if that fails.
pub fn become_server(groups: &[PathBuf], program: &OsStr, arguments: &[impl AsRef<OsStr>]) -> Error {
    let mut word = String::new();
    let read = io::stdin().lock().read_line(&mut word);
    if read.is_err() || word.trim_end() != GO {
        return Error::new(Kind::Stopped, "whoever wanted a server has ended before it began");
    }
    if let Err(cause) = rustix::process::setsid() {
        return Error::new(Kind::Unsupported, "cannot begin a session").because(io::Error::from(cause));
    }
    for group in groups {
        let file = group.join("cgroup.procs");
        if let Err(cause) = fs::write(&file, std::process::id().to_string()) {
            return Error::io("join the control group", group, cause);
        }
    }
    let cause = Command::new(program).args(arguments).stdin(Stdio::null()).exec();
    Error::io("become", Path::new(program), cause)
}

/// Why a server ended, from what it printed and logged: one line, the most telling that is there.
pub(crate) fn last_words(console: &Path, log: &Path) -> String {
    const TAIL_BYTES: usize = 64 * 1024;
    let tail = |path: &Path| {
        let bytes = fs::read(path).unwrap_or_default();
        let from = bytes.len().saturating_sub(TAIL_BYTES);
        String::from_utf8_lossy(bytes.get(from..).unwrap_or_default()).into_owned()
    };
    let log = tail(log);
    let severe = |line: &&str| {
        // JSON since 4.4, text before: `2026-11-22T10:00:00.000+0000 E STORAGE  [initandlisten] ...`.
        let before = line.split_ascii_whitespace().nth(1);
        ["\"s\":\"E\"", "\"s\":\"F\""].iter().any(|mark| line.contains(mark))
            || matches!(before, Some("E" | "F"))
    };
    let console = tail(console);
    // Who is called in a wrong way says so first and then how to be called; others end with what went wrong.
    let mut lines = console.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_error = |line: &&str| line.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    let printed = lines.clone().find(is_error).or_else(|| lines.next_back());
    let logged = log.lines().rfind(severe).map(readable);
    let found =
        logged.or_else(|| printed.map(str::to_owned)).or_else(|| log.lines().next_back().map(readable));
    found.unwrap_or_else(|| "it said nothing".to_owned())
}

/// A line of a log without what is the same in every line.
fn readable(line: &str) -> String {
    const LONGEST: usize = 400;
    let parsed: Option<serde_json::Value> = serde_json::from_str(line).ok();
    let text = parsed.and_then(|line| {
        let message = line.get("msg")?.as_str()?.to_owned();
        Some(line.get("attr").map_or(message.clone(), |attributes| format!("{message} {attributes}")))
    });
    text.unwrap_or_else(|| line.to_owned()).chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_telling_line_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let (console, log) = (folder.path().join("console"), folder.path().join("log"));
        assert_eq!(last_words(&console, &log), "it said nothing");
        fs::write(&log, "2026-11-22T10:00:00.000+0000 I CONTROL  [main] starting\n").unwrap();
        assert!(last_words(&console, &log).ends_with("starting"));
        fs::write(
            &console,
            "Error parsing command line: unrecognised option '--foo'\ntry 'mongod --help'\n\n",
        )
        .unwrap();
        assert!(last_words(&console, &log).contains("unrecognised option '--foo'"));
        fs::write(&console, "2026-11-22T10:00:00.000+0000 starting\nfathom: cannot listen\n").unwrap();
        assert_eq!(last_words(&console, &log), "fathom: cannot listen");
        fs::write(&log, "2026-11-22T10:00:00.000+0000 E STORAGE  [initandlisten] no space\n2026 I x\n")
            .unwrap();
        assert!(last_words(&console, &log).ends_with("no space"));
        let json = "{\"t\":1,\"s\":\"E\",\"c\":\"CONTROL\",\"msg\":\"Failed to unlink socket file\",\"attr\":{\"path\":\"/x\"}}\n{\"s\":\"I\",\"msg\":\"bye\"}\n";
        fs::write(&log, json).unwrap();
        assert_eq!(last_words(&console, &log), "Failed to unlink socket file {\"path\":\"/x\"}");
    }
}
