//! Whether somebody still writes a run folder: the writer holds a lock on its results for as long as it lives.
//!
//! A process number in a file would lie after a reboot, in a container, or once the number is used again. The kernel lets go of a lock
//! when its process ends, however that ends. On a file system without locks a run that goes on looks cut off; nothing worse.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::plain;
use crate::writer::RESULTS;

/// A look at the lock takes microseconds; a writer that meets one tries again for this often and this long.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Takes the lock of a folder just made. One that cannot be had must not cost the run.
pub(crate) fn hold(results: &File) {
    for _ in 0..TRIES {
        match results.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            Ok(()) | Err(TryLockError::Error(_)) => return,
        }
    }
}

/// Whether a living process writes the folder.
pub(crate) fn is_held(folder: &Path) -> bool {
    plain::open(&folder.join(RESULTS), u64::MAX)
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}
