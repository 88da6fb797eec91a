//! Mounted file systems: unmounted where what is mounted is still what was recorded.
//!
//! A busy one is asked again for a while, then taken out of the name space at once and let go by the kernel with
//! its last user. It refuses to unmount what somebody else mounted over ours.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use rustix::mount::UnmountFlags;

use super::{Undone, patiently};

pub(super) fn unmount(target: &Path, source: &str, others: &[String]) -> Result<Undone> {
    let is_ours = |found: &str| {
        let mut sources = others.iter().map(String::as_str).chain([source]);
        sources.any(|source| found == escape(source.as_bytes(), IN_SOURCES))
    };
    match top_source(target)? {
        None => return Ok(Undone::Before),
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
    Ok(Undone::Now)
}

/// What is mounted at `target`, the uppermost of several, still escaped; `None` where it is no mount point.
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

/// What the kernel writes in octal in a mount point, and in a source (fs/proc_namespace.c, `mangle`).
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

    #[test]
    fn names_are_compared_as_the_kernel_writes_them() {
        let line = r"37 36 0:45 / /data/with\040space rw shared:3 - tmpfs my\134sour\043ce rw,size=4k";
        let (point, source) = fields(line).unwrap();
        assert_eq!(point, escape(b"/data/with space", IN_POINTS));
        assert_eq!(source, escape(b"my\\sour#ce", IN_SOURCES));
    }

    #[test]
    fn a_folder_that_is_no_mount_point_counts_as_undone() {
        assert_eq!(unmount(Path::new("/no/such/folder"), "tmpfs", &[]).unwrap(), Undone::Before);
    }
}
