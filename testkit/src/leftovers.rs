//! Finds resources that a program made and did not remove, for the assertion that none is left.

use std::fs;
use std::path::Path;

use fathom_errors::Result;
use fathom_host::{Mounts, View};
use fathom_process::ProcessId;

/// Loop devices and mounts on anything below `folder`, everything in it named by our prefix, the journals below it, and
/// the cgroups that the process `pid` made; one line each. The list should be empty.
pub fn leftovers(folder: &Path, pid: Option<u32>) -> Result<Vec<String>> {
    let view = View::live();
    let mounts = Mounts::read(&view)?;
    let mut found = Vec::new();
    for name in view.list("sys/block") {
        let backing = view.value(&format!("sys/block/{name}/loop/backing_file")).unwrap_or_default();
        if Path::new(&backing).starts_with(folder) {
            found.push(format!("loop device {name} on {backing}"));
        }
    }
    for mount in mounts.iter() {
        if mount.mount_point.starts_with(folder) {
            found.push(format!("mount at {}", mount.mount_point.display()));
        }
        if let Some(pid) = pid.filter(|_| mount.fs_type.starts_with("cgroup")) {
            add_cgroups(&mount.mount_point, &format!("fathom-{pid}-"), &mut found);
        }
    }
    add_files(folder, &mut found);
    Ok(found)
}

/// The numbers of the processes that have `folder` on their command lines, without those that ended and were not waited for.
pub fn processes_naming(folder: &Path) -> Vec<u32> {
    let folder = folder.display().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        ProcessId::read(*pid).is_some() && String::from_utf8_lossy(&words).contains(&folder)
    })
    .collect()
}

fn add_cgroups(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(format!("cgroup {}", entry.path().display()));
        }
        add_cgroups(&entry.path(), prefix, found);
    }
}

fn add_files(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if name.starts_with("fathom-") || name.ends_with(".jsonl") {
            found.push(format!("file {}", path.display()));
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_files(&path, found);
        }
    }
}
