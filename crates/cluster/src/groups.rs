//! Control groups that limit a server's resources: processors, memory, and I/O on the disk of its data (cgroups(7),
//! torvalds/linux:Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/).
//!
//! A controller belongs to the tree of one version at a time, so the machine decides between the two. A server joins before its
//! first instruction. A limit that the machine cannot enforce is refused as a whole, never applied in part.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_host::cgroup::Cgroups;
use fathom_host::{BlockTree, DeviceNumber, DeviceStack, Mounts, View};
use fathom_process::{Guard, Ledger, Resource};
use fathom_units::Bytes;

use crate::topology::Limits;

/// The period of the processor's quota, in microseconds (the kernel's default).
const PERIOD_US: u64 = 100_000;

/// A limit in the form of one version of the interface: the controller, the file, the text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ControllerSetting {
    controller: &'static str,
    file: String,
    text: String,
}

/// Created groups, which are removed when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct ControlGroups {
    guards: Vec<Guard>,
    pub(crate) folders: Vec<PathBuf>,
}

impl ControlGroups {
    /// Keeps the groups when the value is dropped.
    pub(crate) fn let_go(self) -> Result<()> {
        self.guards.into_iter().try_for_each(Guard::keep)
    }
}

/// Creates the groups for a server with its data at `db_path`, which may not exist yet.
pub(crate) fn make(ledger: &Ledger, limits: &Limits, db_path: Option<&Path>) -> Result<ControlGroups> {
    let mut groups = ControlGroups::default();
    if limits.is_empty() {
        return Ok(groups);
    }
    let view = View::live();
    let devices = if has_io(limits) { disks_of(&view, db_path)? } else { Vec::new() };
    let unified = unified_parent(&view, limits)?;
    let settings = match &unified {
        Some(_) => version_2(limits, &devices)?,
        None => version_1(limits, &devices)?,
    };
    let name = ledger.unique_name();
    for setting in &settings {
        let parent = match &unified {
            Some(parent) => parent.clone(),
            None => version_1_parent(&view, setting.controller)?,
        };
        let folder = parent.join(&name);
        if !groups.folders.contains(&folder) {
            let entry = ledger.will_make(Resource::Cgroup { path: folder.clone() })?;
            if let Err(cause) = fs::create_dir(&folder) {
                entry.undone()?;
                return Err(advise(Error::io("create the control group", &folder, cause)));
            }
            groups.guards.push(entry.guard());
            groups.folders.push(folder.clone());
        }
        let file = folder.join(&setting.file);
        fs::write(&file, &setting.text)
            .map_err(|cause| advise(Error::io("set the limit in", &file, cause)))?;
    }
    Ok(groups)
}

/// Removes groups whose processes have ended.
pub(crate) fn remove(ledger: &Ledger, folders: &[PathBuf]) -> Result<()> {
    for path in folders.iter().filter(|path| path.exists()) {
        ledger.will_make(Resource::Cgroup { path: path.clone() })?.undo()?;
    }
    Ok(())
}

fn has_io(limits: &Limits) -> bool {
    let Limits { cpus: _, memory: _, read_iops, write_iops, read_bandwidth, write_bandwidth } = limits;
    read_iops.is_some() || write_iops.is_some() || read_bandwidth.is_some() || write_bandwidth.is_some()
}

/// The I/O limits with their names in version 1 and in version 2.
fn io(limits: &Limits) -> Result<Vec<(u64, &'static str, &'static str)>> {
    let bytes =
        |text: &Option<String>| text.as_ref().map(|text| text.parse::<Bytes>().map(Bytes::get)).transpose();
    let all = [
        (limits.read_iops, "read_iops", "riops"),
        (limits.write_iops, "write_iops", "wiops"),
        (bytes(&limits.read_bandwidth)?, "read_bps", "rbps"),
        (bytes(&limits.write_bandwidth)?, "write_bps", "wbps"),
    ];
    Ok(all.into_iter().filter_map(|(limit, one, two)| Some((limit?, one, two))).collect())
}

/// The quota of a period, in microseconds.
fn quota_us(cpus: f64) -> u64 {
    (cpus * PERIOD_US as f64).round() as u64
}

fn version_2(limits: &Limits, devices: &[DeviceNumber]) -> Result<Vec<ControllerSetting>> {
    let setting =
        |controller, file: &str, text| ControllerSetting { controller, file: file.to_owned(), text };
    let mut settings = Vec::new();
    if let Some(cpus) = limits.cpus {
        settings.push(setting("cpu", "cpu.max", format!("{} {PERIOD_US}", quota_us(cpus))));
    }
    if let Some(memory) = &limits.memory {
        settings.push(setting("memory", "memory.max", memory.parse::<Bytes>()?.get().to_string()));
    }
    for device in devices {
        let io: Vec<String> =
            io(limits)?.into_iter().map(|(limit, _, name)| format!("{name}={limit}")).collect();
        settings.push(setting("io", "io.max", format!("{device} {}", io.join(" "))));
    }
    Ok(settings)
}

fn version_1(limits: &Limits, devices: &[DeviceNumber]) -> Result<Vec<ControllerSetting>> {
    let setting = |controller, file: String, text| ControllerSetting { controller, file, text };
    let mut settings = Vec::new();
    if let Some(cpus) = limits.cpus {
        settings.push(setting("cpu", "cpu.cfs_period_us".to_owned(), PERIOD_US.to_string()));
        settings.push(setting("cpu", "cpu.cfs_quota_us".to_owned(), quota_us(cpus).to_string()));
    }
    if let Some(memory) = &limits.memory {
        let bytes = memory.parse::<Bytes>()?.get().to_string();
        settings.push(setting("memory", "memory.limit_in_bytes".to_owned(), bytes));
    }
    for device in devices {
        settings.extend(io(limits)?.into_iter().map(|(limit, name, _)| {
            setting("blkio", format!("blkio.throttle.{name}_device"), format!("{device} {limit}"))
        }));
    }
    Ok(settings)
}

/// The disks under the data: whole disks, since the kernel limits no partitions. Each has the limit.
fn disks_of(view: &View, db_path: Option<&Path>) -> Result<Vec<DeviceNumber>> {
    let path = db_path.ok_or_else(|| Error::usage("a router has no disk whose I/O could be limited"))?;
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let existing = existing.canonicalize().map_err(|cause| Error::io("find", existing, cause))?;
    let (mounts, tree) = (Mounts::read(view)?, BlockTree::read(view));
    let stack = DeviceStack::under(view, &mounts, &tree, &existing);
    if let Some(absence) = stack.absence() {
        let what = format!("{} is on no disk whose I/O could be limited: {absence}", existing.display());
        return Err(
            Error::new(Kind::Unsupported, what).advise("put the member's 'directory' on a disk of its own")
        );
    }
    let mut disks: Vec<DeviceNumber> = stack.tops.iter().map(|device| tree.whole(device).number).collect();
    disks.sort_unstable();
    disks.dedup();
    Ok(disks)
}

/// The version 2 group below which ours can be created, if that version has all required controllers.
fn unified_parent(view: &View, limits: &Limits) -> Result<Option<PathBuf>> {
    let needed: Vec<&str> = [
        limits.cpus.map(|_| "cpu"),
        limits.memory.as_ref().map(|_| "memory"),
        has_io(limits).then_some("io"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mounts = Mounts::read(view)?;
    let Some(root) =
        mounts.iter().find(|mount| mount.fs_type == "cgroup2").map(|mount| mount.mount_point.clone())
    else {
        return Ok(None);
    };
    let has_all = |file: &Path| {
        let text = fs::read_to_string(file).unwrap_or_default();
        needed.iter().all(|controller| text.split_ascii_whitespace().any(|word| word == *controller))
    };
    if !has_all(&root.join("cgroup.controllers")) {
        return Ok(None);
    }
    let own = Cgroups::read(view, None).unified_folder().unwrap_or_else(|| root.clone());
    let passing = own.ancestors().take_while(|group| group.starts_with(&root));
    if let Some(group) = passing.into_iter().find(|group| has_all(&group.join("cgroup.subtree_control"))) {
        return Ok(Some(group.to_owned()));
    }
    // Delegating a controller limits nothing, so it is not undone.
    let control = root.join("cgroup.subtree_control");
    let text: Vec<String> = needed.iter().map(|controller| format!("+{controller}")).collect();
    fs::write(&control, text.join(" "))
        .map_err(|cause| advise(Error::io("have controllers passed on by", &control, cause)))?;
    Ok(Some(root))
}

fn version_1_parent(view: &View, controller: &str) -> Result<PathBuf> {
    Cgroups::read(view, None).controller_folder(controller).filter(|folder| folder.is_dir()).ok_or_else(
        || {
            let what = format!("no control group tree with the controller {controller} is mounted");
            Error::new(Kind::Unsupported, what).advise("mount it, and run as root: limits need both")
        },
    )
}

fn advise(error: Error) -> Error {
    match error.kind() {
        Kind::Permission | Kind::ReadOnly => {
            error.advise("limits need root and a writable control group tree")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            cpus: Some(0.5),
            memory: Some("256M".to_owned()),
            write_iops: Some(100),
            read_bandwidth: Some("1M".to_owned()),
            ..Limits::default()
        }
    }

    #[test]
    fn limits_are_written_as_each_version_wants_them() {
        let devices = [DeviceNumber { major: 8, minor: 16 }, DeviceNumber { major: 8, minor: 32 }];
        let texts = |settings: Vec<ControllerSetting>| -> Vec<String> {
            settings.into_iter().map(|one| format!("{} {} {}", one.controller, one.file, one.text)).collect()
        };
        assert_eq!(
            texts(version_2(&limits(), &devices).unwrap()),
            [
                "cpu cpu.max 50000 100000",
                "memory memory.max 268435456",
                "io io.max 8:16 wiops=100 rbps=1048576",
                "io io.max 8:32 wiops=100 rbps=1048576",
            ]
        );
        assert_eq!(
            texts(version_1(&limits(), &devices).unwrap()),
            [
                "cpu cpu.cfs_period_us 100000",
                "cpu cpu.cfs_quota_us 50000",
                "memory memory.limit_in_bytes 268435456",
                "blkio blkio.throttle.write_iops_device 8:16 100",
                "blkio blkio.throttle.read_bps_device 8:16 1048576",
                "blkio blkio.throttle.write_iops_device 8:32 100",
                "blkio blkio.throttle.read_bps_device 8:32 1048576",
            ]
        );
    }

    #[test]
    fn a_router_has_no_disk() {
        assert_eq!(disks_of(&View::live(), None).unwrap_err().kind(), Kind::Usage);
    }
}
