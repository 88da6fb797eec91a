//! The undo journal: every resource that outlives a crash is recorded on disk before it is made.
//!
//! A normal end undoes through [`Guard`]s and leaves no journal. After a kill or a crash the journal remains, and
//! [`undo_dead`] (`fathom cleanup`) reads it. The module makes no resources itself except plain files and folders, for
//! which naming, making and recognising belong together.

mod dead_processes;
mod journal;
mod state_folder;

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fathom_errors::{Error, Kind, Result};

pub use dead_processes::{
    CleanupOutcome, DeadEntry, ResourceFate, dead_things, dead_things_in, undo_dead, undo_dead_in,
};
pub use journal::JournalObserver;
use journal::{JournalStep, LedgerJournal};
pub use state_folder::{StateFolder, state_folder};

use crate::resource::unix_ns;
use crate::undo::{self, UndoContext};
use crate::{Identity, ProcessId, Resource};

/// The number of names that this process has given, over all its ledgers.
static NAMES: AtomicU64 = AtomicU64::new(0);

/// This process's undo journal. Clones share it; the file appears with the first resource and is removed with the last.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<LedgerState>);

#[derive(Debug)]
struct LedgerState {
    folder: PathBuf,
    owner: ProcessId,
    observer: JournalObserver,
    state: Mutex<LedgerContents>,
}

#[derive(Debug, Default)]
struct LedgerContents {
    journal: Option<LedgerJournal>,
    owed: usize,
    next_id: u64,
}

impl Ledger {
    /// The ledger of this process in the state folder: `$FATHOM_STATE`, `$XDG_STATE_HOME/fathom` or
    /// `~/.local/state/fathom`; or in its substitute. Writes nothing yet.
    pub fn open() -> Result<Ledger> {
        Ledger::open_in(&state_folder()?)
    }

    /// The same in a given state folder.
    pub fn open_in(state: &Path) -> Result<Ledger> {
        Ledger::open_observed(state, || {})
    }

    /// The same with an observer of its journal.
    pub fn open_observed(state: &Path, observer: JournalObserver) -> Result<Ledger> {
        let (folder, owner) = (state.join("undo"), ProcessId::current()?);
        Ok(Ledger(Arc::new(LedgerState { folder, owner, observer, state: Mutex::default() })))
    }

    /// Records that `thing` is about to be made. When this returns, the record survives a power cut.
    pub fn will_make(&self, thing: Resource) -> Result<LedgerEntry> {
        let mut state = self.state();
        let state = &mut *state;
        let journal = match &mut state.journal {
            Some(journal) => journal,
            empty => empty.insert(LedgerJournal::create(&self.0.folder, self.0.owner, self.0.observer)?),
        };
        let id = state.next_id;
        let at_unix_ns = unix_ns(SystemTime::now());
        if let Err(error) = journal.add(&JournalStep::Will { id, at_unix_ns, thing: thing.clone() }) {
            state.leave_if_settled()?;
            return Err(error);
        }
        state.next_id += 1;
        state.owed += 1;
        Ok(LedgerEntry { ledger: self.clone(), id, at_unix_ns, thing })
    }

    /// Makes a new empty file, recorded before and identified after.
    pub fn create_file(&self, path: &Path) -> Result<(File, LedgerEntry)> {
        let path = absolute(path)?;
        let mut entry = self.will_make(Resource::file(&path))?;
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                let metadata = file.metadata().map_err(|e| Error::io("look at", &path, e))?;
                if let Err(error) =
                    entry.made_as(Resource::File { path, identity: Some(Identity::from_metadata(&metadata)) })
                {
                    // Undone at once; if that fails too, the record has the path.
                    let _ = entry.undo();
                    return Err(error);
                }
                Ok((file, entry))
            }
            Err(e) => {
                entry.undone()?;
                Err(refused_to_create(&path, e))
            }
        }
    }

    /// Makes a new folder, recorded before and identified after.
    pub fn create_directory(&self, path: &Path) -> Result<LedgerEntry> {
        self.create_folder(path, |path, identity| Resource::Directory { path, identity })
    }

    /// Makes a new folder that will be removed with all its contents; recorded before and identified after.
    pub fn create_tree(&self, path: &Path) -> Result<LedgerEntry> {
        self.create_folder(path, |path, identity| Resource::Tree { path, identity })
    }

    fn create_folder(
        &self,
        path: &Path,
        thing: fn(PathBuf, Option<Identity>) -> Resource,
    ) -> Result<LedgerEntry> {
        let path = absolute(path)?;
        let mut entry = self.will_make(thing(path.clone(), None))?;
        if let Err(e) = fs::create_dir(&path) {
            entry.undone()?;
            return Err(refused_to_create(&path, e));
        }
        let identity = Some(Identity::at(&path)?);
        entry.made_as(thing(path, identity))?;
        Ok(entry)
    }

    /// A name that no other fathom process on this machine gives, now or later in this boot.
    pub fn unique_name(&self) -> String {
        let number = NAMES.fetch_add(1, Ordering::Relaxed) + 1;
        format!("fathom-{}-{}-{number}", self.0.owner.pid, self.0.owner.start_time)
    }

    fn state(&self) -> MutexGuard<'_, LedgerContents> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that an entry need not be undone any more; the last one removes the journal.
    fn settle(&self, id: u64) -> Result<()> {
        let mut state = self.state();
        state.owed = state.owed.saturating_sub(1);
        if state.leave_if_settled()? {
            return Ok(());
        }
        state.journal.as_mut().map_or(Ok(()), |journal| journal.add(&JournalStep::Undone { id }))
    }
}

impl LedgerContents {
    /// Removes the journal when no entry is left, also on a full disk; returns whether it did.
    fn leave_if_settled(&mut self) -> Result<bool> {
        if self.owed > 0 {
            return Ok(false);
        }
        self.journal.take().map_or(Ok(()), LedgerJournal::remove)?;
        Ok(true)
    }
}

/// One thing in the ledger. Dropping it changes nothing: the resource stays recorded.
#[derive(Debug)]
#[must_use = "the thing stays owed until undone() or undo() is called"]
pub struct LedgerEntry {
    ledger: Ledger,
    id: u64,
    at_unix_ns: u64,
    thing: Resource,
}

impl LedgerEntry {
    /// Completes the record with what was unknown before: an identity, the number of a loop device.
    pub fn made_as(&mut self, thing: Resource) -> Result<()> {
        let step = JournalStep::Made { id: self.id, thing: thing.clone() };
        if let Some(journal) = &mut self.ledger.state().journal {
            journal.add(&step)?;
        }
        self.thing = thing;
        Ok(())
    }

    pub fn thing(&self) -> &Resource {
        &self.thing
    }

    /// Removes the entry: the resource was undone, was never made, or is kept because the user wants it.
    pub fn undone(self) -> Result<()> {
        self.ledger.settle(self.id)
    }

    /// Undoes the resource and settles the record; a resource that no longer exists counts as undone. A failure leaves the record
    /// to `fathom cleanup`.
    pub fn undo(self) -> Result<()> {
        let circumstances = UndoContext { same_boot: true, recorded_unix_ns: self.at_unix_ns };
        undo::undo(&self.thing, circumstances)?;
        self.ledger.settle(self.id)
    }

    /// Undoes it on drop, also during a panic.
    pub fn guard(self) -> Guard {
        Guard(Some(self))
    }
}

/// Undoes its resource when dropped. After a failure the resource stays in the journal.
#[derive(Debug)]
pub struct Guard(Option<LedgerEntry>);

impl Guard {
    /// Undoes the resource now and returns any error.
    pub fn undo(mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), LedgerEntry::undo)
    }

    /// Keeps the resource permanently and removes its record.
    pub fn keep(mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), LedgerEntry::undone)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(entry) = self.0.take() {
            // A failure is not lost: the entry stays in the journal, which `fathom cleanup` reads and reports.
            let _ = entry.undo();
        }
    }
}

/// The path without symbolic links in its folders, so that a later process with another working folder finds it.
fn absolute(path: &Path) -> Result<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::usage(format!("{} does not name a file", path.display())));
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let parent = parent.canonicalize().map_err(|e| Error::io("open", parent, e))?;
    Ok(parent.join(name))
}

fn refused_to_create(path: &Path, source: std::io::Error) -> Error {
    let taken = source.kind() == std::io::ErrorKind::AlreadyExists;
    let error = Error::io("create", path, source);
    if taken { error.with_kind(Kind::NotOurs) } else { error }
}

#[cfg(test)]
mod tests;
