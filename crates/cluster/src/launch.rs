//! Starts a server in a session of its own, so that it outlives this process, and so that it always has an owner.
//!
//! A child first runs this program again, which waits for a word on its standard input. The word is sent only when the child is in the
//! ledger; then the child leaves our session, joins its control groups and becomes the server. If we are killed at any moment, we leave
//! either a child that ends by itself or one that `fathom cleanup` knows. Process number and start time stay the same through all this.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use fathom_errors::{Error, Kind, Result};
use fathom_process::{Guard, Ledger, ProcessId, Resource};

/// The word that lets a child become a server.
const GO: &str = "go";

/// The way to start this program as a server: `fathom cluster launch`.
#[derive(Clone, Debug)]
pub struct Launcher {
    pub program: PathBuf,
    /// The arguments before those that name the server.
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

/// The parameters of a server's process.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    pub program: &'a Path,
    pub arguments: &'a [String],
    /// The file for its output, which is truncated first.
    pub console: &'a Path,
    /// Control groups that it joins before it starts.
    pub groups: &'a [PathBuf],
}

/// A started server, which ends when this is dropped, unless it is released.
#[derive(Debug)]
pub struct ServerGuard {
    pub id: ProcessId,
    child: Child,
    guard: Guard,
}

impl ServerGuard {
    /// The exit status, if it has ended.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Releases it, so that it outlives this process.
    pub fn let_go(self) -> Result<()> {
        self.guard.keep()
    }
}

/// Starts a server. It begins only once the ledger contains it.
///
/// # Errors
/// When it cannot be started or recorded; then no process is left.
pub fn launch(launcher: &Launcher, ledger: &Ledger, launch: Launch<'_>) -> Result<ServerGuard> {
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
    let recorded = ProcessId::read(child.id())
        .ok_or_else(|| Error::new(Kind::NotFound, format!("process {} ended at once", child.id())))
        .and_then(|id| Ok((id, ledger.will_make(Resource::Process(id))?.guard())));
    let (id, guard) = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            // Its standard input closes, and it ends.
            drop(child.stdin.take());
            let _ = child.wait();
            return Err(error);
        }
    };
    let_begin(&mut child);
    Ok(ServerGuard { id, child, guard })
}

/// Sends the word to a child that waits for it in [`become_server`].
fn let_begin(child: &mut Child) {
    if let Some(mut stdin) = child.stdin.take() {
        // A child that has already ended is noticed when it does not answer.
        let _ = writeln!(stdin, "{GO}");
    }
}

/// Becomes a server, or any other program, once the parent has sent the word on standard input; returns only if that fails.
pub fn become_server(groups: &[PathBuf], program: &OsStr, arguments: &[impl AsRef<OsStr>]) -> Error {
    let mut word = String::new();
    let read = io::stdin().lock().read_line(&mut word);
    if read.is_err() || word.trim_end() != GO {
        return Error::new(Kind::Stopped, "the launching process ended before the server started");
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

/// The reason why a server ended, from its output and log: the most informative line.
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
    // After a usage error the first line names it and the usage follows; other failures are named in the last line.
    let mut lines = console.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_error = |line: &&str| line.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    let printed = lines.clone().find(is_error).or_else(|| lines.next_back());
    let logged = log.lines().rfind(severe).map(readable);
    let found =
        logged.or_else(|| printed.map(str::to_owned)).or_else(|| log.lines().next_back().map(readable));
    found.unwrap_or_else(|| "it said nothing".to_owned())
}

/// A line of a log without the parts that are the same in every line.
fn readable(line: &str) -> String {
    const MAX_CHARACTERS: usize = 400;
    let parsed: Option<serde_json::Value> = serde_json::from_str(line).ok();
    let text = parsed.and_then(|line| {
        let message = line.get("msg")?.as_str()?.to_owned();
        Some(line.get("attr").map_or(message.clone(), |attributes| format!("{message} {attributes}")))
    });
    text.unwrap_or_else(|| line.to_owned()).chars().take(MAX_CHARACTERS).collect()
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
