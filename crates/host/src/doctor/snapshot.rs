//! Saves a host's files so that it can be judged elsewhere.
//!
//! The files of a snapshot follow from the table of rules, so no rule lacks its input. A snapshot may be given to
//! others, so names of people and hosts and secrets are left out: a server's environment is reduced to one variable,
//! its command line to its dbPath, mount options and the initiator's settings to those that rules read. It refuses to
//! write into a folder with other things in it.
//!
//! Rules name the files they read as patterns. `D` is the disk of each layer under the data, `PID` the running mongod, `NUMAD` a
//! running numad, `CGROUP` every folder from its control group (or ours, if no mongod runs) up to the root, `*` any one name. A
//! pattern that ends in `/` means the names in a folder, not their content: a snapshot keeps them as empty files, since links would
//! not survive.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use fathom_errors::{Error, Kind, Result};

use super::manifest::{MANIFEST, SCHEMA, SnapshotManifest};
use super::{Context, DoctorOptions, RULES, control, filesystem, memory, mongod};
use crate::View;

/// The maximum length of a saved file, far above any in `/proc` or `/sys` that a rule reads; a longer one is cut.
const MAX_FILE_BYTES: u64 = 256 << 10;
/// The maximum number of files; a host with more is refused as not understood.
const MAX_FILES: usize = 20_000;

/// The files that every snapshot has besides the rules' own: the block tree, mounts, and facts about the machine.
const BASE: &[&str] = &[
    "proc/cpuinfo",
    "proc/diskstats",
    "proc/loadavg",
    "proc/meminfo",
    "proc/stat",
    "proc/sys/kernel/osrelease",
    "proc/uptime",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "proc/pressure/cpu",
    "proc/pressure/io",
    "proc/PID/comm",
    "proc/PID/cmdline",
    "proc/PID/cgroup",
    "sys/block/*/dev",
    "sys/block/*/size",
    "sys/block/*/slaves/",
    "sys/block/*/dm/name",
    "sys/block/*/dm/uuid",
    "sys/block/*/md/level",
    "sys/block/D/*/dev",
    "sys/block/D/*/size",
    "sys/block/D/*/start",
    "sys/block/D/inflight",
    "sys/block/D/stat",
    "sys/block/D/device/model",
    "sys/block/D/device/rev",
    "sys/block/D/device/vendor",
    "sys/block/D/device/scsi_disk/*/cache_type",
    "sys/block/D/queue/*",
    "sys/class/dmi/id/product_name",
    "sys/class/dmi/id/sys_vendor",
    "sys/devices/system/cpu/",
    "sys/devices/system/cpu/online",
    "sys/hypervisor/type",
];

/// The files of this host that match `pattern`; they need not exist. A trailing `/` is kept.
fn expand(context: &Context, pattern: &str) -> Vec<String> {
    let (pattern, names_only) = pattern.strip_suffix('/').map_or((pattern, ""), |folder| (folder, "/"));
    let mut paths: Vec<String> = vec![String::new()];
    for part in pattern.split('/') {
        paths = paths.iter().flat_map(|path| step(context, path, part)).collect();
    }
    paths.into_iter().map(|path| path + names_only).collect()
}

fn step(context: &Context, path: &str, part: &str) -> Vec<String> {
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
    match part {
        "*" => context.view.list(path).iter().map(|name| join(name)).collect(),
        "D" => context.disks().map(|disk| join(&disk.name)).collect(),
        "PID" => context.mongod.iter().map(|mongod| join(&mongod.pid.to_string())).collect(),
        "NUMAD" => memory::numad_pid(&context.view).iter().map(|pid| join(pid)).collect(),
        "CGROUP" => control::all_folders(context),
        _ => vec![join(part)],
    }
}

/// The snapshot that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSize {
    pub files: usize,
    /// The bytes in these files.
    pub bytes: u64,
}

/// Saves what the rules read of this host into `into`, a new or empty folder, or an older snapshot of ours.
pub fn save(view: &View, options: &DoctorOptions, into: &Path) -> Result<SnapshotSize> {
    let context = Context::read(view, options)?;
    claim(into)?;
    let mut manifest = SnapshotManifest {
        schema: SCHEMA,
        complete: false,
        made_by: concat!("fathom ", env!("CARGO_PKG_VERSION")).to_owned(),
        kernel: context.kernel.to_string(),
        architecture: context.architecture.clone(),
        dir: context.dir.clone(),
        journal: Some(context.journal.clone()),
        device: context.mount.as_ref().map(|mount| mount.number.to_string()),
        mongodb: context.mongod.as_ref().and_then(|mongod| Some(mongod.version?.to_string())),
    };
    manifest.write(into)?;
    let mut saved = SnapshotSize { files: 1, bytes: 0 };
    for folder in ["proc", "sys"] {
        create_dir(&into.join(folder))?;
    }
    let patterns = BASE.iter().chain(RULES.iter().flat_map(|rule| rule.reads));
    let paths: BTreeSet<String> = patterns.flat_map(|pattern| expand(&context, pattern)).collect();
    if paths.len() > MAX_FILES {
        let what = format!("a snapshot of this host would need {} files", paths.len());
        return Err(
            Error::new(Kind::Unsupported, what).advise("unmount or unmap devices that are not in use")
        );
    }
    let (names, contents): (Vec<&String>, Vec<&String>) = paths.iter().partition(|path| path.ends_with('/'));
    for path in contents {
        if let Some(text) = content(&context, path) {
            write(&into.join(path), text.as_bytes(), &mut saved)?;
        }
    }
    // Names last: a name whose content was kept is a folder already.
    for folder in names {
        for name in context.view.list(folder) {
            let path = into.join(folder).join(name);
            if !path.exists() {
                write(&path, b"", &mut saved)?;
            }
        }
    }
    manifest.complete = true;
    manifest.write(into)?;
    Ok(saved)
}

/// Marks `into` as a snapshot, or refuses it.
fn claim(into: &Path) -> Result<()> {
    let entries = match fs::read_dir(into) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return create_dir(into),
        Err(e) => return Err(Error::io("save a snapshot into", into, e)),
    };
    if entries.take(1).next().is_none() {
        return Ok(());
    }
    let text = fs::read_to_string(into.join(MANIFEST)).unwrap_or_default();
    if serde_json::from_str::<SnapshotManifest>(&text).is_err() {
        let what = format!("{} has other things in it", into.display());
        return Err(Error::new(Kind::NotOurs, what).advise("name a new or empty folder"));
    }
    for folder in ["proc", "sys", "etc"] {
        let path = into.join(folder);
        let Ok(kind) = fs::symlink_metadata(&path) else { continue };
        if !kind.is_dir() {
            let what = format!("{} is not a folder, as a snapshot's is", path.display());
            return Err(Error::new(Kind::NotOurs, what).advise("name a new or empty folder"));
        }
        fs::remove_dir_all(&path).map_err(|e| Error::io("replace the older snapshot in", &path, e))?;
    }
    Ok(())
}

fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| Error::io("create", path, e))
}

fn write(path: &Path, bytes: &[u8], saved: &mut SnapshotSize) -> Result<()> {
    if let Some(folder) = path.parent() {
        create_dir(folder)?;
    }
    fs::write(path, bytes).map_err(|e| Error::io("write", path, e))?;
    saved.files += 1;
    saved.bytes += bytes.len() as u64;
    Ok(())
}

/// The contents of a file for a snapshot; `None` if it cannot be read.
fn content(context: &Context, path: &str) -> Option<String> {
    let view = &context.view;
    if path.ends_with("/numa_maps") {
        return view.first_line(path).map(|line| line + "\n");
    }
    let full = view.root().join(path);
    // A device node or a pipe behind a name would block or never end.
    if !full.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(full).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Some(match path {
        "proc/self/mountinfo" => {
            text.lines().map(|line| filesystem::public_line(line, &context.mounts) + "\n").collect()
        }
        // The first processor's entry is enough.
        "proc/cpuinfo" => text.split("\n\n").next().unwrap_or("").to_owned() + "\n",
        "etc/iscsi/iscsid.conf" => {
            let kept = |line: &&str| line.trim_start().starts_with("node.session.");
            let keys = ["nr_sessions", "cmds_max", "queue_depth"];
            let read = |line: &&str| keys.iter().any(|key| line.contains(key));
            text.lines().filter(kept).filter(read).map(|line| line.to_owned() + "\n").collect()
        }
        _ if path.starts_with("proc/") && path.ends_with("/environ") => match mongod::tunables_in(&text) {
            Some(value) => format!("GLIBC_TUNABLES={value}\0"),
            None => String::new(),
        },
        _ if path.starts_with("proc/") && path.ends_with("/cmdline") => {
            let db_path = context.mongod.as_ref().and_then(|mongod| mongod.db_path.clone());
            db_path
                .map_or_else(|| "mongod\0".to_owned(), |dir| format!("mongod\0--dbpath\0{}\0", dir.display()))
        }
        // The kind of device, without the identity after it.
        _ if path.ends_with("/dm/uuid") => text.split('-').next().unwrap_or("").trim().to_owned() + "-\n",
        _ => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("letter"), "dear").unwrap();
        let error =
            save(&View::live(), &DoctorOptions { dir: Some("/".into()), mongodb: None }, folder.path());
        assert_eq!(error.unwrap_err().kind(), Kind::NotOurs);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_snapshot_is_judged_as_the_host_is_and_can_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let options = DoctorOptions { dir: Some("/".into()), mongodb: None };
        for _ in 0..2 {
            let saved = save(&View::live(), &options, folder.path()).unwrap();
            assert!(saved.files > 20 && saved.bytes < 4 << 20, "{saved:?}");
        }
        let view = View::snapshot(folder.path()).unwrap();
        let judged = super::super::examine(&view, &DoctorOptions::default()).unwrap();
        let live = super::super::examine(&View::live(), &options).unwrap();
        assert_eq!(judged.findings, live.findings);
    }
}
