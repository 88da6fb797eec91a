//! A folder of a test's own, and the ledger that all fixtures of the machine share.

use std::env;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Once;

use fathom_errors::{Error, Result};
use fathom_process::{Guard, Ledger, Thing, ledger};
use tempfile::TempDir;

use crate::skip::{Need, OrSkip, count_fixture, end_as_skipped};

/// A folder that is removed with everything in it. `$FATHOM_TEST_DIR` says on which disk, else the system's
/// folder for temporary files.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Scratch {
    /// A new, empty one.
    pub fn new() -> Result<Scratch> {
        let base = base();
        let made = tempfile::Builder::new().prefix("fathom-test-").tempdir_in(&base);
        made.map(Scratch).map_err(|e| Error::io("create a folder in", base, e))
    }

    /// Where it is, free of symbolic links.
    pub fn path(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap_or_else(|_| self.0.path().to_owned())
    }
}

fn base() -> PathBuf {
    env::var_os("FATHOM_TEST_DIR").map_or_else(env::temp_dir, PathBuf::from)
}

/// Whether loop devices, mounts and cgroups can be made.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The ledger for fixtures. Its first use in a process takes down what an earlier, killed test run left.
pub(crate) fn fixture_ledger() -> Result<Ledger> {
    static TAKE_DOWN: Once = Once::new();
    let state = base().join("fathom-testkit-state");
    TAKE_DOWN.call_once(|| {
        // Not this test's affair if it fails; the journal remembers.
        let _ = ledger::undo_dead_in(&state);
    });
    Ledger::open_in(&state)
}

/// Notes a process that a test has started, for as long as the guard lives: if the test is killed, the first fixture of the next
/// one ends it.
pub fn note_process(process: u32) -> Result<Guard> {
    Ok(fixture_ledger()?.will_make(Thing::process(process)?)?.guard())
}

/// A fixture that only root can make; the test ends as skipped where this machine cannot have it.
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

/// Writes a file `filler` into `folder` until its file system takes no byte more.
pub fn fill(folder: &Path) -> Result<()> {
    let path = folder.join("filler");
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    let mut file = opened.map_err(|e| Error::io("create", &path, e))?;
    // Ever smaller pieces, so that the last block is taken too; synced, so that late allocation is done.
    for piece in [1 << 20, 1 << 16, 1 << 12, 1 << 9, 1] {
        let zeros = vec![0_u8; piece];
        loop {
            match file.write_all(&zeros).and_then(|()| if piece > 512 { file.sync_data() } else { Ok(()) }) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::StorageFull => break,
                Err(e) => return Err(Error::io("fill", &path, e)),
            }
        }
    }
    Ok(())
}
