//! Software RAID arrays (md): stopped, then their superblocks erased from the members.
//!
//! The array is found by the members that it stands on, each still the loop device that was recorded or a lent disk with our
//! UUID in its superblock, and known by that UUID. It refuses to stop an array with another UUID, and to erase anything from a
//! device that is not ours any more.

use std::path::Path;

use fathom_errors::{Error, Kind, Result};

use super::{Undone, comes_true, patiently, stacked_on, still_ours};
use crate::{Member, Tool};

pub(super) fn dismantle(uuid: &str, members: &[Member], same_boot: bool) -> Result<Undone> {
    let devices = still_ours(members, same_boot)?;
    let mut undone = Undone::Before;
    // udev may put the array together again between its end and the erasing of its superblocks.
    patiently(|| {
        for array in stacked_on(&devices)?.iter().filter(|name| name.starts_with("md")) {
            stop(array, uuid)?;
            undone = Undone::Now;
        }
        for device in &devices {
            if superblock(device)?.is_some_and(|found| found == digits(uuid)) {
                mdadm()?.arg("--zero-superblock").arg(device).run()?;
                undone = Undone::Now;
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
    // One that was not finished has no UUID yet; that it stands on our members says whose it is.
    let detail = mdadm()?.args(["--detail", "--export"]).arg(&device).run().unwrap_or_default();
    if exported_uuid(&detail).is_some_and(|found| found != digits(uuid)) {
        let what = format!("{} stands on our devices and is another array than ours", device.display());
        return Err(Error::new(Kind::NotOurs, what).advise("stop it by hand, then run 'fathom cleanup'"));
    }
    mdadm()?.arg("--stop").arg(&device).run().map(drop)
}

/// The UUID in the superblock of a member; `None` where it has none. Where mdadm is missing, none was ever written.
fn superblock(device: &Path) -> Result<Option<String>> {
    let Ok(tool) = mdadm() else { return Ok(None) };
    // It fails where there is no superblock.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_the_same_however_it_is_written() {
        let text = "MD_LEVEL=raid0\nMD_UUID=0a1b2c3d:4e5f6071:8293a4b5:c6d7e8f9\nMD_NAME=any:x\n";
        let ours = "0A1B2C3D-4e5f-6071-8293-a4b5c6d7e8f9";
        assert_eq!(exported_uuid(text), Some(digits(ours)));
        assert_eq!(exported_uuid("MD_LEVEL=raid0\n"), None);
    }

    #[test]
    fn without_members_there_is_nothing_to_undo() {
        let gone = Member::Loop { device: "/dev/loop1048575".into(), backing: "/no/such/file".into() };
        let lent = Member::Disk { device: "/dev/no-such-disk".into(), mark: "00".into() };
        assert_eq!(dismantle("00", &[gone, lent], true).unwrap(), Undone::Before);
    }
}
