//! The journal file of a ledger: one JSON line per step, durable before the step is taken.
//!
//! A journal belongs to one process, which locks it for its lifetime (flock(2)), so that its death is visible even from
//! another container. A line that was being written when the machine died has no newline and is skipped: its resource
//! was not made yet. Lines are never changed, only added.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::process_id::{boot_id, pid_namespace};
use crate::{ProcessId, Resource};

/// The version of the format; a journal of a later version is left to a later program.
const VERSION: u32 = 1;
/// The end of a journal's name.
const SUFFIX: &str = ".jsonl";

/// A function called before and after each change of a journal on disk, where a test may end the process.
pub type JournalObserver = fn();

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub(super) enum JournalStep {
    /// The first line: the owner of this journal.
    Owner { version: u32, owner: ProcessId, boot_id: String, pid_namespace: String },
    /// The resource is about to be made.
    Will { id: u64, at_unix_ns: u64, thing: Resource },
    /// It was made, with these details.
    Made { id: u64, thing: Resource },
    /// It need not be undone any more.
    Undone { id: u64 },
    /// It could not be undone.
    Kept { id: u64, reason: String },
}

/// A resource that must still be undone.
#[derive(Debug)]
pub(super) struct PendingResource {
    pub(super) thing: Resource,
    pub(super) at_unix_ns: u64,
}

/// The contents of a journal's lines.
#[derive(Debug, Default)]
pub(super) struct JournalContents {
    pub(super) owner: Option<ProcessId>,
    pub(super) boot_id: String,
    pub(super) pid_namespace: String,
    /// Resources still to undo, in the order in which they were made.
    pub(super) owed: BTreeMap<u64, PendingResource>,
    /// The length of the complete lines in bytes; a torn line may follow.
    whole_bytes: u64,
    /// Complete lines that cannot be parsed: of another program, or from a damaged disk.
    pub(super) unreadable: usize,
}

impl JournalContents {
    /// Reads the text of a journal; `None` if a later version of this program wrote it.
    pub(super) fn parse(bytes: &[u8]) -> Option<JournalContents> {
        let mut contents = JournalContents::default();
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            // After a power cut some file systems show the lost end of a file as zeros.
            let Some(text) = line.strip_suffix(b"\n").filter(|text| !text.contains(&0)) else { break };
            contents.whole_bytes += line.len() as u64;
            match serde_json::from_slice(text) {
                Ok(JournalStep::Owner { version, .. }) if version > VERSION => return None,
                Ok(step) => contents.apply(step),
                Err(_) => contents.unreadable += 1,
            }
        }
        Some(contents)
    }

    fn apply(&mut self, step: JournalStep) {
        match step {
            JournalStep::Owner { owner, boot_id, pid_namespace, .. } => {
                self.owner = Some(owner);
                self.boot_id = boot_id;
                self.pid_namespace = pid_namespace;
            }
            JournalStep::Will { id, at_unix_ns, thing } => {
                self.owed.insert(id, PendingResource { thing, at_unix_ns });
            }
            JournalStep::Made { id, thing } => {
                if let Some(owed) = self.owed.get_mut(&id) {
                    owed.thing = thing;
                }
            }
            JournalStep::Undone { id } => {
                self.owed.remove(&id);
            }
            JournalStep::Kept { .. } => {}
        }
    }
}

/// An open, locked journal.
#[derive(Debug)]
pub(super) struct LedgerJournal {
    path: PathBuf,
    file: File,
    observer: JournalObserver,
    /// The length of the complete lines; the remains of a failed write are truncated to this length.
    whole_bytes: u64,
}

impl LedgerJournal {
    /// Starts a journal for this process in `folder`.
    pub(super) fn create(
        folder: &Path,
        owner: ProcessId,
        observer: JournalObserver,
    ) -> Result<LedgerJournal> {
        observer();
        fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e).advise(STATE_ADVICE))?;
        let (path, file) = create_locked(folder, owner)?;
        let mut journal = LedgerJournal { path, file, observer, whole_bytes: 0 };
        let boot_id = boot_id()?;
        journal.add(&JournalStep::Owner {
            version: VERSION,
            owner,
            boot_id,
            pid_namespace: pid_namespace(),
        })?;
        sync_folder(folder)?;
        Ok(journal)
    }

    /// Opens another process's journal and locks it: `None` while another process holds it, or if it was removed.
    pub(super) fn seize(path: &Path) -> Result<Option<LedgerJournal>> {
        let file = match OpenOptions::new().read(true).append(true).open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open undo journal", path, e)),
        };
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        // Any other error comes from a file system without locks (some network ones), for which the process number decides.
        if locked == Err(rustix::io::Errno::WOULDBLOCK) {
            return Ok(None);
        }
        Ok(is_linked(&file).then(|| LedgerJournal {
            path: path.to_owned(),
            file,
            observer: || {},
            whole_bytes: 0,
        }))
    }

    /// The contents; `None` for a journal of a later version.
    pub(super) fn contents(&mut self) -> Result<Option<JournalContents>> {
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes).map_err(|e| Error::io("read", &self.path, e))?;
        let contents = JournalContents::parse(&bytes);
        self.whole_bytes = contents.as_ref().map_or(0, |contents| contents.whole_bytes);
        Ok(contents)
    }

    /// Truncates after the last complete line, so that the next line starts separately.
    pub(super) fn cut_torn_end(&mut self) -> Result<()> {
        self.file.set_len(self.whole_bytes).map_err(|e| Error::io("shorten", &self.path, e))
    }

    /// Adds a line and waits until it is durable.
    pub(super) fn add(&mut self, step: &JournalStep) -> Result<()> {
        let mut line = serde_json::to_vec(step).map_err(|e| {
            let what = format!("cannot record a path in {}", self.path.display());
            Error::new(Kind::Usage, what).because(e).advise("use a path that is valid UTF-8")
        })?;
        line.push(b'\n');
        (self.observer)();
        if let Err(e) = self.file.write_all(&line).and_then(|()| self.file.sync_data()) {
            // Half a line must not swallow the next one. If this fails too, the file cannot be written at all.
            let _ = self.cut_torn_end();
            return Err(Error::io("write undo journal", &self.path, e).advise(STATE_ADVICE));
        }
        self.whole_bytes += line.len() as u64;
        (self.observer)();
        Ok(())
    }

    /// Deletes the journal when no resource is left to undo.
    pub(super) fn remove(self) -> Result<()> {
        (self.observer)();
        fs::remove_file(&self.path).map_err(|e| Error::io("remove", &self.path, e))?;
        (self.observer)();
        Ok(())
    }
}

/// The advice for a state folder that cannot be written.
const STATE_ADVICE: &str = "set FATHOM_STATE to a folder that can be written";

/// Creates a journal with an unused name. Between its creation and its lock a cleanup may take it for an abandoned one,
/// so this is checked afterwards.
fn create_locked(folder: &Path, owner: ProcessId) -> Result<(PathBuf, File)> {
    for attempt in 0..1000_u32 {
        let again = if attempt == 0 { String::new() } else { format!("-{attempt}") };
        let path = folder.join(format!("{}-{}{again}{SUFFIX}", owner.pid, owner.start_time));
        // Append only, so that a line is never written over another; readable by its owner alone.
        let opened = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(Error::io("create undo journal", &path, e).advise(STATE_ADVICE)),
        };
        let _ = flock(&file, FlockOperation::LockExclusive);
        if is_linked(&file) {
            return Ok((path, file));
        }
    }
    let what = format!("no free name for an undo journal in {}", folder.display());
    Err(Error::new(Kind::Busy, what).advise("run 'fathom cleanup'"))
}

fn is_linked(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}

/// Makes a new name in `folder` survive a power cut.
fn sync_folder(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|e| Error::io("sync", folder, e))
}

/// Every journal in `folder`, by name; an empty list if the folder does not exist.
pub(super) fn journals(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("list", folder, e)),
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = paths.filter(|path| path.to_string_lossy().ends_with(SUFFIX)).collect();
    paths.sort();
    Ok(paths)
}

/// The owner by a journal's name, for a journal whose first line is torn.
pub(super) fn owner_by_name(path: &Path) -> Option<ProcessId> {
    let mut parts = path.file_stem()?.to_str()?.split('-');
    Some(ProcessId { pid: parts.next()?.parse().ok()?, start_time: parts.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_last_line_and_zeros_are_passed_over() {
        let whole =
            br#"{"step":"will","id":1,"at_unix_ns":5,"thing":{"kind":"file","path":"/a","identity":null}}"#;
        for tail in [&b"{\"step\":\"wi"[..], &[0_u8; 40][..], b""] {
            let bytes = [&whole[..], b"\n", tail].concat();
            let contents = JournalContents::parse(&bytes).unwrap();
            assert_eq!(contents.owed.len(), 1);
            assert_eq!(contents.unreadable, 0);
            assert_eq!(contents.whole_bytes, whole.len() as u64 + 1);
        }
    }

    #[test]
    fn a_whole_line_without_sense_is_counted_and_a_later_version_is_left_alone() {
        assert_eq!(JournalContents::parse(b"{\"step\":\"dance\"}\n").unwrap().unreadable, 1);
        let later = br#"{"step":"owner","version":2,"owner":{"pid":1,"start_time":1},"boot_id":"","pid_namespace":""}"#;
        assert!(JournalContents::parse(&[&later[..], b"\n"].concat()).is_none());
    }
}
