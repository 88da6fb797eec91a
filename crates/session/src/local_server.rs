//! The lab server as a child of this program, in a folder that is removed at the end.
//!
//! The folder and the process are in the ledger before the server begins, so that `fathom cleanup` removes both if this program is
//! killed. The server's output is kept in the folder: an engine's library that ends the process by an assertion reports it only there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use fathom_cluster::{Launch, Launcher, ServerGuard, launch};
use fathom_errors::{Error, Kind, Result};
use fathom_process::Ledger;
use fathom_process::ledger::Guard;
use fathom_units::Bytes;
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

/// True if this build includes the lab server.
pub const IS_BUILT_IN: bool = cfg!(feature = "lab");
/// The log text that shows that clients may connect.
const READY: &str = "Waiting for connections";
/// The time limit for its start, and for its stop with the last checkpoint.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// The time that the kernel may take to end a killed server.
const KILL_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval between two checks of its readiness or its end.
const PAUSE: Duration = Duration::from_millis(10);
/// The number of its last printed lines that are shown to explain its death.
const MAX_LINES: usize = 5;

/// The storage settings of the lab server. The default is that of its command line without flags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalStorage {
    /// The size of the engine's cache.
    pub cache: Option<Bytes>,
    /// Seconds from one checkpoint to the next.
    pub checkpoint_interval_s: Option<u64>,
    /// The part of the cache that changes may fill before WiredTiger evicts pages for it (`eviction_dirty_target`), in percent. The trigger is
    /// twice as much; the limits on updates are half of each.
    pub dirty_target_pct: Option<u8>,
    /// True if data files bypass the kernel's page cache, where the file system allows that.
    pub is_direct: bool,
}

impl LocalStorage {
    /// The flags of `fathom serve` for an engine; `is_direct` if data files are to use direct I/O.
    pub fn flags(&self, engine: &str, is_direct: bool) -> Vec<String> {
        let mut flags = Vec::new();
        let is_rocksdb = engine == "rocksdb";
        if let Some(cache) = self.cache {
            let flag = if is_rocksdb { "--rocksdbCacheSizeGB" } else { "--wiredTigerCacheSizeGB" };
            flags.extend([flag.to_owned(), (cache.get() as f64 / f64::from(1 << 30)).to_string()]);
        }
        if let Some(seconds) = self.checkpoint_interval_s {
            flags.extend(["--syncdelay".to_owned(), seconds.to_string()]);
        }
        let mut config = Vec::new();
        if is_direct {
            config.push(if is_rocksdb { ROCKSDB_DIRECT } else { WIRED_TIGER_DIRECT }.to_owned());
        }
        if let Some(target) = self.dirty_target_pct.filter(|_| !is_rocksdb) {
            let trigger = target.saturating_mul(2);
            config.push(format!("eviction_dirty_target={target},eviction_dirty_trigger={trigger}"));
        }
        if !config.is_empty() {
            let flag = if is_rocksdb { "--rocksdbConfigString" } else { "--wiredTigerEngineConfigString" };
            flags.extend([flag.to_owned(), config.join(",")]);
        }
        flags
    }
}

/// Options with which data files bypass the kernel's page cache. The journal never does.
const WIRED_TIGER_DIRECT: &str = "direct_io=[data]";
const ROCKSDB_DIRECT: &str = "use_direct_reads=true;use_direct_io_for_flush_and_compaction=true";

/// Returns whether files in one of our directories can be opened for direct I/O. Network file systems and FUSE lack files without a name.
fn has_direct_io(directory: &Path) -> bool {
    let (mode, file) = (Mode::RUSR | Mode::WUSR, directory.join("direct"));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::DIRECT;
    // Closed before it is removed: FUSE hides a file that is removed while it is open.
    let is_direct = rustix::fs::open(&file, flags, mode).is_ok();
    // Some file systems create the file and then refuse to open it for direct I/O.
    let _ = fs::remove_file(&file);
    is_direct
}

/// A running built-in server. On drop, the server is ended and its folder removed.
pub struct LocalServer {
    // Dropped before the folder, in which a live process would create new files.
    process: ServerGuard,
    folder: Guard,
    console: PathBuf,
    port: u16,
    is_direct: bool,
}

impl LocalServer {
    /// Starts it with an engine on a new folder under `parent`.
    pub fn start(
        ledger: &Ledger,
        parent: &Path,
        engine: &str,
        storage: &LocalStorage,
    ) -> Result<LocalServer> {
        if !IS_BUILT_IN {
            return Err(missing("the built-in server"));
        }
        LocalServer::start_by(&Launcher::current()?, ledger, parent, (engine, storage))
    }

    fn start_by(
        launcher: &Launcher,
        ledger: &Ledger,
        parent: &Path,
        (engine, storage): (&str, &LocalStorage),
    ) -> Result<LocalServer> {
        let path = parent.join(ledger.unique_name());
        let folder = ledger.create_tree(&path)?.guard();
        let (data, console) = (path.join("db"), path.join("console"));
        fs::create_dir(&data).map_err(|cause| Error::io("create", &data, cause))?;
        let data = data.display().to_string();
        let arguments =
            ["serve", "--port", "0", "--storageEngine", engine, "--dbpath", &data].map(str::to_owned);
        let is_direct = storage.is_direct && has_direct_io(&path);
        let arguments: Vec<String> = arguments.into_iter().chain(storage.flags(engine, is_direct)).collect();
        let process = launch(
            launcher,
            ledger,
            Launch { program: &launcher.program, arguments: &arguments, console: &console, groups: &[] },
        )?;
        let mut server = LocalServer { process, folder, console, port: 0, is_direct };
        server.port = server.wait_until_ready()?;
        Ok(server)
    }

    /// The port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether its data files bypass the kernel's page cache.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Waits for the port that it logs.
    fn wait_until_ready(&mut self) -> Result<u16> {
        let until = Instant::now() + START_TIMEOUT;
        loop {
            // Checked before the log is read, so that the log then contains its last lines.
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
    /// # Errors When it has died or dies during the stop, with its last output, or when the folder cannot be removed.
    pub fn stop(mut self) -> Result<()> {
        // A server that has already ended is found below.
        let _ = self.process.id.signal(Signal::TERM);
        let status = self.exit_status(STOP_TIMEOUT);
        let died = status.filter(|status| !status.success()).map(|status| {
            let what = format!("the built-in server died ({status})");
            Error::new(Kind::Unsupported, what).because(self.last_words())
        });
        if status.is_none() {
            let _ = self.process.id.signal(Signal::KILL);
            if self.exit_status(KILL_TIMEOUT).is_none() {
                // The folder is still in use, so it remains, and the ledger keeps both.
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

    /// The last lines of output that are not log lines.
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
        .with_id("not-in-this-build")
        .advise("take the program that `make build` makes, or name a server with --uri")
}

/// The port in the line that reports readiness.
fn port_of(line: &str) -> Option<u16> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    line.get("msg")?.as_str().filter(|message| *message == READY)?;
    line.get("attr")?.get("port")?.as_u64()?.try_into().ok()
}

/// The engines of the server, with their common names.
pub const ENGINES: [(&str, &str); 2] = [("wiredTiger", "WiredTiger"), ("rocksdb", "RocksDB")];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use fathom_process::{ProcessId, Resource};
    use fathom_testkit::{Bytes, Scratch, Tmpfs, assert, assert_eq, test};

    use super::*;

    /// A program that starts as a server like this one, and as a server runs a script.
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
        let _first = ledger.will_make(Resource::file("/first")).unwrap();
        let journal = fs::read_dir(state.join("undo")).unwrap().next().unwrap().unwrap().path();
        let length = || usize::try_from(fs::metadata(&journal).unwrap().len()).unwrap();
        let before = length();
        let entry = ledger.create_tree(&folder.join(ledger.unique_name())).unwrap();
        let of_folder = length() - before;
        entry.undo().unwrap();
        let before = length();
        let _second = ledger.will_make(Resource::file("/second")).unwrap();
        let of_file = length() - before - "/second".len();
        // The record of a process takes more than this number of bytes.
        const ROOM: usize = 40;
        let filler = 4096 - length() - of_folder - of_file - ROOM;
        let _third = ledger.will_make(Resource::file(format!("/{}", "x".repeat(filler - 1)))).unwrap();
    }

    #[test]
    fn a_server_that_the_ledger_cannot_take_never_begins() {
        let tmpfs = Tmpfs::new(Bytes(4096));
        let scratch = Scratch::new().unwrap();
        let folder = data_folder(&scratch);
        let ledger = Ledger::open_in(tmpfs.path()).unwrap();
        fill_journal(&ledger, tmpfs.path(), &folder);
        let launcher = stand_in(&scratch, "while :; do sleep 0.1; done");
        let error =
            LocalServer::start_by(&launcher, &ledger, &folder, ("wiredTiger", &LocalStorage::default()))
                .map(drop)
                .unwrap_err();
        let left = processes(&scratch);
        left.iter().filter_map(|pid| ProcessId::read(*pid)).for_each(|id| drop(id.signal(Signal::KILL)));
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
        let server = LocalServer::start_by(
            &stand_in(&scratch, &script),
            &ledger,
            &folder,
            ("wiredTiger", &LocalStorage::default()),
        )
        .unwrap();
        assert_eq!(server.port(), 4711);
        let until = Instant::now() + Duration::from_secs(300);
        while Instant::now() < until && processes(&scratch).iter().any(|pid| ProcessId::read(*pid).is_some())
        {
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
        let error =
            LocalServer::start_by(&launcher, &ledger, &folder, ("wiredTiger", &LocalStorage::default()))
                .map(drop)
                .unwrap_err();
        assert!(error.to_string().contains("fathom: no room"), "{error}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}
