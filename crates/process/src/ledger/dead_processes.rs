//! Undoes the resources that dead processes left behind, the last one made first.
//!
//! A journal counts as dead only when its lock is free and its process no longer runs. The resources of a living owner
//! are not touched. A resource that could not be undone stays in the journal with the reason.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};

use super::StateFolder;
use super::journal::{JournalContents, JournalStep, LedgerJournal, PendingResource, journals, owner_by_name};
use crate::process_id::{boot_id, pid_namespace};
use crate::tool::running_for;
use crate::undo::{self, UndoContext, UndoOutcome};
use crate::{ComponentDisk, ProcessId, Resource};

/// A resource that a dead process left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadEntry {
    /// The process that made it; `None` if the journal does not name it.
    pub owner: Option<ProcessId>,
    /// The resource to undo. For a journal that cannot be read, the journal itself.
    pub thing: Resource,
}

/// The outcome of undoing a resource.
#[derive(Debug)]
pub enum CleanupOutcome {
    /// It existed, and was undone.
    Undone,
    /// It no longer existed, or another resource had its name.
    Gone,
    /// It could not be undone and stays in the journal.
    Kept(Error),
}

/// The outcome for one resource.
#[derive(Debug)]
pub struct ResourceFate {
    /// The resource and its owner.
    pub found: DeadEntry,
    /// The result of undoing it.
    pub fate: CleanupOutcome,
}

/// Undoes all resources of dead processes, by the journals in the state folder and in its substitute.
pub fn undo_dead() -> Result<Vec<ResourceFate>> {
    let undone = StateFolder::all()?.into_iter().map(|state| undo_dead_in(&state));
    Ok(undone.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The same for a given state folder.
pub fn undo_dead_in(state: &Path) -> Result<Vec<ResourceFate>> {
    let mut outcomes = Vec::new();
    for path in journals(&state.join("undo"))? {
        // One bad journal must not prevent the processing of the others.
        match settle_journal(&path) {
            Ok(settled) => outcomes.extend(settled),
            Err(error) => outcomes.push(about_journal(&path, error)),
        }
    }
    Ok(outcomes)
}

/// The resources that [`undo_dead`] would undo, in that order; changes nothing.
pub fn dead_things() -> Result<Vec<DeadEntry>> {
    let found = StateFolder::all()?.into_iter().map(|state| dead_things_in(&state));
    Ok(found.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The same for a given state folder.
pub fn dead_things_in(state: &Path) -> Result<Vec<DeadEntry>> {
    let mut found = Vec::new();
    for path in journals(&state.join("undo"))? {
        match open_dead(&path) {
            Ok(Some((_, contents))) => {
                let owner = contents.owner;
                found.extend(
                    contents.owed.into_values().rev().map(|owed| DeadEntry { owner, thing: owed.thing }),
                );
            }
            Ok(None) => {}
            Err(error) => found.push(about_journal(&path, error).found),
        }
    }
    Ok(found)
}

/// The journal and its contents, if its owner is dead.
fn open_dead(path: &Path) -> Result<Option<(LedgerJournal, JournalContents)>> {
    let Some(mut journal) = seize_patiently(path)? else { return Ok(None) };
    let Some(contents) = journal.contents()? else {
        let what = format!("the undo journal {} was written by a later version of fathom", path.display());
        return Err(Error::new(Kind::Unsupported, what).advise("run the cleanup of that version"));
    };
    Ok((!owner_lives(path, &contents)?).then_some((journal, contents)))
}

/// The lock of a process that has ended may last this long.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Takes the lock. If a process died while it started a child, the child holds the lock until it runs its own program;
/// another cleanup holds it until it is done.
fn seize_patiently(path: &Path) -> Result<Option<LedgerJournal>> {
    let start = Instant::now();
    loop {
        let seized = LedgerJournal::seize(path)?;
        let waits = path.exists() && !owner_by_name(path).is_some_and(ProcessId::lives);
        if seized.is_some() || !waits || start.elapsed() > LOCK_TIMEOUT {
            return Ok(seized);
        }
        thread::sleep(PAUSE);
    }
}

/// Returns whether the process that the journal names still runs. A process of another boot does not; one of another
/// container cannot be looked up by number, and the free lock has already shown that it is dead.
fn owner_lives(path: &Path, contents: &JournalContents) -> Result<bool> {
    match contents.owner {
        Some(owner) => {
            let ours = contents.boot_id == boot_id()? && contents.pid_namespace == pid_namespace();
            Ok(ours && owner.lives())
        }
        None => Ok(owner_by_name(path).is_some_and(ProcessId::lives)),
    }
}

fn settle_journal(path: &Path) -> Result<Vec<ResourceFate>> {
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
            CleanupOutcome::Undone | CleanupOutcome::Gone => journal.add(&JournalStep::Undone { id })?,
            CleanupOutcome::Kept(error) => {
                journal.add(&JournalStep::Kept { id, reason: error.to_string() })?;
                kept.push(owed.thing.clone());
            }
        }
        outcomes.push(ResourceFate { found: DeadEntry { owner, thing: owed.thing }, fate });
    }
    if contents.unreadable > 0 {
        let what = format!("{} lines of {} cannot be read", contents.unreadable, path.display());
        let advice = "look whether they name things still there, undo those, and delete the journal";
        outcomes.push(about_journal(path, Error::new(Kind::Malformed, what).advise(advice)));
    } else if kept.is_empty() {
        journal.remove()?;
    }
    Ok(outcomes)
}

/// The time limit for a program that the dead process had started to end: until then it may create more resources.
const TOOL_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(10);

fn await_tools(owner: ProcessId) -> Result<()> {
    let start = Instant::now();
    let mut quiet = 0;
    // Checked twice: a child that was just created shows its owner only when it runs its own program.
    while quiet < 2 {
        match running_for(owner) {
            None => quiet += 1,
            Some(tool) if start.elapsed() > TOOL_TIMEOUT => {
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

fn settle_one(owed: &PendingResource, same_boot: bool, kept: &[Resource]) -> CleanupOutcome {
    // A file must not be removed while a loop device on it could not be detached.
    if let Some(user) = kept.iter().find(|user| stands_on(user, &owed.thing)) {
        return CleanupOutcome::Kept(Error::new(
            Kind::Busy,
            format!("{} is in use by the {user}", owed.thing),
        ));
    }
    let circumstances = UndoContext { same_boot, recorded_unix_ns: owed.at_unix_ns };
    match undo::undo(&owed.thing, circumstances) {
        Ok(UndoOutcome::Now) => CleanupOutcome::Undone,
        Ok(UndoOutcome::Before) => CleanupOutcome::Gone,
        Err(error) => CleanupOutcome::Kept(error),
    }
}

fn stands_on(user: &Resource, base: &Resource) -> bool {
    let has =
        |members: &[ComponentDisk], device: &Path| members.iter().any(|member| member.device() == device);
    match (user, base) {
        (Resource::Loop { backing, .. }, Resource::File { path, .. }) => backing == path,
        (
            Resource::MdArray { members, .. } | Resource::VolumeGroup { members, .. },
            Resource::Loop { device: Some(device), .. },
        ) => has(members, device),
        _ => false,
    }
}

fn about_journal(path: &Path, error: Error) -> ResourceFate {
    let found = DeadEntry { owner: owner_by_name(path), thing: Resource::file(PathBuf::from(path)) };
    ResourceFate { found, fate: CleanupOutcome::Kept(error) }
}
