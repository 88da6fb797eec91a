//! What processes that died owe, and paying it for them, last made first undone.
//!
//! A journal counts as dead only when nobody holds its lock and its process no longer runs. It refuses to touch a
//! living owner's things, and to forget a thing that could not be undone: that stays in the journal with the
//! reason.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};

use super::journal::{Contents, Journal, Owed, Step, journals, owner_by_name};
use super::state_folder;
use crate::process_id::{boot_id, pid_namespace};
use crate::tool::running_for;
use crate::undo::{self, Circumstances, Undone};
use crate::{Member, ProcessId, Thing};

/// A thing that a dead process owes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Who made it; `None` where the journal does not say.
    pub owner: Option<ProcessId>,
    /// What is owed. For a journal that cannot be read, the journal itself.
    pub thing: Thing,
}

/// What became of a thing.
#[derive(Debug)]
pub enum Fate {
    /// It was there, and is no more.
    Undone,
    /// It had already gone, or somebody else's stands in its place.
    Gone,
    /// It could not be undone and stays in the journal.
    Kept(Error),
}

/// What was done about one thing.
#[derive(Debug)]
pub struct Outcome {
    /// Whose thing it was and what.
    pub found: Found,
    /// What became of it.
    pub fate: Fate,
}

/// Undoes everything that dead processes owe, by the journals in the state folder.
pub fn undo_dead() -> Result<Vec<Outcome>> {
    undo_dead_in(&state_folder()?)
}

/// The same for a given state folder.
pub fn undo_dead_in(state: &Path) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for path in journals(&state.join("undo"))? {
        // One bad journal must not keep the others from being worked off.
        match settle_journal(&path) {
            Ok(settled) => outcomes.extend(settled),
            Err(error) => outcomes.push(about_journal(&path, error)),
        }
    }
    Ok(outcomes)
}

/// What [`undo_dead`] would try to undo, in that order; changes nothing.
pub fn dead_things() -> Result<Vec<Found>> {
    dead_things_in(&state_folder()?)
}

/// The same for a given state folder.
pub fn dead_things_in(state: &Path) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for path in journals(&state.join("undo"))? {
        match open_dead(&path) {
            Ok(Some((_, contents))) => {
                let owner = contents.owner;
                found
                    .extend(contents.owed.into_values().rev().map(|owed| Found { owner, thing: owed.thing }));
            }
            Ok(None) => {}
            Err(error) => found.push(about_journal(&path, error).found),
        }
    }
    Ok(found)
}

/// The journal and what it says, if its owner is dead.
fn open_dead(path: &Path) -> Result<Option<(Journal, Contents)>> {
    let Some(mut journal) = seize_patiently(path)? else { return Ok(None) };
    let Some(contents) = journal.contents()? else {
        let what = format!("the undo journal {} was written by a later version of fathom", path.display());
        return Err(Error::new(Kind::Unsupported, what).advise("run the cleanup of that version"));
    };
    Ok((!owner_lives(path, &contents)?).then_some((journal, contents)))
}

/// How long the lock of a process that is gone may last.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// Takes the lock. A process that died while it started another one leaves its lock to the newborn until that runs its
/// own program; another cleanup has it until it is done.
fn seize_patiently(path: &Path) -> Result<Option<Journal>> {
    let start = Instant::now();
    loop {
        let seized = Journal::seize(path)?;
        let waits = path.exists() && !owner_by_name(path).is_some_and(ProcessId::lives);
        if seized.is_some() || !waits || start.elapsed() > LOCK_PATIENCE {
            return Ok(seized);
        }
        thread::sleep(PAUSE);
    }
}

/// Whether the process that the journal names still runs. A process of another boot does not; one of another
/// container cannot be looked up by number, and there the lock has already spoken.
fn owner_lives(path: &Path, contents: &Contents) -> Result<bool> {
    match contents.owner {
        Some(owner) => {
            let ours = contents.boot_id == boot_id()? && contents.pid_namespace == pid_namespace();
            Ok(ours && owner.lives())
        }
        None => Ok(owner_by_name(path).is_some_and(ProcessId::lives)),
    }
}

fn settle_journal(path: &Path) -> Result<Vec<Outcome>> {
    let Some((mut journal, contents)) = open_dead(path)? else { return Ok(Vec::new()) };
    journal.cut_torn_end()?;
    let same_boot = contents.boot_id == boot_id()?;
    if same_boot && contents.pid_namespace == pid_namespace() {
        let owner = contents.owner.or_else(|| owner_by_name(path));
        owner.map_or(Ok(()), await_tools)?;
    }
    let owner = contents.owner;
    let mut outcomes = Vec::new();
    let mut kept = Vec::new();
    for (id, owed) in contents.owed.into_iter().rev() {
        let fate = settle_one(&owed, same_boot, &kept);
        match &fate {
            Fate::Undone | Fate::Gone => journal.add(&Step::Undone { id })?,
            Fate::Kept(error) => {
                journal.add(&Step::Kept { id, reason: error.to_string() })?;
                kept.push(owed.thing.clone());
            }
        }
        outcomes.push(Outcome { found: Found { owner, thing: owed.thing }, fate });
    }
    if contents.unreadable > 0 {
        let what = format!("{} lines of {} make no sense", contents.unreadable, path.display());
        let advice = "look whether they name things still there, undo those, and delete the journal";
        outcomes.push(about_journal(path, Error::new(Kind::Malformed, what).advise(advice)));
    } else if kept.is_empty() {
        journal.remove()?;
    }
    Ok(outcomes)
}

/// How long a program that the dead process had started may take to end: it would make things behind our back.
const TOOL_PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

fn await_tools(owner: ProcessId) -> Result<()> {
    let start = Instant::now();
    let mut quiet = 0;
    // Seen twice: one that was just born shows whose it is only when it runs its own program.
    while quiet < 2 {
        match running_for(owner) {
            None => quiet += 1,
            Some(tool) if start.elapsed() > TOOL_PATIENCE => {
                let what =
                    format!("process {}, which process {} had started, still runs", tool.pid, owner.pid);
                let advice = "wait for it or end it, then run 'fathom cleanup'";
                return Err(Error::new(Kind::Busy, what).advise(advice));
            }
            Some(_) => quiet = 0,
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn settle_one(owed: &Owed, same_boot: bool, kept: &[Thing]) -> Fate {
    // A file must not be pulled from under a loop device that could not be detached.
    if let Some(user) = kept.iter().find(|user| stands_on(user, &owed.thing)) {
        return Fate::Kept(Error::new(Kind::Busy, format!("{} is in use by the {user}", owed.thing)));
    }
    let circumstances = Circumstances { same_boot, recorded_unix_ns: owed.at_unix_ns };
    match undo::undo(&owed.thing, circumstances) {
        Ok(Undone::Now) => Fate::Undone,
        Ok(Undone::Before) => Fate::Gone,
        Err(error) => Fate::Kept(error),
    }
}

fn stands_on(user: &Thing, base: &Thing) -> bool {
    let has = |members: &[Member], device: &Path| members.iter().any(|member| member.device() == device);
    match (user, base) {
        (Thing::Loop { backing, .. }, Thing::File { path, .. }) => backing == path,
        (
            Thing::MdArray { members, .. } | Thing::VolumeGroup { members, .. },
            Thing::Loop { device: Some(device), .. },
        ) => has(members, device),
        _ => false,
    }
}

fn about_journal(path: &Path, error: Error) -> Outcome {
    let found = Found { owner: owner_by_name(path), thing: Thing::file(PathBuf::from(path)) };
    Outcome { found, fate: Fate::Kept(error) }
}
