//! The undo journal: every thing that outlives a crash is written down, on the disk, before it is made.
//!
//! A normal end undoes through [`Guard`]s and leaves no journal. After a kill or a crash the journal is still
//! there, and [`undo_dead`] (`fathom cleanup`) reads it. It refuses to make anything itself, except a plain file
//! or folder, where naming, making and recognising it later belong together.

mod dead;
mod journal;

use std::env;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fathom_errors::{Error, Kind, Result};

pub use dead::{Fate, Found, Outcome, dead_things, dead_things_in, undo_dead, undo_dead_in};
use journal::{Journal, Step};

use crate::thing::unix_ns;
use crate::undo::{self, Circumstances};
use crate::{Identity, ProcessId, Thing};

/// How many names this process has given, over all its ledgers.
static NAMES: AtomicU64 = AtomicU64::new(0);

/// This process's undo journal. Clones share it; the file appears with the first thing and goes with the last.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    owner: ProcessId,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    journal: Option<Journal>,
    owed: usize,
    next_id: u64,
}

impl Ledger {
    /// The ledger of this process in the state folder: `$FATHOM_STATE`, `$XDG_STATE_HOME/fathom` or
    /// `~/.local/state/fathom`. Writes nothing yet.
    pub fn open() -> Result<Ledger> {
        Ledger::open_in(&state_folder()?)
    }

    /// The same in a given state folder.
    pub fn open_in(state: &Path) -> Result<Ledger> {
        let shared =
            Shared { folder: state.join("undo"), owner: ProcessId::current()?, state: Mutex::default() };
        Ok(Ledger(Arc::new(shared)))
    }

    /// Records that `thing` is about to be made. When this returns, the record survives a power cut.
    pub fn will_make(&self, thing: Thing) -> Result<Entry> {
        let mut state = self.state();
        let state = &mut *state;
        let journal = match &mut state.journal {
            Some(journal) => journal,
            empty => empty.insert(Journal::create(&self.0.folder, self.0.owner)?),
        };
        let id = state.next_id;
        let at_unix_ns = unix_ns(SystemTime::now());
        if let Err(error) = journal.add(&Step::Will { id, at_unix_ns, thing: thing.clone() }) {
            state.leave_if_settled()?;
            return Err(error);
        }
        state.next_id += 1;
        state.owed += 1;
        Ok(Entry { ledger: self.clone(), id, at_unix_ns, thing })
    }

    /// Makes an empty file that was not there, recorded before and identified after.
    pub fn create_file(&self, path: &Path) -> Result<(File, Entry)> {
        let path = absolute(path)?;
        let mut entry = self.will_make(Thing::file(&path))?;
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                let metadata = file.metadata().map_err(|e| Error::io("look at", &path, e))?;
                if let Err(error) =
                    entry.made_as(Thing::File { path, identity: Some(Identity::of(&metadata)) })
                {
                    // Taken back at once; if not even that works, the record has the path.
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

    /// Makes a folder that was not there, recorded before and identified after.
    pub fn create_directory(&self, path: &Path) -> Result<Entry> {
        self.create_folder(path, |path, identity| Thing::Directory { path, identity })
    }

    /// Makes a folder that was not there and will be removed with all that comes into it; recorded before and identified after.
    pub fn create_tree(&self, path: &Path) -> Result<Entry> {
        self.create_folder(path, |path, identity| Thing::Tree { path, identity })
    }

    fn create_folder(&self, path: &Path, thing: fn(PathBuf, Option<Identity>) -> Thing) -> Result<Entry> {
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that an entry is owed no longer; the last one takes the journal with it.
    fn settle(&self, id: u64) -> Result<()> {
        let mut state = self.state();
        state.owed = state.owed.saturating_sub(1);
        if state.leave_if_settled()? {
            return Ok(());
        }
        state.journal.as_mut().map_or(Ok(()), |journal| journal.add(&Step::Undone { id }))
    }
}

impl State {
    /// Removes the journal when nothing is owed, which works on a full disk too; tells whether it did.
    fn leave_if_settled(&mut self) -> Result<bool> {
        if self.owed > 0 {
            return Ok(false);
        }
        self.journal.take().map_or(Ok(()), Journal::remove)?;
        Ok(true)
    }
}

/// One thing in the ledger. Dropping it changes nothing: the thing stays owed.
#[derive(Debug)]
#[must_use = "the thing stays owed until undone() or undo() is called"]
pub struct Entry {
    ledger: Ledger,
    id: u64,
    at_unix_ns: u64,
    thing: Thing,
}

impl Entry {
    /// Completes the record with what was unknown before: an identity, the number of a loop device.
    pub fn made_as(&mut self, thing: Thing) -> Result<()> {
        let step = Step::Made { id: self.id, thing: thing.clone() };
        if let Some(journal) = &mut self.ledger.state().journal {
            journal.add(&step)?;
        }
        self.thing = thing;
        Ok(())
    }

    /// What is recorded.
    pub fn thing(&self) -> &Thing {
        &self.thing
    }

    /// The thing is owed no longer: it was undone, was never made, or is to be kept by a person's wish.
    pub fn undone(self) -> Result<()> {
        self.ledger.settle(self.id)
    }

    /// Undoes the thing and settles the record; one already gone counts as undone. A failure leaves the record to
    /// `fathom cleanup`.
    pub fn undo(self) -> Result<()> {
        let circumstances = Circumstances { same_boot: true, recorded_unix_ns: self.at_unix_ns };
        undo::undo(&self.thing, circumstances)?;
        self.ledger.settle(self.id)
    }

    /// Undoes it when the guard goes out of scope, also when a panic passes.
    pub fn guard(self) -> Guard {
        Guard(Some(self))
    }
}

/// Undoes its thing when dropped. What fails then stays in the journal.
#[derive(Debug)]
pub struct Guard(Option<Entry>);

impl Guard {
    /// Undoes the thing now and tells whether that worked.
    pub fn undo(mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), Entry::undo)
    }

    /// Lets the thing stand for good: it is owed no longer.
    pub fn keep(mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), Entry::undone)
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

/// Where this program keeps what outlives a run (the XDG base directory specification, `XDG_STATE_HOME`).
pub fn state_folder() -> Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    if let Some(value) = env::var_os("FATHOM_STATE").filter(|value| !value.is_empty()) {
        return std::path::absolute(&value).map_err(|e| Error::io("resolve", PathBuf::from(&value), e));
    }
    if let Some(folder) = absolute("XDG_STATE_HOME") {
        return Ok(folder.join("fathom"));
    }
    let home = absolute("HOME").or_else(|| {
        // Where a service manager sets no HOME; the C library's own look-up would load modules of the host, which a static program cannot.
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        home_of(rustix::process::getuid().as_raw(), &users)
    });
    home.map(|home| home.join(".local/state/fathom")).ok_or_else(|| {
        let what = "there is no home folder to keep the undo journal in";
        Error::new(Kind::NotFound, what).advise("set FATHOM_STATE to a folder that can be written")
    })
}

/// The home folder of a user in a text like `/etc/passwd` (passwd(5)).
fn home_of(user: u32, users: &str) -> Option<PathBuf> {
    let mut users = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let fields = users.find(|fields| fields.get(2).is_some_and(|id| id.parse() == Ok(user)))?;
    fields.get(5).map(PathBuf::from).filter(|home| home.is_absolute())
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
