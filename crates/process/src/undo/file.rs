//! Removes files and folders and unmounts file systems, only if they are the same ones that were made.
//!
//! A process that died between making and identifying leaves a record without identity. Then only an empty file or
//! folder that is not older than the record is removed: a process identifies a file before it writes the first byte. A
//! folder that is not empty is never removed.
//!
//! Unmounting a busy file system is retried for a while; then it is detached lazily, and the kernel releases it after
//! its last user. A file system that another program mounted over ours is never unmounted.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use fathom_errors::{Error, Kind, Result};
use rustix::mount::UnmountFlags;

use super::{UndoContext, UndoOutcome, patiently};
use crate::Identity;
use crate::resource::unix_ns;

/// File times come from a clock that lags a few milliseconds behind the one read here; one second covers any lag.
const CLOCK_SLACK_NS: u64 = 1_000_000_000;

pub(super) fn unlink(
    path: &Path,
    identity: Option<Identity>,
    circumstances: UndoContext,
) -> Result<UndoOutcome> {
    let Some(found) = look(path)? else { return Ok(UndoOutcome::Before) };
    match identity {
        Some(identity)
            if found.is_file() && identity.is(Identity::from_metadata(&found), circumstances.same_boot) => {}
        Some(_) => return Ok(UndoOutcome::Before),
        None if found.is_file() && found.len() == 0 && is_young(&found, circumstances) => {}
        None => return Err(unknown(path, "file")),
    }
    gone_is_fine(fs::remove_file(path)).map_err(|e| Error::io("remove", path, e))
}

/// Returns whether a folder is the recorded one; `None` if it no longer exists.
fn ours(path: &Path, identity: Option<Identity>, known: UndoContext) -> Result<bool> {
    let Some(found) = look(path)? else { return Ok(false) };
    match identity {
        Some(identity) => Ok(found.is_dir() && identity.is(Identity::from_metadata(&found), known.same_boot)),
        None if found.is_dir() && is_young(&found, known) => Ok(true),
        None => Err(unknown(path, "folder")),
    }
}

/// Removes a folder with all that is in it. One that was never identified is removed only if it is empty.
pub(super) fn remove_tree(
    path: &Path,
    identity: Option<Identity>,
    known: UndoContext,
) -> Result<UndoOutcome> {
    if identity.is_none() {
        return remove_folder(path, identity, known);
    }
    if !ours(path, identity, known)? {
        return Ok(UndoOutcome::Before);
    }
    gone_is_fine(fs::remove_dir_all(path)).map_err(|e| Error::io("remove", path, e))
}

pub(super) fn remove_folder(
    path: &Path,
    identity: Option<Identity>,
    known: UndoContext,
) -> Result<UndoOutcome> {
    if !ours(path, identity, known)? {
        return Ok(UndoOutcome::Before);
    }
    gone_is_fine(fs::remove_dir(path)).map_err(|e| {
        let not_empty = e.kind() == io::ErrorKind::DirectoryNotEmpty;
        let error = Error::io("remove", path, e);
        if not_empty { error.with_kind(Kind::NotOurs).advise("move what is in it elsewhere") } else { error }
    })
}

/// The entry at `path`; `None` if there is none.
fn look(path: &Path) -> Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(e) if is_gone(&e) => Ok(None),
        Err(e) => Err(Error::io("look at", path, e)),
    }
}

fn gone_is_fine(result: io::Result<()>) -> io::Result<UndoOutcome> {
    match result {
        Ok(()) => Ok(UndoOutcome::Now),
        Err(e) if is_gone(&e) => Ok(UndoOutcome::Before),
        Err(e) => Err(e),
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn is_young(found: &Metadata, circumstances: UndoContext) -> bool {
    let born = found.created().or_else(|_| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    unix_ns(born).saturating_add(CLOCK_SLACK_NS) >= circumstances.recorded_unix_ns
}

fn unknown(path: &Path, kind: &str) -> Error {
    let what = format!("the {kind} {} may not be the one that was recorded", path.display());
    Error::new(Kind::NotOurs, what).advise("look at it and remove it by hand")
}

pub(super) fn unmount(target: &Path, source: &str, others: &[String]) -> Result<UndoOutcome> {
    let is_ours = |found: &str| {
        let mut sources = others.iter().map(String::as_str).chain([source]);
        sources.any(|source| found == escape(source.as_bytes(), IN_SOURCES))
    };
    match top_source(target)? {
        None => return Ok(UndoOutcome::Before),
        Some(found) if !is_ours(&found) => {
            let what = format!("{} is covered by a mount of {found}", target.display());
            return Err(Error::new(Kind::NotOurs, what).advise("unmount that first"));
        }
        Some(_) => {}
    }
    let attempt = |flags| rustix::mount::unmount(target, flags).map_err(|e| Error::io("unmount", target, e));
    match patiently(|| attempt(UnmountFlags::empty())) {
        Err(error) if error.kind() == Kind::Busy => attempt(UnmountFlags::DETACH)?,
        result => result?,
    }
    Ok(UndoOutcome::Now)
}

/// The mounted source at `target`, the uppermost of several, still escaped; `None` if it is not a mount point.
fn top_source(target: &Path) -> Result<Option<String>> {
    let path = "/proc/self/mountinfo";
    let bytes = fs::read(path).map_err(|e| Error::io("read", path, e))?;
    let text = String::from_utf8_lossy(&bytes);
    let wanted = escape(target.as_os_str().as_bytes(), IN_POINTS);
    Ok(text
        .lines()
        .filter_map(fields)
        .rfind(|(point, _)| *point == wanted)
        .map(|(_, source)| source.to_owned()))
}

/// Mount point and source of a mountinfo line (proc_pid_mountinfo(5)): field 5, and the second after the dash.
fn fields(line: &str) -> Option<(&str, &str)> {
    let (left, right) = line.split_once(" - ")?;
    Some((left.split(' ').nth(4)?, right.split(' ').nth(1)?))
}

/// The characters that the kernel writes in octal in a mount point, and in a source (fs/proc_namespace.c, `mangle`).
const IN_POINTS: &[u8] = b" \t\n\\";
const IN_SOURCES: &[u8] = b" \t\n\\#";

/// A name as mountinfo writes it.
fn escape(name: &[u8], special: &[u8]) -> String {
    let mut out = Vec::with_capacity(name.len());
    for &byte in name {
        if special.contains(&byte) {
            out.extend(format!("\\{byte:03o}").into_bytes());
        } else {
            out.push(byte);
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UndoContext = UndoContext { same_boot: true, recorded_unix_ns: 1 };
    const LATER: UndoContext = UndoContext { same_boot: true, recorded_unix_ns: u64::MAX };

    #[test]
    fn without_identity_only_a_young_and_empty_file_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "data").unwrap();
        assert_eq!(unlink(&path, None, NOW).unwrap_err().kind(), Kind::NotOurs);
        fs::write(&path, "").unwrap();
        assert_eq!(unlink(&path, None, LATER).unwrap_err().kind(), Kind::NotOurs);
        assert_eq!(unlink(&path, None, NOW).unwrap(), UndoOutcome::Now);
        assert_eq!(unlink(&path, None, NOW).unwrap(), UndoOutcome::Before);
    }

    #[test]
    fn another_file_in_its_place_survives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "ours").unwrap();
        let identity = Identity::at(&path).unwrap();
        fs::write(folder.path().join("g"), "theirs").unwrap();
        fs::rename(folder.path().join("g"), &path).unwrap();
        assert_eq!(unlink(&path, Some(identity), NOW).unwrap(), UndoOutcome::Before);
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn a_tree_goes_whole_if_it_is_the_one_that_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::write(path.join("a/b/c"), "data").unwrap();
        let identity = Identity::at(&path).unwrap();
        assert_eq!(
            remove_tree(&path, None, NOW).unwrap_err().kind(),
            Kind::NotOurs,
            "not identified, not empty"
        );
        let other = Identity::at(&path.join("a")).unwrap();
        assert_eq!(remove_tree(&path, Some(other), NOW).unwrap(), UndoOutcome::Before);
        assert_eq!(remove_tree(&path, Some(identity), NOW).unwrap(), UndoOutcome::Now);
        assert_eq!(remove_tree(&path, Some(identity), NOW).unwrap(), UndoOutcome::Before);
    }

    #[test]
    fn a_folder_with_something_in_it_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d");
        fs::create_dir(&path).unwrap();
        let identity = Identity::at(&path).unwrap();
        fs::write(path.join("x"), "").unwrap();
        assert_eq!(remove_folder(&path, Some(identity), NOW).unwrap_err().kind(), Kind::NotOurs);
        fs::remove_file(path.join("x")).unwrap();
        assert_eq!(remove_folder(&path, Some(identity), NOW).unwrap(), UndoOutcome::Now);
    }

    #[test]
    fn names_are_compared_as_the_kernel_writes_them() {
        let line = r"37 36 0:45 / /data/with\040space rw shared:3 - tmpfs my\134sour\043ce rw,size=4k";
        let (point, source) = fields(line).unwrap();
        assert_eq!(point, escape(b"/data/with space", IN_POINTS));
        assert_eq!(source, escape(b"my\\sour#ce", IN_SOURCES));
    }

    #[test]
    fn a_folder_that_is_no_mount_point_counts_as_undone() {
        assert_eq!(unmount(Path::new("/no/such/folder"), "tmpfs", &[]).unwrap(), UndoOutcome::Before);
    }
}
