//! The kinds of things that a process makes on a machine and owes it to undo.

use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fathom_errors::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

use crate::ProcessId;

/// Which file it is, whatever stands at its path later. File systems give an inode number out again at once, so
/// the birth time belongs to it where the file system keeps one (ext4, XFS, btrfs and tmpfs do).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    device: u64,
    inode: u64,
    born_ns: Option<u64>,
}

impl Identity {
    /// From what the kernel says of an open file or a path.
    pub fn of(metadata: &Metadata) -> Identity {
        let born_ns = metadata.created().ok().map(unix_ns);
        Identity { device: metadata.dev(), inode: metadata.ino(), born_ns }
    }

    /// The identity of what stands at `path` now, not following a symbolic link.
    pub fn at(path: &Path) -> Result<Identity> {
        let metadata = fs::symlink_metadata(path).map_err(|e| Error::io("look at", path, e))?;
        Ok(Identity::of(&metadata))
    }

    /// Whether `found` is the file recorded here. Device numbers hold for one boot only; over a boot the birth
    /// time has to vouch for it.
    pub(crate) fn is(self, found: Identity, same_boot: bool) -> bool {
        let same_birth = self.born_ns == found.born_ns;
        let same_device = self.device == found.device || (!same_boot && self.born_ns.is_some());
        self.inode == found.inode && same_birth && same_device
    }
}

/// Nanoseconds since 1970; a time before that counts as 1970, one past the year 2554 as that.
pub(crate) fn unix_ns(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A disk that is part of something larger: whatever stands on it is ours only as long as it is the disk that was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Member {
    /// A loop device of ours, known by its file.
    Loop {
        /// `/dev/loopN`.
        device: PathBuf,
        /// The file that it stands on.
        backing: PathBuf,
    },
    /// A whole disk that is lent, known by what we put on it.
    Disk {
        /// Its node at the time.
        device: PathBuf,
        /// The UUID that was chosen for md's superblock, or for LVM's label, on it.
        mark: String,
    },
}

impl Member {
    /// Its node.
    pub fn device(&self) -> &Path {
        match self {
            Member::Loop { device, .. } | Member::Disk { device, .. } => device,
        }
    }
}

/// Something on the machine that is ours to undo. Paths are absolute and free of symbolic links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Thing {
    /// A regular file: unlinked, if it is still the one we made.
    File {
        /// Where it is.
        path: PathBuf,
        /// Which file it is; unknown until it is made.
        identity: Option<Identity>,
    },
    /// A folder: removed, if it is still the one we made and empty.
    Directory {
        /// Where it is.
        path: PathBuf,
        /// Which folder it is; unknown until it is made.
        identity: Option<Identity>,
    },
    /// A folder with all that is in it: removed whole, if it is still the one we made. Its name must be ours alone
    /// ([`crate::Ledger::unique_name`]), so that nobody else puts anything there.
    Tree {
        /// Where it is.
        path: PathBuf,
        /// Which folder it is; unknown until it is made.
        identity: Option<Identity>,
    },
    /// A loop device: detached, if it still stands on the recorded file.
    Loop {
        /// `/dev/loopN`; unknown until the kernel has chosen one.
        device: Option<PathBuf>,
        /// The file that it stands on.
        backing: PathBuf,
    },
    /// A mounted file system: unmounted, if what is mounted there is still from `source`.
    Mount {
        /// Where it is mounted.
        target: PathBuf,
        /// What is mounted, as `/proc/self/mountinfo` shows it.
        source: String,
        /// Its other devices, where it has several (btrfs): the kernel shows whichever it likes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<String>,
    },
    /// A software RAID array (md): stopped, and its members' superblocks erased, if it has this UUID and stands on
    /// these members.
    MdArray {
        /// 32 hexadecimal digits, chosen before it was made; dashes and colons do not count.
        uuid: String,
        /// What it was built from.
        members: Vec<Member>,
    },
    /// An LVM volume group with its volumes: removed, with the LVM labels of its members.
    VolumeGroup {
        /// Its name, which must be ours alone ([`crate::Ledger::unique_name`]).
        name: String,
        /// What it was built from.
        members: Vec<Member>,
    },
    /// What we wrote over a whole device that is not ours: its signatures are erased, if the file system on it still
    /// has this UUID.
    Format {
        /// The device.
        device: PathBuf,
        /// The UUID that we gave the file system.
        uuid: String,
    },
    /// A setting of the kernel below `/sys`: put back, if it still has the value that we gave it.
    Setting {
        /// The file.
        path: PathBuf,
        /// What it held before.
        previous: String,
        /// What we wrote; `None` where another setting of ours takes this one along, so that it is put back in any case.
        value: Option<String>,
    },
    /// A control group: its processes are moved to the parent, then it is removed.
    Cgroup {
        /// Its folder. The name must be ours alone ([`crate::Ledger::unique_name`]).
        path: PathBuf,
    },
    /// A process that we started: ended, if it is still the same one.
    Process(ProcessId),
}

impl Thing {
    /// A file that is about to be made.
    pub fn file(path: impl Into<PathBuf>) -> Thing {
        Thing::File { path: path.into(), identity: None }
    }

    /// A folder that is about to be made.
    pub fn directory(path: impl Into<PathBuf>) -> Thing {
        Thing::Directory { path: path.into(), identity: None }
    }

    /// A file system on one device that is about to be mounted.
    pub fn mount(target: impl Into<PathBuf>, source: impl Into<String>) -> Thing {
        Thing::Mount { target: target.into(), source: source.into(), others: Vec::new() }
    }

    /// The process that has `pid`. It cannot be recorded before it is made: its number is not known. Record it at
    /// once after the start.
    pub fn process(pid: u32) -> Result<Thing> {
        let gone = || Error::new(Kind::NotFound, format!("process {pid} does not run"));
        ProcessId::of(pid).map(Thing::Process).ok_or_else(gone)
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Thing::File { path, .. } => write!(f, "file {}", path.display()),
            Thing::Directory { path, .. } | Thing::Tree { path, .. } => {
                write!(f, "folder {}", path.display())
            }
            Thing::Loop { device: Some(device), backing } => {
                write!(f, "loop device {} on {}", device.display(), backing.display())
            }
            Thing::Loop { device: None, backing } => write!(f, "loop device on {}", backing.display()),
            Thing::Mount { target, source, .. } => write!(f, "mount of {source} at {}", target.display()),
            Thing::MdArray { uuid, .. } => write!(f, "md array {uuid}"),
            Thing::VolumeGroup { name, .. } => write!(f, "LVM volume group {name}"),
            Thing::Format { device, .. } => write!(f, "file system on {}", device.display()),
            Thing::Setting { path, previous, .. } => {
                write!(f, "setting {} (it was {previous})", path.display())
            }
            Thing::Cgroup { path } => write!(f, "cgroup {}", path.display()),
            Thing::Process(id) => write!(f, "process {}", id.pid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_made_again_at_the_same_path_is_another_one() {
        let first = Identity { device: 1, inode: 12, born_ns: Some(100) };
        assert!(first.is(first, true));
        assert!(!first.is(Identity { born_ns: Some(200), ..first }, true));
        assert!(!first.is(Identity { device: 2, ..first }, true));
        assert!(first.is(Identity { device: 2, ..first }, false));
        let without_birth = Identity { born_ns: None, ..first };
        assert!(!without_birth.is(Identity { device: 2, ..without_birth }, false));
    }

    #[test]
    fn things_survive_their_journal() {
        let things = [
            Thing::file("/a b"),
            Thing::Loop { device: None, backing: "/x".into() },
            Thing::mount("/m", "/dev/loop0"),
            Thing::MdArray {
                uuid: "0".repeat(32),
                members: vec![Member::Loop { device: "/dev/loop0".into(), backing: "/x".into() }],
            },
            Thing::VolumeGroup {
                name: "fathom-1-1-1".into(),
                members: vec![Member::Disk { device: "/dev/sdb".into(), mark: "1f2e".into() }],
            },
            Thing::Setting { path: "/sys/x".into(), previous: "none".into(), value: None },
            Thing::Process(ProcessId { pid: 1, start_time: 2 }),
        ];
        for thing in things {
            let text = serde_json::to_string(&thing).unwrap();
            assert_eq!(serde_json::from_str::<Thing>(&text).unwrap(), thing, "{text}");
        }
    }

    #[test]
    fn an_older_journal_is_understood() {
        let text = r#"{"kind":"mount","target":"/m","source":"/dev/loop0"}"#;
        assert_eq!(serde_json::from_str::<Thing>(text).unwrap(), Thing::mount("/m", "/dev/loop0"));
        let text = r#"{"kind":"md_array","uuid":"0","members":[{"device":"/dev/loop0","backing":"/x"}]}"#;
        let members = vec![Member::Loop { device: "/dev/loop0".into(), backing: "/x".into() }];
        assert_eq!(
            serde_json::from_str::<Thing>(text).unwrap(),
            Thing::MdArray { uuid: "0".into(), members }
        );
    }
}
