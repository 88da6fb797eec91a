//! Mounted file systems from `/proc/self/mountinfo` (proc(5); torvalds/linux:Documentation/filesystems/proc.rst).
//! [`crate::DeviceStack`] finds the devices under them.

use std::path::{Path, PathBuf};

use fathom_errors::Result;

use crate::{DeviceNumber, View};

/// File systems whose data are on a network or behind a process; those of FUSE (`fuse.sshfs`, `fuseblk`) come on top.
const REMOTE: [&str; 14] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "ceph",
    "glusterfs",
    "lustre",
    "afs",
    "9p",
    "virtiofs",
    "ocfs2",
    "gfs2",
    "beegfs",
];
/// File systems that keep their data in memory.
const IN_MEMORY: [&str; 4] = ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];

/// One mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The device number that `stat` gives for its files; anonymous (major 0) for btrfs, overlay and tmpfs.
    pub number: DeviceNumber,
    pub mount_point: PathBuf,
    /// Options of this mount (`noatime`, `ro`).
    pub options: Vec<String>,
    /// The type: `ext4`, `xfs`, `overlay`.
    pub fs_type: String,
    /// The mounted source, often `/dev/...`.
    pub source: String,
    /// Options of the file system itself (`nobarrier`, `sunit=512`).
    pub super_options: Vec<String>,
}

impl Mount {
    /// Returns whether either set of options has `name` or `name=...`.
    pub fn has_option(&self, name: &str) -> bool {
        self.option(name).is_some()
    }

    /// The value of an option: `""` for a bare one, `None` if it is not set.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().chain(&self.super_options).find_map(|option| {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            (key == name).then_some(value)
        })
    }

    /// Whether its data are on a network or behind a process. fuseblk is a local disk behind a process (ntfs-3g).
    pub fn is_remote(&self) -> bool {
        REMOTE.contains(&self.fs_type.as_str()) || self.fs_type.starts_with("fuse")
    }

    /// Whether its data are in memory.
    pub fn is_in_memory(&self) -> bool {
        IN_MEMORY.contains(&self.fs_type.as_str())
    }

    /// The directories that an overlay shows: the upper one, which receives all writes, or, if it is read-only, the lower ones.
    /// Empty for other file systems.
    pub(crate) fn overlaid(&self) -> Vec<&str> {
        if self.fs_type != "overlay" {
            return Vec::new();
        }
        if let Some(upper) = self.option("upperdir") {
            return vec![upper];
        }
        let lower = self.super_options.iter().filter_map(|option| match option.split_once('=')? {
            ("lowerdir" | "lowerdir+", paths) => Some(paths.split(':')),
            _ => None,
        });
        lower.flatten().collect()
    }
}

/// All mounts, in the order the kernel lists them.
#[derive(Clone, Debug, Default)]
pub struct Mounts(Vec<Mount>);

impl Mounts {
    pub fn read(view: &View) -> Result<Self> {
        Ok(Mounts::parse(&view.required("proc/self/mountinfo")?))
    }

    /// Parses mountinfo text; a line that does not follow the grammar is passed over.
    pub fn parse(text: &str) -> Self {
        Mounts(text.lines().filter_map(parse_line).collect())
    }

    /// The mount that holds `path` (absolute, no symbolic links): the longest mount point that is a prefix, the
    /// last of equals, since later mounts cover earlier ones.
    pub fn containing(&self, path: &Path) -> Option<&Mount> {
        self.0
            .iter()
            .filter(|mount| path.starts_with(&mount.mount_point))
            .max_by_key(|mount| mount.mount_point.components().count())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Mount> {
        self.0.iter()
    }
}

fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let number = left.next()?.parse().ok()?;
    let mount_point = PathBuf::from(unescape(left.nth(1)?));
    let options = split_options(left.next()?);
    let mut right = right.split(' ');
    let fs_type = right.next()?.to_owned();
    let source = unescape(right.next()?);
    let super_options = split_options(right.next().unwrap_or(""));
    Some(Mount { number, mount_point, options, fs_type, source, super_options })
}

fn split_options(text: &str) -> Vec<String> {
    text.split(',').filter(|option| !option.is_empty()).map(unescape).collect()
}

/// A name as the kernel writes it among the fields and options of a line.
pub(crate) fn escape(name: &str) -> String {
    let escaped = |c: char| match c {
        ' ' | '\t' | '\n' | '\\' | ',' => format!("\\{:03o}", u32::from(c)),
        _ => c.to_string(),
    };
    name.chars().map(escaped).collect()
}

/// Undoes the kernel's octal escapes for space, tab, newline and backslash, and in options for a comma.
pub(crate) fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while let Some(&byte) = bytes.get(i) {
        let octal = bytes
            .get(i + 1..i + 4)
            .filter(|_| byte == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(octal.unwrap_or(byte));
        i += if octal.is_some() { 4 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
36 22 9:0 / /data rw,noatime - xfs /dev/md0 rw,attr2,sunit=512,swidth=1024,noquota
37 36 0:45 / /data/with\\040space rw - tmpfs tmpfs rw,size=4k
nonsense
";

    #[test]
    fn the_longest_mount_point_wins() {
        let mounts = Mounts::parse(SAMPLE);
        let mount = mounts.containing(Path::new("/data/db/journal")).unwrap();
        assert_eq!(mount.fs_type, "xfs");
        assert_eq!(mount.option("sunit"), Some("512"));
        assert!(mount.has_option("noatime"));
        assert_eq!(mounts.containing(Path::new("/database")).unwrap().source, "/dev/sda1");
        assert_eq!(mounts.containing(Path::new("/data/with space/x")).unwrap().fs_type, "tmpfs");
        assert_eq!(mounts.iter().count(), 3);
    }

    #[test]
    fn names_are_escaped_as_the_kernel_does() {
        let name = "/my data, \\old\tü";
        assert_eq!(escape(name), "/my\\040data\\054\\040\\134old\\011ü");
        assert_eq!(unescape(&escape(name)), name);
        let line =
            "40 1 0:50 / /m rw - overlay overlay rw,lowerdir=/l,upperdir=/my\\040data\\054,workdir=/w\n";
        assert_eq!(Mounts::parse(line).iter().next().unwrap().overlaid(), ["/my data,"]);
        let line = "40 1 0:50 / /m ro - overlay overlay ro,lowerdir+=/a,lowerdir+=/b\n";
        assert_eq!(Mounts::parse(line).iter().next().unwrap().overlaid(), ["/a", "/b"]);
    }
}
