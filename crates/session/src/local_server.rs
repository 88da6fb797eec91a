//! The lab server as a child of this program, in a folder that is removed at the end.
//!
//! The folder and the process are in the ledger before the server begins, so that `fathom cleanup` removes both where this program was
//! killed. What the server prints is kept in the folder: an engine's library that ends the process by an assertion says so only there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use fathom_cluster::{Launch, Launcher, Started, launch};
use fathom_errors::{Error, Kind, Result};
use fathom_process::Ledger;
use fathom_process::ledger::Guard;
use rustix::process::Signal;

/// Whether this build has it.
pub const IS_BUILT_IN: bool = cfg!(feature = "lab");
/// What its log says when clients may come.
const READY: &str = "Waiting for connections";
/// How long it may take to come up and to stop with its last checkpoint.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the kernel may take to end it once it is killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks at whether it is ready, or has ended.
const PAUSE: Duration = Duration::from_millis(10);
/// So many of the last lines that it printed explain its death.
const MAX_LINES: usize = 5;

/// A running built-in server. Dropped, it is ended and its folder removed.
pub struct LocalServer {
    // Dropped before the folder, in which a process would make new files.
    process: Started,
    folder: Guard,
    console: PathBuf,
    port: u16,
}

impl LocalServer {
    /// Starts it with an engine on a new folder under `parent`.
    pub fn start(ledger: &Ledger, parent: &Path, engine: &str) -> Result<LocalServer> {
        if !IS_BUILT_IN {
            return Err(missing("the built-in server"));
        }
        LocalServer::start_by(&Launcher::current()?, ledger, parent, engine)
    }

    fn start_by(launcher: &Launcher, ledger: &Ledger, parent: &Path, engine: &str) -> Result<LocalServer> {
        let path = parent.join(ledger.unique_name());
        let folder = ledger.create_tree(&path)?.guard();
        let (data, console) = (path.join("db"), path.join("console"));
        fs::create_dir(&data).map_err(|cause| Error::io("create", &data, cause))?;
        let data = data.display().to_string();
        let arguments =
            ["serve", "--port", "0", "--storageEngine", engine, "--dbpath", &data].map(str::to_owned);
        let process = launch(
            launcher,
            ledger,
            Launch { program: &launcher.program, arguments: &arguments, console: &console, groups: &[] },
        )?;
        let mut server = LocalServer { process, folder, console, port: 0 };
        server.port = server.wait_until_ready()?;
        Ok(server)
    }

    /// The port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the port that it logs.
    fn wait_until_ready(&mut self) -> Result<u16> {
        let until = Instant::now() + START_TIMEOUT;
        loop {
            // Looked at before the log is read: what it logged last is there then.
            let ended = self.process.exit_status();
            if let Some(port) = self.printed().lines().find_map(port_of) {
                return Ok(port);
            }
            let what = match ended {
                Some(status) => format!("the built-in server did not come up ({status})"),
                None if Instant::now() >= until => "the built-in server did not come up in time".to_owned(),
                None => {
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            return Err(Error::new(Kind::Unsupported, what).because(self.last_words()));
        }
    }

    /// Stops it with its last checkpoint, and removes its folder.
    ///
    /// # Errors
    /// When it had died or died while it stopped, with what it printed last, or when the folder cannot be removed.
    pub fn stop(mut self) -> Result<()> {
        // One that has ended already is found below.
        let _ = self.process.id.signal(Signal::TERM);
        let status = self.exit_status(STOP_TIMEOUT);
        let died = status.filter(|status| !status.success()).map(|status| {
            let what = format!("the built-in server died ({status})");
            Error::new(Kind::Unsupported, what).because(self.last_words())
        });
        if status.is_none() {
            let _ = self.process.id.signal(Signal::KILL);
            if self.exit_status(KILL_TIMEOUT).is_none() {
                // The folder is still in use: it stays, and the ledger keeps both.
                std::mem::forget(self.folder);
                let what = "the built-in server does not end, even when killed";
                return Err(Error::new(Kind::Busy, what).advise("'fathom cleanup' removes it later"));
            }
        }
        self.process.let_go()?;
        self.folder.undo()?;
        died.map_or(Ok(()), Err)
    }

    fn exit_status(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + timeout;
        loop {
            let status = self.process.exit_status();
            if status.is_some() || Instant::now() >= until {
                return status;
            }
            thread::sleep(PAUSE);
        }
    }

    fn printed(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.console).unwrap_or_default()).into_owned()
    }

    /// The last lines that are not of its log.
    fn last_words(&self) -> String {
        let printed = self.printed();
        let mut lines: Vec<&str> =
            printed.lines().filter(|line| !line.starts_with('{') && !line.trim().is_empty()).collect();
        lines.drain(..lines.len().saturating_sub(MAX_LINES));
        if lines.is_empty() { "it did not say why".to_owned() } else { lines.join("\n") }
    }
}

/// The error of a program that was built without the lab.
pub fn missing(what: &str) -> Error {
    let what = format!("{what} is not in this build of fathom, which measures and judges only");
    Error::new(Kind::Unsupported, what)
        .advise("take the program that `make build` makes, or name a server with --uri")
}

/// The port in the line that says that it is ready.
fn port_of(line: &str) -> Option<u16> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    line.get("msg")?.as_str().filter(|message| *message == READY)?;
    line.get("attr")?.get("port")?.as_u64()?.try_into().ok()
}

/// The engines that the server has, with the names that people know.
pub const ENGINES: [(&str, &str); 2] = [("wiredTiger", "WiredTiger"), ("rocksdb", "RocksDB")];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use fathom_process::{ProcessId, Thing};
    use fathom_testkit::{Bytes, Scratch, Tmpfs, assert, assert_eq, test};

    use super::*;

    /// A program that becomes a server as this one does, and as a server runs a script.
    fn stand_in(scratch: &Scratch, script: &str) -> Launcher {
        let program = scratch.path().join("stand-in");
        let text = format!(
            "#!/bin/sh\ncase \"$1\" in\ncluster) read word; [ \"$word\" = go ] || exit 1; shift 3; exec \"$@\" ;;\n\
             serve) {script} ;;\nesac\n"
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Launcher { program, words: ["cluster", "launch"].map(str::to_owned).to_vec() }
    }

    /// The processes that have the scratch folder on their command line.
    fn processes(scratch: &Scratch) -> Vec<u32> {
        let folder = scratch.path().display().to_string();
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(&folder)
        })
        .collect()
    }

    fn data_folder(scratch: &Scratch) -> PathBuf {
        let folder = scratch.path().join("data");
        fs::create_dir(&folder).unwrap();
        folder
    }

    /// Fills the journal of a ledger in a file system of one page until the folder of a server still fits and its process does not.
    fn fill_journal(ledger: &Ledger, state: &Path, folder: &Path) {
        let journal = fs::read_dir(state.join("undo"));
        assert!(journal.is_err(), "the journal comes with the first entry");
        let _first = ledger.will_make(Thing::file("/first")).unwrap();
        let journal = fs::read_dir(state.join("undo")).unwrap().next().unwrap().unwrap().path();
        let length = || usize::try_from(fs::metadata(&journal).unwrap().len()).unwrap();
        let before = length();
        let entry = ledger.create_tree(&folder.join(ledger.unique_name())).unwrap();
        let of_folder = length() - before;
        entry.undo().unwrap();
        let before = length();
        let _second = ledger.will_make(Thing::file("/second")).unwrap();
        let of_file = length() - before - "/second".len();
        // The record of a process takes more than these.
        const ROOM: usize = 40;
        let filler = 4096 - length() - of_folder - of_file - ROOM;
        let _third = ledger.will_make(Thing::file(format!("/{}", "x".repeat(filler - 1)))).unwrap();
    }

    #[test]
    fn a_server_that_the_ledger_cannot_take_never_begins() {
        let tmpfs = Tmpfs::new(Bytes(4096));
        let scratch = Scratch::new().unwrap();
        let folder = data_folder(&scratch);
        let ledger = Ledger::open_in(tmpfs.path()).unwrap();
        fill_journal(&ledger, tmpfs.path(), &folder);
        let launcher = stand_in(&scratch, "while :; do sleep 0.1; done");
        let error = LocalServer::start_by(&launcher, &ledger, &folder, "wiredTiger").map(drop).unwrap_err();
        let left = processes(&scratch);
        left.iter().filter_map(|pid| ProcessId::of(*pid)).for_each(|id| drop(id.signal(Signal::KILL)));
        assert_eq!(left, Vec::<u32>::new(), "a server runs that the ledger does not know");
        assert_eq!(error.kind(), Kind::NoSpace, "{error}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn what_a_server_printed_before_it_died_is_told() {
        let scratch = Scratch::new().unwrap();
        let folder = data_folder(&scratch);
        let ledger = Ledger::open_in(&scratch.path().join("state")).unwrap();
        let script = format!(
            "grep -q \"\\\"pid\\\":$$\" '{}'/undo/*.jsonl || exit 9\n\
             echo '{{\"msg\":\"{READY}\",\"attr\":{{\"port\":4711}}}}'\n\
             echo 'engine: assertion failed: pages > 0' >&2\nkill -ABRT $$",
            scratch.path().join("state").display()
        );
        let server =
            LocalServer::start_by(&stand_in(&scratch, &script), &ledger, &folder, "wiredTiger").unwrap();
        assert_eq!(server.port(), 4711);
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until && processes(&scratch).iter().any(|pid| ProcessId::of(*pid).is_some()) {
            thread::sleep(Duration::from_millis(5));
        }
        let error = server.stop().unwrap_err().to_string();
        assert!(error.contains("SIGABRT") && error.contains("assertion failed: pages > 0"), "{error}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn a_server_that_does_not_come_up_says_why() {
        let scratch = Scratch::new().unwrap();
        let folder = data_folder(&scratch);
        let ledger = Ledger::open_in(&scratch.path().join("state")).unwrap();
        let launcher = stand_in(&scratch, "echo 'fathom: no room' >&2; exit 3");
        let error = LocalServer::start_by(&launcher, &ledger, &folder, "wiredTiger").map(drop).unwrap_err();
        assert!(error.to_string().contains("fathom: no room"), "{error}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}
