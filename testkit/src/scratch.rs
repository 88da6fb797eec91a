//! A temporary folder for a test, and the ledger that all fixtures of the machine share.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use fathom_errors::{Error, Result};
use fathom_host::{Mounts, View};
use fathom_process::{Guard, Ledger, ProcessId, Resource, ledger};
use fathom_units::Bytes;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::leftovers::processes_naming;
use crate::skip::{Need, OrSkip, count_fixture, end_as_skipped};

/// The prefix of the names of test folders.
const PREFIX: &str = "fathom-test-";

/// A folder younger than this may not be locked yet by the test that makes it.
const MIN_AGE: Duration = Duration::from_secs(60);

/// A folder that is removed with everything in it. It is below `$FATHOM_TEST_DIR`, else below the system's folder for
/// temporary files.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    /// Locked while the test runs: the lock of a killed test is free.
    _lock: File,
}

impl Scratch {
    /// A new, empty one.
    pub fn new() -> Result<Scratch> {
        take_down();
        let base = base();
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&base);
        let folder = made.map_err(|e| Error::io("create a folder in", base, e))?;
        let lock = File::open(folder.path()).and_then(|file| file.lock().map(|()| file));
        let lock = lock.map_err(|e| Error::io("lock", folder.path(), e))?;
        Ok(Scratch { folder, _lock: lock })
    }

    /// Its path, free of symbolic links.
    pub fn path(&self) -> PathBuf {
        let path = self.folder.path();
        path.canonicalize().unwrap_or_else(|_| path.to_owned())
    }
}

pub(crate) fn base() -> PathBuf {
    env::var_os("FATHOM_TEST_DIR").map_or_else(env::temp_dir, PathBuf::from)
}

fn state() -> PathBuf {
    base().join("fathom-testkit-state")
}

/// Removes the remains of killed tests at the first call in a process: mounts and devices by their ledgers, then their
/// folders, and servers that run there. A failure does not affect the calling test; the ledger keeps the record.
fn take_down() {
    static TAKE_DOWN: Once = Once::new();
    TAKE_DOWN.call_once(|| {
        let _ = ledger::undo_dead_in(&state());
        let entries = fs::read_dir(base()).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
            take_down_folder(&entry.path(), MIN_AGE);
        }
    });
}

/// Kills the processes that name a killed test's folder on their command lines, such as servers of a cluster, and removes it.
fn take_down_folder(folder: &Path, min_age: Duration) {
    let modified = fs::symlink_metadata(folder).and_then(|metadata| metadata.modified());
    let is_old = modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age >= min_age));
    let lock = File::open(folder).ok().filter(|file| is_old && file.try_lock().is_ok());
    if lock.is_none() {
        return;
    }
    for process in processes_naming(folder).into_iter().filter_map(ProcessId::read) {
        let _ = process.signal(Signal::KILL);
    }
    let is_mounted = Mounts::read(&View::live())
        .map_or(true, |mounts| mounts.iter().any(|mount| mount.mount_point.starts_with(folder)));
    if !is_mounted {
        let _ = fs::remove_dir_all(folder);
    }
}

/// Returns whether loop devices, mounts and cgroups can be made.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The ledger for fixtures.
pub(crate) fn fixture_ledger() -> Result<Ledger> {
    take_down();
    Ledger::open_in(&state())
}

/// Notes a process that a test has started, for as long as the guard lives: if the test is killed, the first fixture of the next
/// one ends it.
pub fn note_process(process: u32) -> Result<Guard> {
    Ok(fixture_ledger()?.will_make(Resource::process(process)?)?.guard())
}

/// A fixture that only root can make; the test ends as skipped if this machine does not support it.
#[track_caller]
pub(crate) fn root_fixture<T>(need: Need, make: impl FnOnce() -> Result<T>) -> T {
    need_root();
    count_fixture();
    make().or_skip(need)
}

/// Ends the test as skipped for a user who is not root.
#[track_caller]
pub fn need_root() {
    if !is_root() {
        end_as_skipped(Need::Root, "the user is not root");
    }
}

/// Writes a file `filler` into `folder` until its file system is full.
pub fn fill(folder: &Path) -> Result<()> {
    /// Decreasing pieces, so that the last block is used too; synced, so that late allocation is done.
    const PIECES: [usize; 5] = [1 << 20, 1 << 16, 1 << 12, 1 << 9, 1];
    let path = folder.join("filler");
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    let mut file = opened.map_err(|e| Error::io("create", &path, e))?;
    let zeros = vec![0_u8; PIECES[0]];
    let (mut at, mut taken) = (0, 0);
    while let Some(&piece) = PIECES.get(at) {
        match file
            .write_all(&zeros[..piece])
            .and_then(|()| if piece > 512 { file.sync_data() } else { Ok(()) })
        {
            Ok(()) => taken += piece,
            Err(e) if e.kind() == ErrorKind::StorageFull => (at, taken) = (at + 1, 0),
            Err(e) => return Err(Error::io("fill", &path, e)),
        }
        // Space was freed meanwhile, and small pieces with a sync each would take minutes to fill it.
        if at > 0 && taken >= PIECES[at - 1] {
            (at, taken) = (0, 0);
        }
    }
    Ok(())
}

/// Fills a file system except `left` bytes, with a file whose path is returned.
pub fn fill_to(folder: &Path, left: Bytes) -> Result<PathBuf> {
    let space = statvfs(folder).map_err(|e| Error::io("look at", folder, e))?;
    let taken = (space.f_bavail * space.f_frsize).saturating_sub(left.0);
    let path = folder.join("filler");
    let file = File::create(&path).map_err(|e| Error::io("create", &path, e))?;
    fallocate(&file, FallocateFlags::empty(), 0, taken).map_err(|e| Error::io("fill", &path, e))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use super::*;
    use crate::{assert, test};

    #[test]
    fn what_a_killed_test_left_is_taken_down_and_a_running_ones_folder_stays() {
        let running = Scratch::new().unwrap();
        take_down_folder(&running.path(), Duration::ZERO);
        assert!(running.path().exists());

        let killed = tempfile::tempdir().unwrap();
        let program = killed.path().join("server");
        fs::copy("/bin/sleep", &program).unwrap();
        let mut server = Command::new(&program).arg("600").spawn().unwrap();
        // The kernel lets `spawn` return before it has set the new program's command line.
        let has_command_line = |_| {
            thread::sleep(Duration::from_millis(5));
            processes_naming(killed.path()).contains(&server.id())
        };
        assert!((0..4000).any(has_command_line));
        take_down_folder(killed.path(), MIN_AGE);
        assert!(killed.path().exists() && server.try_wait().unwrap().is_none(), "it is young");
        take_down_folder(killed.path(), Duration::ZERO);
        assert!(!server.wait().unwrap().success() && !killed.path().exists());
    }
}
