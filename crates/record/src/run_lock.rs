//! The lock that the writer of a run folder holds on the folder's results until its process ends.
//!
//! A process number in a file would be wrong after a reboot, in a container, or when the number is used again. The kernel releases a lock
//! when its process ends, for any reason. On a file system without locks a run in progress looks cut off, and two writers
//! can resume it at once.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};

use crate::Run;
use crate::files::{self, RESULTS};

/// A reader tests the lock for microseconds; a writer that finds it taken tries this often, with this pause.
const MAX_TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// The right to write a run folder, which only one process can hold at a time.
#[derive(Debug)]
pub struct RunLock {
    pub(crate) folder: PathBuf,
    /// Open for appending results.
    pub(crate) results: File,
}

impl RunLock {
    /// Takes the lock of a run, and does not change the run.
    ///
    /// # Errors
    /// When another process writes the run, or `folder` is not a run that can be read and written.
    pub fn take(folder: &Path) -> Result<RunLock> {
        // Opening the results creates a file, which must not appear in a folder that is not a run.
        Run::open(folder)?;
        RunLock::take_new(folder)
    }

    /// Takes the lock of a folder that has no manifest yet.
    pub(crate) fn take_new(folder: &Path) -> Result<RunLock> {
        let path = folder.join(RESULTS);
        let results = OpenOptions::new().create(true).append(true).open(&path);
        let results = results.map_err(|e| Error::io("create", &path, e))?;
        for _ in 0..MAX_TRIES {
            match results.try_lock() {
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
                Ok(()) | Err(TryLockError::Error(_)) => {
                    return Ok(RunLock { folder: folder.to_owned(), results });
                }
            }
        }
        Err(Error::new(Kind::Busy, format!("another process still writes {}", folder.display())))
    }

    /// Whether a running process holds the lock of `folder`.
    pub(crate) fn is_taken(folder: &Path) -> bool {
        files::open(&folder.join(RESULTS), u64::MAX)
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use fathom_errors::Kind;

    use crate::{Manifest, RunLock, RunWriter, State};

    #[test]
    fn of_several_who_resume_a_run_at_once_one_succeeds() {
        const ROUNDS: usize = 5;
        let parent = tempfile::tempdir().unwrap();
        let writer = RunWriter::create(parent.path(), Manifest::new("compare", "0.0.0", [])).unwrap();
        let folder = writer.finish(State::Interrupted, None).unwrap();
        for _ in 0..ROUNDS {
            let barrier = Barrier::new(3);
            let resume = || {
                barrier.wait();
                RunLock::take(&folder).and_then(RunWriter::resume)
            };
            let resumed = std::thread::scope(|scope| {
                let threads = [scope.spawn(resume), scope.spawn(resume), scope.spawn(resume)];
                threads.map(|thread| thread.join().unwrap())
            });
            let refused = resumed.iter().filter_map(|one| one.as_ref().err().map(|error| error.kind()));
            assert_eq!(refused.collect::<Vec<_>>(), [Kind::Busy; 2]);
        }
    }
}
