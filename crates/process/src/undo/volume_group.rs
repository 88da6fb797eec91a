//! LVM volume groups: removed with their volumes, then LVM's labels erased from the members.
//!
//! The group is known by a name that nobody else gives, and sought on its members alone, each still the loop device that was
//! recorded: no other device of the machine is looked at.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};

use super::{Undone, comes_true, patiently, stacked_on, still_ours};
use crate::{Member, Tool, lvm_tool};

pub(super) fn remove(name: &str, members: &[Member]) -> Result<Undone> {
    let members = still_ours(members);
    let devices: Vec<PathBuf> = members.iter().map(|member| member.device.clone()).collect();
    if devices.is_empty() {
        return Ok(Undone::Before);
    }
    let mut undone = Undone::Before;
    patiently(|| {
        if reported("vgs", "vg_name", &devices)?.iter().any(|found| found == name) {
            lvm_tool("vgremove", &devices)?.args(["--force", "--yes", name]).run()?;
            undone = Undone::Now;
        }
        for volume in volumes_left(name, &members)? {
            Tool::new("dmsetup", "dmsetup")?.args(["remove", "--retry", &volume]).run()?;
            undone = Undone::Now;
        }
        for device in reported("pvs", "pv_name", &devices)? {
            lvm_tool("pvremove", &devices)?.args(["--force", "--force", "--yes", &device]).run()?;
            undone = Undone::Now;
        }
        Ok(())
    })?;
    if comes_true(|| stacked_on(&members).is_ok_and(|left| left.is_empty())) {
        return Ok(undone);
    }
    let what = format!("the LVM volume group {name} is still there");
    Err(Error::new(Kind::Busy, what).advise("end the programs that use it, then run 'fathom cleanup'"))
}

/// One column of what LVM reports of `devices`; nothing where LVM is not installed, since then there is nothing of it.
fn reported(command: &str, column: &str, devices: &[PathBuf]) -> Result<Vec<String>> {
    let Ok(tool) = lvm_tool(command, devices) else { return Ok(Vec::new()) };
    let text = tool.args(["--noheadings", "-o", column]).run()?;
    Ok(text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
}

/// Volumes of the group that the kernel still has though LVM does not know of them: a removal that was cut short.
fn volumes_left(name: &str, members: &[&Member]) -> Result<Vec<String>> {
    // Device mapper doubles the dashes within a name and puts a single one between group and volume.
    let prefix = name.replace('-', "--") + "-";
    let names = stacked_on(members)?
        .into_iter()
        .filter_map(|device| fs::read_to_string(Path::new("/sys/block").join(device).join("dm/name")).ok());
    Ok(names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with(&prefix)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_members_there_is_nothing_to_undo() {
        let gone = Member { device: "/dev/loop1048575".into(), backing: "/no/such/file".into() };
        assert_eq!(remove("fathom-1-1-1", &[gone]).unwrap(), Undone::Before);
    }
}
