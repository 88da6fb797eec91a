//! The supported file systems and the arguments of each mkfs: quiet, overwriting, without deferred work, and aligned to the stripes of an array.
//!
//! Work that mkfs would defer to the kernel's idle time (inode tables, journal) is done at once, since it would disturb a
//! measurement. Blocks are not discarded, since that would undo a preallocation. The caller's arguments come last and
//! take precedence; a stripe that the caller gives is not given twice.

use std::fmt;
use std::path::{Path, PathBuf};

use fathom_units::Bytes;

/// The supported file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filesystem {
    Ext4,
    /// The file system that MongoDB's vendor advises for WiredTiger.
    Xfs,
    Btrfs,
}

impl Filesystem {
    /// All supported file systems.
    pub const ALL: [Filesystem; 3] = [Filesystem::Ext4, Filesystem::Xfs, Filesystem::Btrfs];

    /// The kernel's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Filesystem::Ext4 => "ext4",
            Filesystem::Xfs => "xfs",
            Filesystem::Btrfs => "btrfs",
        }
    }

    /// The Debian package with its mkfs.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Filesystem::Ext4 => "e2fsprogs",
            Filesystem::Xfs => "xfsprogs",
            Filesystem::Btrfs => "btrfs-progs",
        }
    }

    /// The minimum size that its mkfs accepts: mkfs.xfs(8) requires 300 MiB since xfsprogs 5.19, mkfs.btrfs(8) 109 MiB,
    /// and an ext4 below 8 MiB has hardly any space for its journal.
    pub fn least_size_mib(self) -> u64 {
        match self {
            Filesystem::Ext4 => 8,
            Filesystem::Xfs => 300,
            Filesystem::Btrfs => 109,
        }
    }

    /// The minimum size on an array: over stripes, mkfs.xfs divides a small volume into eight allocation groups, and
    /// one of them must hold a log of 64 MiB (tried with xfsprogs 6.1: 512 MiB are too few, 520 are enough).
    pub fn least_striped_size_mib(self) -> u64 {
        if self == Filesystem::Xfs { 520 } else { self.least_size_mib() }
    }
}

impl fmt::Display for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The distribution of writes over the disks of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stripe {
    /// The part of one disk before the next one follows (md's chunk, LVM's stripe size), in KiB.
    pub(crate) chunk_kib: u64,
    /// The number of disks that hold data; mirrors do not count.
    pub(crate) data_disks: u64,
}

/// The volume of a file system.
#[derive(Debug)]
pub(crate) struct Volume<'a> {
    /// The device, or the first of several that the file system joins itself (btrfs).
    pub(crate) device: &'a Path,
    /// The other devices that the file system joins.
    pub(crate) others: &'a [PathBuf],
    /// The capacity of all its devices together.
    pub(crate) size: Bytes,
    /// The folder of the mount point, unless the options name another.
    pub(crate) folder: &'a Path,
    /// The stripe of the array below.
    pub(crate) stripe: Option<Stripe>,
    /// The UUID that the file system gets; mkfs chooses one if absent.
    pub(crate) uuid: Option<&'a str>,
}

/// The block size of ext4 when stripes are counted in blocks, in bytes; its mkfs would choose 1024 on a small volume.
const EXT4_BLOCK: u64 = 4096;

/// The arguments of mkfs before the devices.
pub(crate) fn arguments(filesystem: Filesystem, volume: &Volume<'_>, told: &[String]) -> Vec<String> {
    let mut arguments = match filesystem {
        Filesystem::Ext4 => return ext4(volume, told),
        Filesystem::Xfs => words("-q -f -K"),
        Filesystem::Btrfs => words("-q -f -K"),
    };
    let stripe = volume.stripe.filter(|_| !tells(told, &["su=", "sunit=", "sw=", "swidth="]));
    if let (Filesystem::Xfs, Some(stripe)) = (filesystem, stripe) {
        // mkfs.xfs(8).
        arguments.push("-d".into());
        arguments.push(format!("su={}k,sw={}", stripe.chunk_kib, stripe.data_disks));
    }
    if filesystem == Filesystem::Btrfs && !volume.others.is_empty() {
        // By default mkfs would keep the metadata twice, which RAID0 by md or LVM does not do.
        arguments.extend(words("-d raid0 -m raid0"));
    }
    if let Some(uuid) = volume.uuid {
        let (option, value) = match filesystem {
            Filesystem::Xfs => ("-m", format!("uuid={uuid}")),
            _ => ("-U", uuid.to_owned()),
        };
        arguments.extend([option.to_owned(), value]);
    }
    arguments.extend(told.iter().cloned());
    arguments
}

/// mke2fs(8) heeds only the last `-E`, so all of them are joined into one.
fn ext4(volume: &Volume<'_>, told: &[String]) -> Vec<String> {
    let mut extended = vec!["nodiscard,lazy_itable_init=0,lazy_journal_init=0".to_owned()];
    let mut arguments = words("-q -F");
    let told_block = value_after(told, "-b").and_then(|value| value.parse().ok());
    if let Some(stripe) = volume.stripe.filter(|_| !tells(told, &["stride", "stripe"])) {
        let block = told_block.unwrap_or(EXT4_BLOCK).max(1);
        let stride = ((stripe.chunk_kib << 10) / block).max(1);
        extended.push(format!("stride={stride},stripe_width={}", stride * stripe.data_disks));
        if told_block.is_none() {
            arguments.extend(["-b".to_owned(), EXT4_BLOCK.to_string()]);
        }
    }
    if let Some(uuid) = volume.uuid {
        arguments.extend(["-U".to_owned(), uuid.to_owned()]);
    }
    let mut rest = told.iter();
    while let Some(word) = rest.next() {
        match word.strip_prefix("-E") {
            Some("") => extended.extend(rest.next().cloned()),
            Some(value) => extended.push(value.to_owned()),
            None => arguments.push(word.clone()),
        }
    }
    arguments.extend(["-E".to_owned(), extended.join(",")]);
    arguments
}

/// The value of an option, given in the same word or in the next one.
fn value_after<'a>(told: &'a [String], option: &str) -> Option<&'a str> {
    let place = told.iter().position(|word| word.starts_with(option))?;
    match told.get(place)?.strip_prefix(option)? {
        "" => told.get(place + 1).map(String::as_str),
        value => Some(value),
    }
}

/// Whether any word has a part that begins with one of `wanted`.
fn tells(told: &[String], wanted: &[&str]) -> bool {
    let mut parts = told.iter().flat_map(|word| word.split([',', ' ']));
    parts.any(|part| wanted.iter().any(|wanted| part.trim_start_matches("-d").starts_with(wanted)))
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRIPE: Stripe = Stripe { chunk_kib: 256, data_disks: 2 };

    fn call(filesystem: Filesystem, others: &[PathBuf], told: &[&str]) -> String {
        let volume = Volume {
            device: Path::new("/dev/md0"),
            others,
            size: Bytes::gib(1),
            folder: Path::new("/"),
            stripe: Some(STRIPE),
            uuid: Some("1f2e"),
        };
        let told: Vec<_> = told.iter().map(|word| (*word).to_owned()).collect();
        arguments(filesystem, &volume, &told).join(" ")
    }

    #[test]
    fn the_stripes_of_the_array_are_told_to_the_file_system() {
        let text = call(Filesystem::Xfs, &[], &[]);
        assert_eq!(text, "-q -f -K -d su=256k,sw=2 -m uuid=1f2e");
        let text = call(Filesystem::Ext4, &[], &[]);
        assert!(text.ends_with("lazy_journal_init=0,stride=64,stripe_width=128"), "{text}");
        assert!(text.contains("-b 4096"), "{text}");
        let text = call(Filesystem::Btrfs, &["/dev/loop1".into()], &[]);
        assert!(text.contains("-d raid0 -m raid0"), "{text}");
    }

    #[test]
    fn what_the_caller_says_wins() {
        let text = call(Filesystem::Xfs, &[], &["-d", "su=64k,sw=4"]);
        assert!(!text.contains("su=256k") && text.ends_with("-d su=64k,sw=4"), "{text}");
        let text = call(Filesystem::Ext4, &[], &["-E", "stride=16,stripe_width=32"]);
        assert!(!text.contains("stride=64") && text.contains(",stride=16,"), "{text}");
        assert_eq!(text.matches("-E").count(), 1, "only the last one counts: {text}");
        let text = call(Filesystem::Ext4, &[], &["-b1024", "-Enodiscard"]);
        assert!(text.contains("stride=256,stripe_width=512") && !text.contains("-b 4096"), "{text}");
    }
}
