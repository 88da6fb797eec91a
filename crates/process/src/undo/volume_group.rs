//! LVM volume groups: removed with their volumes, then LVM's labels erased from the members.
//!
//! The group is known by a name that nobody else gives, and sought on its members alone, each still the loop device that was
//! recorded or a lent disk with our UUID in its label: LVM is shown no other device of the machine. It refuses to take a label
//! away that somebody's group has come to use since.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};

use super::{Undone, comes_true, patiently, stacked_on, still_ours};
use crate::{Member, Tool, lvm_tool};

pub(super) fn remove(name: &str, members: &[Member], same_boot: bool) -> Result<Undone> {
    let devices = still_ours(members, same_boot)?;
    if devices.is_empty() {
        return Ok(Undone::Before);
    }
    let mut undone = Undone::Before;
    patiently(|| {
        if reported("vgs", "vg_name", &devices)?.iter().any(|found| found == name) {
            lvm_tool("vgremove", &devices)?.args(["--force", "--yes", name]).run()?;
            undone = Undone::Now;
        }
        for volume in volumes_left(name, &devices)? {
            Tool::new("dmsetup", "dmsetup")?.args(["remove", "--retry", &volume]).run()?;
            undone = Undone::Now;
        }
        for line in reported("pvs", "pv_name,vg_name", &devices)? {
            // Without a group, or in ours, which could then not be removed in good order.
            let mut words = line.split_whitespace();
            if let (Some(device), None) = (words.next(), words.next().filter(|&group| group != name)) {
                lvm_tool("pvremove", &devices)?.args(["--force", "--force", "--yes", device]).run()?;
                undone = Undone::Now;
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

/// Columns of what LVM reports of `devices`, a line for each; nothing where LVM is not installed, since then there is nothing of it.
fn reported(command: &str, columns: &str, devices: &[PathBuf]) -> Result<Vec<String>> {
    let Ok(tool) = lvm_tool(command, devices) else { return Ok(Vec::new()) };
    let text = tool.args(["--noheadings", "-o", columns]).run()?;
    Ok(text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
}

/// Volumes of the group that the kernel still has though LVM does not know of them: a removal that was cut short.
fn volumes_left(name: &str, devices: &[PathBuf]) -> Result<Vec<String>> {
    // Device mapper doubles the dashes within a name and puts a single one between group and volume.
    let prefix = name.replace('-', "--") + "-";
    let names = stacked_on(devices)?
        .into_iter()
        .filter_map(|device| fs::read_to_string(Path::new("/sys/block").join(device).join("dm/name")).ok());
    Ok(names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with(&prefix)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_members_there_is_nothing_to_undo() {
        let gone = Member::Loop { device: "/dev/loop1048575".into(), backing: "/no/such/file".into() };
        let lent = Member::Disk { device: "/dev/no-such-disk".into(), mark: "00".into() };
        assert_eq!(remove("fathom-1-1-1", &[gone, lent], true).unwrap(), Undone::Before);
    }
}
