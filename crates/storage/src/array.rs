//! Joins several disks into one: RAID0 and RAID10 by md, striped volumes by LVM, and btrfs, which joins them itself.
//!
//! Arrays are built on our own loop devices or on whole disks that are lent. Each part is recorded with its name and UUID, so that the array can
//! later be taken apart safely. Arrays that no kernel could build (one disk, a chunk that is not a power of two) are refused before anything is made.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_host::{DeviceNumber, View};
use fathom_process::{ComponentDisk, Guard, Ledger, Resource, Tool, lvm_tool};
use fathom_units::Bytes;

use crate::kernel;
use crate::mkfs::Stripe;

/// The software that joins the disks, and the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArrayKind {
    /// Striped by md, the kernel's software RAID.
    MdRaid0,
    /// Striped over mirrors by md, each block twice (layout `near`).
    MdRaid10,
    /// A striped volume of LVM, which device mapper serves.
    LvmStriped,
    /// Striped by the file system, data and metadata alike.
    BtrfsRaid0,
}

impl ArrayKind {
    /// Every one of them.
    pub const ALL: [ArrayKind; 4] =
        [ArrayKind::MdRaid0, ArrayKind::MdRaid10, ArrayKind::LvmStriped, ArrayKind::BtrfsRaid0];

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            ArrayKind::MdRaid0 => "md RAID0",
            ArrayKind::MdRaid10 => "md RAID10",
            ArrayKind::LvmStriped => "LVM striped",
            ArrayKind::BtrfsRaid0 => "btrfs raid0",
        }
    }

    /// Its default chunk in KiB: mdadm(8) `--chunk`, lvcreate(8) `--stripesize`, and btrfs' fixed `BTRFS_STRIPE_LEN`.
    pub fn default_chunk_kib(self) -> u64 {
        match self {
            ArrayKind::MdRaid0 | ArrayKind::MdRaid10 => 512,
            ArrayKind::LvmStriped | ArrayKind::BtrfsRaid0 => 64,
        }
    }
}

impl fmt::Display for ArrayKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An array of all the disks of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// The software that joins the disks, and the layout.
    pub kind: ArrayKind,
    /// The part of one disk before the next one follows, in KiB (md's chunk, LVM's stripe size); the default of the kind
    /// if absent.
    pub chunk_kib: Option<u64>,
}

/// The minimum chunk of md and stripe of LVM, in KiB: one page (md(4), lvcreate(8)).
const MIN_CHUNK_KIB: u64 = 4;
/// The maximum stripe of LVM is a physical extent, which we leave at its default of 4 MiB (vgcreate(8)); md would accept more.
const MAX_CHUNK_KIB: u64 = 4096;
/// The maximum that md's and LVM's own data take of each disk, at the sizes of a test disk: superblock, headroom and
/// the rest that does not fill an extent.
const MAX_OVERHEAD_BYTES: u64 = 8 << 20;

/// The name of the single LVM volume.
const LVM_VOLUME: &str = "data";

/// The groups into which LVM divides the 32 characters of a UUID; its `--uuid` requires them (pvcreate(8)).
const LVM_UUID_PARTS: [usize; 7] = [6, 4, 4, 4, 4, 4, 6];

impl Array {
    /// The chunk in use, in KiB.
    pub fn chunk_kib(&self) -> u64 {
        self.chunk_kib.unwrap_or(self.kind.default_chunk_kib())
    }

    /// The number of `disks` that hold data; mirrors do not count.
    fn data_disks(&self, disks: u32) -> u64 {
        u64::from(if self.kind == ArrayKind::MdRaid10 { disks / 2 } else { disks })
    }

    /// The stripe to which a file system on the array is aligned; btrfs arranges its own.
    pub(crate) fn stripe(&self, disks: u32) -> Option<Stripe> {
        let stripe = Stripe { chunk_kib: self.chunk_kib(), data_disks: self.data_disks(disks) };
        (self.kind != ArrayKind::BtrfsRaid0).then_some(stripe)
    }

    /// The minimum capacity of `disks` disks of `size`.
    pub(crate) fn least_capacity(&self, disks: u32, size: Bytes) -> Bytes {
        let overhead = if self.kind == ArrayKind::BtrfsRaid0 { 0 } else { MAX_OVERHEAD_BYTES };
        Bytes(size.0.saturating_sub(overhead).saturating_mul(self.data_disks(disks)))
    }

    /// Refuses an array that cannot be built of this number of disks on this machine.
    pub(crate) fn check(&self, disks: u32) -> Result<()> {
        if disks < 2 {
            let what = format!("{} needs two disks or more, and the target has one", self.kind);
            return Err(Error::usage(what));
        }
        if self.kind == ArrayKind::MdRaid10 && (disks < 4 || !disks.is_multiple_of(2)) {
            let what = format!("{} needs an even number of disks, 4 at least, and not {disks}", self.kind);
            return Err(Error::usage(what));
        }
        let chunk = self.chunk_kib();
        if self.kind == ArrayKind::BtrfsRaid0 && chunk != self.kind.default_chunk_kib() {
            return Err(Error::usage(format!("btrfs stripes by 64 KiB always, and cannot by {chunk} KiB")));
        }
        if !chunk.is_power_of_two() || !(MIN_CHUNK_KIB..=MAX_CHUNK_KIB).contains(&chunk) {
            let what = format!(
                "a chunk of {chunk} KiB is not a power of two from {MIN_CHUNK_KIB} to {MAX_CHUNK_KIB} KiB"
            );
            return Err(Error::usage(what));
        }
        match self.kind {
            ArrayKind::MdRaid0 | ArrayKind::MdRaid10 => {
                Tool::new("mdadm", "mdadm")?;
                let personality = self.personality();
                let has = kernel::runs_md(&View::live(), personality) || kernel::offers(personality);
                if has { Ok(()) } else { Err(kernel::lacks(self.kind.name(), personality)) }
            }
            ArrayKind::LvmStriped => {
                for tool in ["pvcreate", "vgcreate", "lvcreate", "vgs", "pvs", "vgremove", "pvremove"] {
                    Tool::new(tool, "lvm2")?;
                }
                Tool::new("dmsetup", "dmsetup")?;
                let has = kernel::runs_device_mapper(&View::live()) || kernel::offers("dm-mod");
                if has { Ok(()) } else { Err(kernel::lacks("device mapper", "dm-mod")) }
            }
            ArrayKind::BtrfsRaid0 => Ok(()),
        }
    }

    /// md's name for the kind, which is also the name of its kernel module.
    fn personality(&self) -> &'static str {
        if self.kind == ArrayKind::MdRaid10 { "raid10" } else { "raid0" }
    }

    /// Builds the array of `parts`; `None` for btrfs, which its mkfs joins.
    pub(crate) fn build(&self, ledger: &Ledger, parts: &[ArrayPart]) -> Result<Option<ArrayGuard>> {
        match self.kind {
            ArrayKind::MdRaid0 | ArrayKind::MdRaid10 => build_md(self, ledger, parts).map(Some),
            ArrayKind::LvmStriped => build_lvm(self, ledger, parts).map(Some),
            ArrayKind::BtrfsRaid0 => Ok(None),
        }
    }
}

/// A disk of a target, alone or as part of an array.
#[derive(Clone, Debug)]
pub(crate) struct ArrayPart {
    pub(crate) path: PathBuf,
    /// The kernel's name: `loop3`, `nvme0n1`.
    pub(crate) name: String,
    pub(crate) size: Bytes,
    /// The file of a loop device of ours; `None` for a lent disk.
    pub(crate) backing: Option<PathBuf>,
}

impl ArrayPart {
    /// The form in which the part is recorded with what is built on it: a lent disk by the UUID that it will get.
    fn member(&self, mark: &str) -> ComponentDisk {
        let device = self.path.clone();
        match self.backing.clone() {
            Some(backing) => ComponentDisk::Loop { device, backing },
            None => ComponentDisk::Disk { device, mark: mark.to_owned() },
        }
    }
}

/// An assembled array, which is taken apart when this is dropped. Drop it before its disks.
#[derive(Debug)]
pub(crate) struct ArrayGuard {
    guard: Guard,
    /// The kernel's name: `md127`, `dm-0`.
    pub(crate) name: String,
    /// The node to open.
    pub(crate) path: PathBuf,
    pub(crate) number: DeviceNumber,
    pub(crate) size: Bytes,
}

impl ArrayGuard {
    /// Reads the kernel's description of the device `name` that the array became.
    fn look(guard: Guard, name: String, path: PathBuf) -> Result<ArrayGuard> {
        let view = View::live();
        let folder = format!("sys/block/{name}");
        let number = view.required(&format!("{folder}/dev"))?.parse()?;
        // In sectors of 512 bytes, regardless of the device's own sector size (torvalds/linux:Documentation/ABI/stable/sysfs-block).
        let sectors = view.number(&format!("{folder}/size")).unwrap_or(0);
        if !path.exists() {
            let what = format!("the array is there, and its node {} is not", path.display());
            return Err(Error::new(Kind::NotFound, what).advise("a container needs /dev of its host"));
        }
        Ok(ArrayGuard { guard, name, path, number, size: Bytes(sectors * 512) })
    }

    /// Takes the array apart now and returns whether that worked.
    pub(crate) fn undo(self) -> Result<()> {
        self.guard.undo()
    }
}

/// The device on top of `part` whose name has this prefix.
fn holder(part: &ArrayPart, prefix: &str) -> Option<String> {
    let holders = Path::new("/sys/block").join(&part.name).join("holders");
    let entries = fs::read_dir(holders).ok()?.flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).find(|name| name.starts_with(prefix))
}

/// Builds an array by md, with mdadm(8). The UUID is chosen and recorded before the array exists, so that a later cleanup can tell it
/// from other arrays.
fn build_md(array: &Array, ledger: &Ledger, parts: &[ArrayPart]) -> Result<ArrayGuard> {
    if !kernel::runs_md(&View::live(), array.personality()) {
        kernel::load(array.personality())?;
    }
    let uuid = kernel::new_uuid()?;
    let members = parts.iter().map(|part| part.member(&uuid)).collect();
    let entry = ledger.will_make(Resource::MdArray { uuid: uuid.clone(), members })?;
    if let Err(error) = create_md(array, &uuid, &ledger.unique_name(), parts) {
        let _ = entry.undo();
        return Err(error);
    }
    let guard = entry.guard();
    let name = parts.first().and_then(|part| holder(part, "md"));
    let absent = || Error::new(Kind::Io, "mdadm built an array that the kernel does not show");
    let name = name.ok_or_else(absent)?;
    let path = Path::new("/dev").join(&name);
    ArrayGuard::look(guard, name, path)
}

fn create_md(array: &Array, uuid: &str, name: &str, parts: &[ArrayPart]) -> Result<()> {
    let mut tool = Tool::new("mdadm", "mdadm")?
        .args(["--create", &format!("/dev/md/{name}"), "--run", "--homehost=any", "--metadata=1.2"])
        .arg(format!("--level={}", array.personality()))
        .arg(format!("--chunk={}", array.chunk_kib()))
        .arg(format!("--raid-devices={}", parts.len()))
        .arg(format!("--uuid={uuid}"));
    if array.kind == ArrayKind::MdRaid10 {
        // New files read as zeros, so the mirrors agree already. On lent disks, blocks that were never written may differ, but they are
        // never read. A first synchronisation would disturb a measurement. A bitmap would cost writes that RAID0 does not have, to
        // speed up a resynchronisation that never comes.
        tool = tool.args(["--assume-clean", "--bitmap=none"]);
    }
    tool.args(parts.iter().map(|part| &part.path)).run().map(drop)
}

/// Builds a striped volume by LVM: one group of all disks, one volume over the whole group. LVM sees only the disks of the target
/// (`lvm_tool`). The volume is called `data`. Only Fathom gives the group such a name, by which a later cleanup recognises it; the label
/// on each disk is a UUID that was chosen before.
fn build_lvm(array: &Array, ledger: &Ledger, parts: &[ArrayPart]) -> Result<ArrayGuard> {
    if !kernel::runs_device_mapper(&View::live()) {
        kernel::load("dm-mod")?;
    }
    let group = ledger.unique_name();
    let labels = parts.iter().map(|_| label()).collect::<Result<Vec<String>>>()?;
    let members = parts.iter().zip(&labels).map(|(part, label)| part.member(label)).collect();
    let entry = ledger.will_make(Resource::VolumeGroup { name: group.clone(), members })?;
    if let Err(error) = create_lvm(array, &group, parts, &labels) {
        let _ = entry.undo();
        return Err(error);
    }
    let guard = entry.guard();
    let name = parts.first().and_then(|part| holder(part, "dm-"));
    let absent = || Error::new(Kind::Io, "LVM made a volume that the kernel does not show");
    let name = name.ok_or_else(absent)?;
    // Device mapper doubles the dashes within a name and puts a single one between group and volume.
    let path = Path::new("/dev/mapper").join(format!("{}-{LVM_VOLUME}", group.replace('-', "--")));
    ArrayGuard::look(guard, name, path)
}

/// A UUID in LVM's form.
fn label() -> Result<String> {
    let uuid = kernel::new_uuid()?;
    let mut digits = uuid.chars().filter(char::is_ascii_hexdigit);
    let parts = LVM_UUID_PARTS.map(|length| digits.by_ref().take(length).collect::<String>());
    Ok(parts.join("-"))
}

fn create_lvm(array: &Array, group: &str, parts: &[ArrayPart], labels: &[String]) -> Result<()> {
    let devices: Vec<PathBuf> = parts.iter().map(|part| part.path.clone()).collect();
    for (device, label) in devices.iter().zip(labels) {
        let tool = lvm_tool("pvcreate", &devices)?.args(["--yes", "--norestorefile", "--uuid", label]);
        tool.arg(device).run()?;
    }
    lvm_tool("vgcreate", &devices)?.args(["--yes", group]).args(&devices).run()?;
    lvm_tool("lvcreate", &devices)?
        .args(["--yes", "--extents", "100%FREE", "--name", LVM_VOLUME])
        .args(["--stripes", &parts.len().to_string()])
        .args(["--stripesize", &format!("{}k", array.chunk_kib())])
        .arg(group)
        .run()
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(kind: ArrayKind, chunk_kib: Option<u64>, disks: u32) -> String {
        Array { kind, chunk_kib }.check(disks).unwrap_err().what().to_owned()
    }

    #[test]
    fn what_no_kernel_could_build_is_refused() {
        assert!(refusal(ArrayKind::MdRaid0, None, 1).contains("two disks"));
        assert!(refusal(ArrayKind::MdRaid10, None, 3).contains("even number"));
        assert!(refusal(ArrayKind::MdRaid10, None, 2).contains("4 at least"));
        assert!(refusal(ArrayKind::LvmStriped, Some(100), 2).contains("power of two"));
        assert!(refusal(ArrayKind::MdRaid0, Some(2), 2).contains("power of two"));
        assert!(refusal(ArrayKind::BtrfsRaid0, Some(256), 2).contains("64 KiB always"));
        Array { kind: ArrayKind::BtrfsRaid0, chunk_kib: Some(64) }.check(2).unwrap();
    }

    #[test]
    fn mirrors_hold_no_data_of_their_own() {
        let array = Array { kind: ArrayKind::MdRaid10, chunk_kib: Some(256) };
        assert_eq!(array.stripe(4), Some(Stripe { chunk_kib: 256, data_disks: 2 }));
        assert_eq!(array.least_capacity(4, Bytes::mib(108)), Bytes::mib(200));
        let btrfs = Array { kind: ArrayKind::BtrfsRaid0, chunk_kib: None };
        assert_eq!(btrfs.stripe(2), None);
    }

    #[test]
    fn a_label_has_the_form_that_pvcreate_takes() {
        let label = label().unwrap();
        assert_eq!(label.split('-').map(str::len).collect::<Vec<_>>(), LVM_UUID_PARTS);
        assert_ne!(label, super::label().unwrap());
    }
}
