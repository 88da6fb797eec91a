//! The patterns in which rules name the files they read, and the files of one host that they stand for.
//!
//! `D` is the disk of each layer under the data, `PID` the running mongod, `NUMAD` a running numad, `CGROUP` every folder from its control
//! group (or ours, where no mongod runs) up to the root, `*` any one name. A pattern that ends in `/` means the
//! names in a folder, not their content: a snapshot keeps them as empty files, since links would not survive.

use super::{Context, control, numa};

/// What every snapshot keeps beside the rules' own files: the block tree, mounts, and facts about the machine.
pub(super) const BASE: &[&str] = &[
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

/// The files of this host that `pattern` stands for; they need not exist. A trailing `/` is kept.
pub(super) fn expand(context: &Context, pattern: &str) -> Vec<String> {
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
        "NUMAD" => numa::numad_pid(&context.view).iter().map(|pid| join(pid)).collect(),
        "CGROUP" => control::all_folders(context),
        _ => vec![join(part)],
    }
}
