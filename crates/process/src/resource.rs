//! The kinds of resources that a process makes on a machine and must undo.

use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fathom_errors::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

use crate::ProcessId;

/// The identity of a file, independent of its path. File systems reuse inode numbers at once, so the birth time is part
/// of it if the file system keeps one (ext4, XFS, btrfs and tmpfs do).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    device: u64,
    inode: u64,
    born_ns: Option<u64>,
}

impl Identity {
    /// Makes an identity from the kernel's metadata of an open file or a path.
    pub fn from_metadata(metadata: &Metadata) -> Identity {
        let born_ns = metadata.created().ok().map(unix_ns);
        Identity { device: metadata.dev(), inode: metadata.ino(), born_ns }
    }

    /// The identity of the present entry at `path`, not following a symbolic link.
    pub fn at(path: &Path) -> Result<Identity> {
        let metadata = fs::symlink_metadata(path).map_err(|e| Error::io("look at", path, e))?;
        Ok(Identity::from_metadata(&metadata))
    }

    /// Returns whether `found` is the file recorded here. Device numbers are valid for one boot only; after a boot the
    /// birth time has to confirm it.
    pub(crate) fn is(self, found: Identity, same_boot: bool) -> bool {
        let same_birth = self.born_ns == found.born_ns;
        let same_device = self.device == found.device || (!same_boot && self.born_ns.is_some());
        self.inode == found.inode && same_birth && same_device
    }
}

/// Nanoseconds since 1970; an earlier time counts as 1970, and one past the year 2554 as 2554.
pub(crate) fn unix_ns(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A disk that is part of an array or group, which is ours only as long as this is the disk that was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ComponentDisk {
    /// A loop device of ours, known by its file.
    Loop {
        /// The device's node: `/dev/loopN`.
        device: PathBuf,
        /// The file behind the device.
        backing: PathBuf,
    },
    /// A whole disk lent for use, known by the mark that we wrote on it.
    Disk {
        /// Its node at the time.
        device: PathBuf,
        /// The UUID that was chosen for md's superblock, or for LVM's label, on it.
        mark: String,
    },
}

impl ComponentDisk {
    pub fn device(&self) -> &Path {
        match self {
            ComponentDisk::Loop { device, .. } | ComponentDisk::Disk { device, .. } => device,
        }
    }
}

/// A resource on the machine that this program must undo. Paths are absolute and free of symbolic links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Resource {
    /// A regular file: unlinked, if it is still the one we made.
    File {
        path: PathBuf,
        /// The file's identity; unknown until it is made.
        identity: Option<Identity>,
    },
    /// A folder: removed, if it is still the one we made and empty.
    Directory {
        path: PathBuf,
        /// Which folder it is; unknown until it is made.
        identity: Option<Identity>,
    },
    /// A folder with all that is in it: removed whole, if it is still the one we made. Its name must be ours alone
    /// ([`crate::Ledger::unique_name`]), so that no other program puts files there.
    Tree {
        path: PathBuf,
        /// Which folder it is; unknown until it is made.
        identity: Option<Identity>,
    },
    /// A loop device: detached, if it still has the recorded backing file.
    Loop {
        /// `/dev/loopN`; unknown until the kernel has chosen one.
        device: Option<PathBuf>,
        /// The file behind the device.
        backing: PathBuf,
    },
    /// A mounted file system: unmounted, if the mounted file system is still from `source`.
    Mount {
        target: PathBuf,
        /// The mounted source, as `/proc/self/mountinfo` shows it.
        source: String,
        /// Its other devices, if it has several (btrfs): the kernel shows any of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<String>,
    },
    /// A software RAID array (md): stopped, and its members' superblocks erased, if it has this UUID and consists of
    /// these members.
    MdArray {
        /// 32 hexadecimal digits, chosen before it was made; dashes and colons are ignored.
        uuid: String,
        /// The disks that it was built from.
        members: Vec<ComponentDisk>,
    },
    /// An LVM volume group with its volumes: removed, with the LVM labels of its members.
    VolumeGroup {
        /// Its name, which must be ours alone ([`crate::Ledger::unique_name`]).
        name: String,
        /// The disks that it was built from.
        members: Vec<ComponentDisk>,
    },
    /// A file system of ours on a whole device that is not ours: its signatures are erased, if the file system on it still
    /// has this UUID.
    Format {
        device: PathBuf,
        /// The UUID that we gave the file system.
        uuid: String,
    },
    /// A setting of the kernel below `/sys`: restored, if it still has the value that we wrote.
    Setting {
        path: PathBuf,
        /// The value before the change.
        previous: String,
        /// The value that we wrote; `None` if another setting of ours changes this one too, so that it is restored in any case.
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

impl Resource {
    /// A file that is about to be made.
    pub fn file(path: impl Into<PathBuf>) -> Resource {
        Resource::File { path: path.into(), identity: None }
    }

    /// A folder that is about to be made.
    pub fn directory(path: impl Into<PathBuf>) -> Resource {
        Resource::Directory { path: path.into(), identity: None }
    }

    /// A file system on one device that is about to be mounted.
    pub fn mount(target: impl Into<PathBuf>, source: impl Into<String>) -> Resource {
        Resource::Mount { target: target.into(), source: source.into(), others: Vec::new() }
    }

    /// The process that has `pid`. It cannot be recorded before it is made, since its number is not known. Record it
    /// right after the start.
    pub fn process(pid: u32) -> Result<Resource> {
        let gone = || Error::new(Kind::NotFound, format!("process {pid} does not run"));
        ProcessId::read(pid).map(Resource::Process).ok_or_else(gone)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::File { path, .. } => write!(f, "file {}", path.display()),
            Resource::Directory { path, .. } | Resource::Tree { path, .. } => {
                write!(f, "folder {}", path.display())
            }
            Resource::Loop { device: Some(device), backing } => {
                write!(f, "loop device {} on {}", device.display(), backing.display())
            }
            Resource::Loop { device: None, backing } => write!(f, "loop device on {}", backing.display()),
            Resource::Mount { target, source, .. } => write!(f, "mount of {source} at {}", target.display()),
            Resource::MdArray { uuid, .. } => write!(f, "md array {uuid}"),
            Resource::VolumeGroup { name, .. } => write!(f, "LVM volume group {name}"),
            Resource::Format { device, .. } => write!(f, "file system on {}", device.display()),
            Resource::Setting { path, previous, .. } => {
                write!(f, "setting {} (it was {previous})", path.display())
            }
            Resource::Cgroup { path } => write!(f, "cgroup {}", path.display()),
            Resource::Process(id) => write!(f, "process {}", id.pid),
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
            Resource::file("/a b"),
            Resource::Loop { device: None, backing: "/x".into() },
            Resource::mount("/m", "/dev/loop0"),
            Resource::MdArray {
                uuid: "0".repeat(32),
                members: vec![ComponentDisk::Loop { device: "/dev/loop0".into(), backing: "/x".into() }],
            },
            Resource::VolumeGroup {
                name: "fathom-1-1-1".into(),
                members: vec![ComponentDisk::Disk { device: "/dev/sdb".into(), mark: "1f2e".into() }],
            },
            Resource::Setting { path: "/sys/x".into(), previous: "none".into(), value: None },
            Resource::Process(ProcessId { pid: 1, start_time: 2 }),
        ];
        for thing in things {
            let text = serde_json::to_string(&thing).unwrap();
            assert_eq!(serde_json::from_str::<Resource>(&text).unwrap(), thing, "{text}");
        }
    }

    #[test]
    fn an_older_journal_is_understood() {
        let text = r#"{"kind":"mount","target":"/m","source":"/dev/loop0"}"#;
        assert_eq!(serde_json::from_str::<Resource>(text).unwrap(), Resource::mount("/m", "/dev/loop0"));
        let text = r#"{"kind":"md_array","uuid":"0","members":[{"device":"/dev/loop0","backing":"/x"}]}"#;
        let members = vec![ComponentDisk::Loop { device: "/dev/loop0".into(), backing: "/x".into() }];
        assert_eq!(
            serde_json::from_str::<Resource>(text).unwrap(),
            Resource::MdArray { uuid: "0".into(), members }
        );
    }
}
