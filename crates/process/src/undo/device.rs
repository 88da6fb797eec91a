//! Undoes block devices: detaches loop devices, takes arrays and volume groups apart, and erases our marks on whole
//! disks.
//!
//! Each is touched only if it is still the recorded one. A loop device belongs to its backing file; `losetup` (util-linux, on
//! every Debian) detaches it instead of our own ioctl: the few calls in a run are cheap, and this crate stays free of unsafe
//! code. A lent disk has a UUID that we chose, and is recognised by it under its present name; a disk without that mark or with
//! another belongs to another user now, whatever its name. Names and sizes are never used to guess.
//!
//! Arrays (md) and LVM's volume groups are sought on their members alone, an array by its UUID, a group by a name that
//! no other program gives: LVM is shown no other device of the machine. An array is stopped, then its superblocks are erased
//! from the members; a group is removed with its volumes, then LVM's labels are erased. An array with another UUID is
//! not stopped, and a label that another group has come to use since is not removed.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};

use super::{UndoOutcome, comes_true, patiently};
use crate::{ComponentDisk, Tool, lvm_tool, signatures};

/// The kernel's suffix to the name of a backing file that was unlinked.
const DELETED: &str = " (deleted)";

pub(super) fn detach_loop(device: Option<&Path>, backing: &Path) -> Result<UndoOutcome> {
    let mut undone = UndoOutcome::Before;
    for found in devices_on(backing)? {
        // Another device may use the same file; if ours is known, the other one must not be detached.
        if device.is_none_or(|device| device == found) {
            detach_one(&found, backing)?;
            undone = UndoOutcome::Now;
        }
    }
    Ok(undone)
}

fn detach_one(device: &Path, backing: &Path) -> Result<()> {
    if let Err(error) = Tool::new("losetup", "mount")?.arg("--detach").arg(device).run() {
        return if stands_on(device, backing) { Err(error) } else { Ok(()) };
    }
    // The kernel records the request for a device in use, and detaches it after its last user. A program that scans
    // every device ends soon; with any other user the device need not be undone any more.
    if comes_true(|| !stands_on(device, backing)) || goes_by_itself(device) {
        return Ok(());
    }
    let what = format!("{} is still in use and could not be detached", device.display());
    Err(Error::new(Kind::Busy, what).advise("end the programs that use it, then run 'fathom cleanup'"))
}

/// Every loop device whose backing file is `backing`.
fn devices_on(backing: &Path) -> Result<Vec<PathBuf>> {
    let folder = "/sys/block";
    let entries = fs::read_dir(folder).map_err(|e| Error::io("list", folder, e))?;
    let names = entries.flatten().map(|entry| Path::new("/dev").join(entry.file_name()));
    Ok(names.filter(|device| stands_on(device, backing)).collect())
}

/// Returns whether that file backs the loop device now.
pub(super) fn stands_on(device: &Path, backing: &Path) -> bool {
    let found = attribute(device, "backing_file").unwrap_or_default();
    let found = found.strip_suffix('\n').unwrap_or(&found);
    Path::new(found.strip_suffix(DELETED).unwrap_or(found)) == backing
}

fn goes_by_itself(device: &Path) -> bool {
    attribute(device, "autoclear").is_some_and(|value| value.trim() == "1")
}

fn attribute(device: &Path, name: &str) -> Option<String> {
    let folder = Path::new("/sys/block").join(device.file_name()?);
    fs::read_to_string(folder.join("loop").join(name)).ok()
}

pub(super) fn dismantle_array(uuid: &str, members: &[ComponentDisk], same_boot: bool) -> Result<UndoOutcome> {
    let devices = still_ours(members, same_boot)?;
    let mut undone = UndoOutcome::Before;
    // udev may reassemble the array between its stop and the erasing of its superblocks.
    patiently(|| {
        for array in stacked_on(&devices)?.iter().filter(|name| name.starts_with("md")) {
            stop(array, uuid)?;
            undone = UndoOutcome::Now;
        }
        for device in &devices {
            if superblock(device)?.is_some_and(|found| found == digits(uuid)) {
                mdadm()?.arg("--zero-superblock").arg(device).run()?;
                undone = UndoOutcome::Now;
            }
        }
        Ok(())
    })?;
    if comes_true(|| stacked_on(&devices).is_ok_and(|left| left.is_empty())) {
        return Ok(undone);
    }
    let what = format!("the md array {uuid} is still there");
    Err(Error::new(Kind::Busy, what).advise("end the programs that use it, then run 'fathom cleanup'"))
}

fn mdadm() -> Result<Tool> {
    Tool::new("mdadm", "mdadm")
}

fn stop(name: &str, uuid: &str) -> Result<()> {
    let device = Path::new("/dev").join(name);
    // An array that was not finished has no UUID yet; our members show that it is ours.
    let detail = mdadm()?.args(["--detail", "--export"]).arg(&device).run().unwrap_or_default();
    if exported_uuid(&detail).is_some_and(|found| found != digits(uuid)) {
        let what = format!("{} is on our devices and is another array than ours", device.display());
        return Err(Error::new(Kind::NotOurs, what).advise("stop it by hand, then run 'fathom cleanup'"));
    }
    mdadm()?.arg("--stop").arg(&device).run().map(drop)
}

/// The UUID in the superblock of a member; `None` if it has none. Without mdadm no superblock was ever written.
fn superblock(device: &Path) -> Result<Option<String>> {
    let Ok(tool) = mdadm() else { return Ok(None) };
    // It fails without a superblock.
    Ok(tool.args(["--examine", "--export"]).arg(device).run().ok().and_then(|text| exported_uuid(&text)))
}

/// The value of `MD_UUID=`, digits alone.
fn exported_uuid(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix("MD_UUID=")).map(digits)
}

/// mdadm puts colons where others put dashes.
fn digits(uuid: &str) -> String {
    uuid.chars().filter(char::is_ascii_hexdigit).map(|digit| digit.to_ascii_lowercase()).collect()
}

pub(super) fn remove_volume_group(
    name: &str,
    members: &[ComponentDisk],
    same_boot: bool,
) -> Result<UndoOutcome> {
    let devices = still_ours(members, same_boot)?;
    if devices.is_empty() {
        return Ok(UndoOutcome::Before);
    }
    let mut undone = UndoOutcome::Before;
    patiently(|| {
        if reported("vgs", "vg_name", &devices)?.iter().any(|found| found == name) {
            lvm_tool("vgremove", &devices)?.args(["--force", "--yes", name]).run()?;
            undone = UndoOutcome::Now;
        }
        for volume in volumes_left(name, &devices)? {
            Tool::new("dmsetup", "dmsetup")?.args(["remove", "--retry", &volume]).run()?;
            undone = UndoOutcome::Now;
        }
        for line in reported("pvs", "pv_name,vg_name", &devices)? {
            // Without a group, or in ours, which could then not be removed normally.
            let mut words = line.split_whitespace();
            if let (Some(device), None) = (words.next(), words.next().filter(|&group| group != name)) {
                lvm_tool("pvremove", &devices)?.args(["--force", "--force", "--yes", device]).run()?;
                undone = UndoOutcome::Now;
            }
        }
        Ok(())
    })?;
    if comes_true(|| volumes_left(name, &devices).is_ok_and(|left| left.is_empty())) {
        return Ok(undone);
    }
    let what = format!("the LVM volume group {name} is still there");
    Err(Error::new(Kind::Busy, what).advise("end the programs that use it, then run 'fathom cleanup'"))
}

/// Columns of LVM's report on `devices`, a line for each; empty if LVM is not installed, since then there are no volumes.
fn reported(command: &str, columns: &str, devices: &[PathBuf]) -> Result<Vec<String>> {
    let Ok(tool) = lvm_tool(command, devices) else { return Ok(Vec::new()) };
    let text = tool.args(["--noheadings", "-o", columns]).run()?;
    Ok(text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
}

/// Volumes of the group that the kernel still has although LVM does not know them, after an interrupted removal.
fn volumes_left(name: &str, devices: &[PathBuf]) -> Result<Vec<String>> {
    // Device mapper doubles the dashes within a name and puts a single one between group and volume.
    let prefix = name.replace('-', "--") + "-";
    let names = stacked_on(devices)?
        .into_iter()
        .filter_map(|device| fs::read_to_string(Path::new("/sys/block").join(device).join("dm/name")).ok());
    Ok(names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with(&prefix)).collect())
}

pub(super) fn erase_format(device: &Path, uuid: &str, same_boot: bool) -> Result<UndoOutcome> {
    let mut undone = UndoOutcome::Before;
    // More than one if btrfs joined several disks.
    for device in bearers(device, uuid, same_boot)? {
        patiently(|| Tool::new("wipefs", "util-linux")?.arg("--all").arg(&device).run())?;
        if !signatures(&device)?.is_empty() {
            let what = format!("the file system on {} could not be erased", device.display());
            return Err(Error::new(Kind::Busy, what).advise("look with wipefs who writes to it"));
        }
        undone = UndoOutcome::Now;
    }
    Ok(undone)
}

/// `device`, if it has `mark`. Names change with each boot, so after one all disks of the machine are read.
pub(super) fn bearers(device: &Path, mark: &str, same_boot: bool) -> Result<Vec<PathBuf>> {
    if device.exists() && bears(device, mark)? {
        return Ok(vec![device.to_owned()]);
    }
    if same_boot {
        return Ok(Vec::new());
    }
    let folder = "/sys/block";
    let entries = fs::read_dir(folder).map_err(|e| Error::io("list", folder, e))?;
    let disks = entries.flatten().map(|entry| Path::new("/dev").join(entry.file_name()));
    // A drive without a medium cannot be read, and has no mark of ours.
    Ok(disks.filter(|disk| disk != device && bears(disk, mark).unwrap_or(false)).collect())
}

fn bears(device: &Path, mark: &str) -> Result<bool> {
    let found = signatures(device)?;
    Ok(found.iter().filter_map(|signature| signature.uuid.as_deref()).any(|uuid| is_same(uuid, mark)))
}

/// Returns whether two UUIDs are equal; programs place dashes and colons differently.
fn is_same(one: &str, other: &str) -> bool {
    let digits = |text: &str| -> Vec<char> {
        text.chars().filter(char::is_ascii_alphanumeric).map(|digit| digit.to_ascii_lowercase()).collect()
    };
    digits(one) == digits(other)
}

/// The nodes of those members that are still as recorded: loop devices on their files, lent disks with our mark.
fn still_ours(members: &[ComponentDisk], same_boot: bool) -> Result<Vec<PathBuf>> {
    let mut devices = Vec::new();
    for member in members {
        match member {
            ComponentDisk::Loop { device, backing } if stands_on(device, backing) => {
                devices.push(device.clone());
            }
            ComponentDisk::Loop { .. } => {}
            ComponentDisk::Disk { device, mark } => devices.extend(bearers(device, mark, same_boot)?),
        }
    }
    // After a boot the disks of an md array are looked up by the one UUID that all have.
    devices.sort_unstable();
    devices.dedup();
    Ok(devices)
}

/// The kernel's name of a device: `loop3` for `/dev/loop3`.
fn kernel_name(device: &Path) -> String {
    device.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The devices of `/sys/block` that are stacked on any of `devices`, by the kernel's name.
fn stacked_on(devices: &[PathBuf]) -> Result<Vec<String>> {
    let folder = "/sys/block";
    let entries = fs::read_dir(folder).map_err(|e| Error::io("list", folder, e))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names
        .filter(|name| {
            let slaves = Path::new(folder).join(name).join("slaves");
            devices.iter().any(|device| slaves.join(kernel_name(device)).exists())
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use fathom_testkit::{Need, OrSkip, test};

    use super::*;
    use crate::Tool;

    #[test]
    fn a_uuid_is_the_same_however_it_is_written() {
        let text = "MD_LEVEL=raid0\nMD_UUID=0a1b2c3d:4e5f6071:8293a4b5:c6d7e8f9\nMD_NAME=any:x\n";
        let ours = "0A1B2C3D-4e5f-6071-8293-a4b5c6d7e8f9";
        assert_eq!(exported_uuid(text), Some(digits(ours)));
        assert_eq!(exported_uuid("MD_LEVEL=raid0\n"), None);
    }

    #[test]
    fn an_array_without_members_is_undone_already() {
        let gone = ComponentDisk::Loop { device: "/dev/loop1048575".into(), backing: "/no/such/file".into() };
        let lent = ComponentDisk::Disk { device: "/dev/no-such-disk".into(), mark: "00".into() };
        assert_eq!(dismantle_array("00", &[gone, lent], true).unwrap(), UndoOutcome::Before);
    }

    #[test]
    fn a_group_without_members_is_undone_already() {
        let gone = ComponentDisk::Loop { device: "/dev/loop1048575".into(), backing: "/no/such/file".into() };
        let lent = ComponentDisk::Disk { device: "/dev/no-such-disk".into(), mark: "00".into() };
        assert_eq!(remove_volume_group("fathom-1-1-1", &[gone, lent], true).unwrap(), UndoOutcome::Before);
    }

    #[test]
    fn a_device_that_holds_something_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![0_u8; 1 << 20]).unwrap();
        assert_eq!(erase_format(&path, "1f2e", true).unwrap(), UndoOutcome::Before);
        assert_eq!(erase_format(Path::new("/no/such/device"), "1f2e", true).unwrap(), UndoOutcome::Before);
    }

    #[test]
    fn a_disk_is_known_by_its_mark_and_by_nothing_else() {
        let ours = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
        assert!(is_same("0A1B2C3D:4e5f6071:8293a4b5:c6d7e8f9", ours) && !is_same("0a1b2c3d", ours));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        fs::write(&path, vec![0_u8; 1 << 20]).unwrap();
        assert_eq!(bearers(&path, ours, true).unwrap(), Vec::<PathBuf>::new());
        let tool = Tool::new("mkfs.ext4", "e2fsprogs").or_skip(Need::Program);
        tool.args(["-q", "-F", "-U", ours]).arg(&path).run().unwrap();
        assert_eq!(bearers(&path, ours, true).unwrap(), std::slice::from_ref(&path));
        assert_eq!(bearers(&path, "1f2e", true).unwrap(), Vec::<PathBuf>::new());
        assert_eq!(bearers(Path::new("/no/such/device"), ours, true).unwrap(), Vec::<PathBuf>::new());
    }
}
