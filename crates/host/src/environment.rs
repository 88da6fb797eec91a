//! The facts about a machine that a measurement depends on, as names and values for a run's manifest.
//!
//! Runs are compared by these facts, so the names are stable (`kernel`, `device.sda.scheduler`), and an unknown fact is
//! absent. The facts are passed on with the run: host names, addresses, users, serial numbers and file system labels
//! are left out, and options of network file systems that carry them are dropped.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cgroup::Cgroups;
use crate::{BlockTree, Device, DeviceKind, DeviceStack, Mount, Mounts, View};

/// The names and values.
pub type Facts = BTreeMap<String, String>;

/// Reads every fact; with `dir` (absolute, without symbolic links) also the file system that holds it and every
/// device under that.
pub fn facts(view: &View, dir: Option<&Path>) -> Facts {
    let mut facts = Facts::new();
    machine(view, &mut facts);
    memory(view, &mut facts);
    if let Some(dir) = dir {
        storage(view, dir, &mut facts);
    }
    facts
}

fn put(facts: &mut Facts, name: impl Into<String>, value: Option<String>) {
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        facts.insert(name.into(), value);
    }
}

fn machine(view: &View, facts: &mut Facts) {
    put(facts, "kernel", view.value("proc/sys/kernel/osrelease"));
    put(facts, "os", os_name(view));
    let cpuinfo = view.text("proc/cpuinfo").unwrap_or_default();
    // ARM kernels print no model name, but an implementer and a part number.
    let arm = || {
        Some(format!(
            "CPU part {} of {}",
            cpu_field(&cpuinfo, "CPU part")?,
            cpu_field(&cpuinfo, "CPU implementer")?
        ))
    };
    put(facts, "cpu.model", cpu_field(&cpuinfo, "model name").or_else(arm));
    put(facts, "cpu.count", cpu_count(view).map(|count| count.to_string()));
    let cpus = "sys/devices/system/cpu";
    put(facts, "cpu.governor", view.value(&format!("{cpus}/cpu0/cpufreq/scaling_governor")));
    put(facts, "cpu.smt", view.value(&format!("{cpus}/smt/control")));
    put(facts, "virtualisation", virtualisation(view, &cpuinfo));
    let groups = Cgroups::read(view, None);
    put(facts, "container", container(view, &groups));
    put(facts, "cgroup.cpu_max", groups.cpu_max().map(|cpus| cpus.to_string()));
    put(facts, "cgroup.memory_max_bytes", groups.memory_max_bytes().map(|bytes| bytes.to_string()));
    let pressure = view.exists("proc/pressure/io");
    put(facts, "pressure_stall_information", Some(if pressure { "on" } else { "off" }.to_owned()));
}

fn memory(view: &View, facts: &mut Facts) {
    let meminfo = view.text("proc/meminfo").unwrap_or_default();
    let kib = |name: &str| -> Option<u64> {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.split_whitespace().next()?.parse().ok()
    };
    put(
        facts,
        "memory.bytes",
        kib("MemTotal").and_then(|kib| kib.checked_mul(1024)).map(|bytes| bytes.to_string()),
    );
    put(
        facts,
        "memory.swap_bytes",
        kib("SwapTotal").and_then(|k| k.checked_mul(1024)).map(|bytes| bytes.to_string()),
    );
    for folder in ["transparent_hugepage", "redhat_transparent_hugepage"] {
        put(facts, "memory.thp", view.choice(&format!("sys/kernel/mm/{folder}/enabled")));
        put(facts, "memory.thp_defrag", view.choice(&format!("sys/kernel/mm/{folder}/defrag")));
    }
    for name in VM_SETTINGS {
        put(facts, format!("vm.{name}"), view.value(&format!("proc/sys/vm/{name}")));
    }
}

const VM_SETTINGS: &[&str] = &[
    "swappiness",
    "dirty_ratio",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_background_bytes",
    "dirty_expire_centisecs",
    "dirty_writeback_centisecs",
    "overcommit_memory",
    "zone_reclaim_mode",
];

fn storage(view: &View, dir: &Path, facts: &mut Facts) {
    let Ok(mounts) = Mounts::read(view) else { return };
    let Some(mount) = mounts.containing(dir) else { return };
    put(facts, "fs.type", Some(mount.fs_type.clone()));
    put(facts, "fs.options", Some(public_options(mount)));
    put(facts, "fs.mount_point", Some(mount.mount_point.display().to_string()));
    let stack = DeviceStack::from_mount(view, &mounts, &BlockTree::read(view), mount);
    put(facts, "fs.read_ahead_kb", stack.read_ahead.map(|setting| setting.kib.to_string()));
    let names: Vec<&str> = stack.layers.iter().map(|device| device.name.as_str()).collect();
    put(facts, "device.stack", Some(names.join(" ")));
    let groups = Cgroups::read(view, None);
    for device in &stack.layers {
        device_facts(view, device, facts);
        for limit in groups.io_limits(device.number) {
            facts
                .insert(format!("device.{}.cap.{}", device.name, limit.kind.name()), limit.value.to_string());
        }
    }
}

fn device_facts(view: &View, device: &Device, facts: &mut Facts) {
    let name = |fact: &str| format!("device.{}.{fact}", device.name);
    let kind = match device.kind {
        DeviceKind::Disk => "disk",
        DeviceKind::Partition => "partition",
        DeviceKind::Mapper => "device mapper",
        DeviceKind::Raid => "md RAID",
        DeviceKind::Loop => "loop",
    };
    put(facts, name("kind"), Some(kind.to_owned()));
    let sectors = view.number(&format!("{}/size", device.sysfs()));
    put(
        facts,
        name("size_bytes"),
        sectors.and_then(|count| count.checked_mul(512)).map(|bytes| bytes.to_string()),
    );
    if device.kind == DeviceKind::Partition {
        return;
    }
    let queue = device.queue();
    put(facts, name("scheduler"), view.choice(&format!("{queue}/scheduler")));
    for fact in QUEUE_FACTS {
        put(facts, name(fact), view.value(&format!("{queue}/{fact}")));
    }
    for fact in ["model", "vendor", "queue_depth"] {
        put(facts, name(fact), view.value(&format!("{}/device/{fact}", device.sysfs())));
    }
    put(facts, name("transport"), transport(view, device));
    for fact in ["level", "raid_disks", "chunk_size", "sync_action"] {
        put(facts, name(&format!("md.{fact}")), view.value(&format!("{}/md/{fact}", device.sysfs())));
    }
}

/// The transport of requests to a disk: `iscsi`, or NVMe's word (`pcie`, `tcp`, `rdma`, `fc`); `None` if it is unknown.
fn transport(view: &View, device: &Device) -> Option<String> {
    let iscsi = crate::block::iscsi_host(view, device).map(|_| "iscsi".to_owned());
    iscsi.or_else(|| view.value(&format!("{}/device/transport", device.sysfs())))
}

const QUEUE_FACTS: &[&str] = &[
    "read_ahead_kb",
    "rotational",
    "write_cache",
    "fua",
    "nr_requests",
    "logical_block_size",
    "physical_block_size",
    "minimum_io_size",
    "optimal_io_size",
    "max_sectors_kb",
    "wbt_lat_usec",
    "nomerges",
    "rq_affinity",
    "iostats",
];

/// Returns whether a mount option names a host, a user or a secret.
pub(crate) fn is_private(option: &str) -> bool {
    let Some((key, _)) = option.split_once('=') else { return false };
    let key = key.trim_end_matches('+');
    PRIVATE_OPTIONS.contains(&key) || key.ends_with("addr") || key.ends_with("dir")
}

/// Mount options without those that name a host, a user or a secret.
pub(crate) fn public_options(mount: &Mount) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for option in mount.options.iter().chain(&mount.super_options) {
        if !is_private(option) && !seen.contains(&option.as_str()) {
            seen.push(option);
        }
    }
    seen.join(",")
}

/// Options of nfs(5), mount.cifs(8), ceph and FUSE that name a user, a host or a key. Options that end in `addr` or in
/// `dir` (such as overlay's `lowerdir`: long paths of a container's store) are private too.
const PRIVATE_OPTIONS: &[&str] = &[
    "cred",
    "credentials",
    "dom",
    "domain",
    "group_id",
    "host",
    "ip",
    "key",
    "label",
    "name",
    "pass",
    "pass2",
    "password",
    "password2",
    "secret",
    "secretfile",
    "source",
    "unc",
    "user",
    "user_id",
    "username",
    "workgroup",
];

fn os_name(view: &View) -> Option<String> {
    let text = view.text("etc/os-release").or_else(|| view.text("usr/lib/os-release"))?;
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned())
}

fn cpu_field(cpuinfo: &str, name: &str) -> Option<String> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// CPUs that exist, as sysstat counts them; those online if sysfs does not show them.
pub(crate) fn cpu_count(view: &View) -> Option<usize> {
    let numbered = |name: &str, prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let existing = view.list("sys/devices/system/cpu").iter().filter(|name| numbered(name, "cpu")).count();
    if existing > 0 {
        return Some(existing);
    }
    let stat = view.text("proc/stat")?;
    let words = stat.lines().filter_map(|line| line.split(' ').next());
    Some(words.filter(|word| numbered(word, "cpu")).count()).filter(|count| *count > 0)
}

/// The hypervisor of this machine, from the firmware's name, Xen's folder or the CPU's flag.
fn virtualisation(view: &View, cpuinfo: &str) -> Option<String> {
    let vendor = view.value("sys/class/dmi/id/sys_vendor");
    let product = view.value("sys/class/dmi/id/product_name");
    let named: Vec<String> = [vendor, product].into_iter().flatten().collect();
    let flagged =
        cpu_field(cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let xen = view.value("sys/hypervisor/type");
    match (flagged || xen.is_some(), named.is_empty()) {
        (true, false) => Some(format!("virtual: {}", named.join(" "))),
        (true, true) => Some(format!("virtual: {}", xen.as_deref().unwrap_or("hypervisor not named"))),
        (false, false) => Some(format!("none seen: {}", named.join(" "))),
        (false, true) => None,
    }
}

/// The kind of container that this process runs in, from the marks that container runtimes leave.
pub(crate) fn container(view: &View, groups: &Cgroups) -> Option<String> {
    if view.exists(".dockerenv") {
        return Some("docker".to_owned());
    }
    if view.exists("run/.containerenv") {
        return Some("podman".to_owned());
    }
    let kinds = ["kubepods", "docker", "libpod", "lxc", "containerd"];
    let inside = |kind: &&str| groups.memberships().iter().any(|one| one.path.contains(kind));
    kinds.into_iter().find(inside).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_machine_tells_its_kernel_and_disk() {
        let facts = facts(&View::live(), Some(Path::new("/")));
        assert!(
            facts.contains_key("kernel") && facts.contains_key("cpu.count") && facts.contains_key("fs.type")
        );
        let host = View::live().value("proc/sys/kernel/hostname").unwrap();
        // A host name of one or two letters is part of many words.
        let named =
            |value: &String| value.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| word == host);
        assert!(host.len() < 4 || !facts.values().any(named), "{facts:?}");
    }

    #[test]
    fn a_disk_behind_an_initiator_and_one_of_nvme_tell_how_they_are_reached() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/version", ""),
            ("sys/block/sda/dev", "8:0"),
            ("sys/block/sda/device/scsi_disk/2:0:0:1/type", ""),
            ("sys/class/iscsi_host/host2/state", ""),
            ("sys/block/sdb/dev", "8:16"),
            ("sys/block/sdb/device/scsi_disk/3:0:0:0/type", ""),
            ("sys/block/nvme0n1/dev", "259:0"),
            ("sys/block/nvme0n1/device/transport", "pcie\n"),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let view = View::snapshot(folder.path()).unwrap();
        let tree = BlockTree::read(&view);
        let of = |name: &str| transport(&view, tree.by_name(name).unwrap());
        let expected = [Some("iscsi".to_owned()), None, Some("pcie".to_owned())];
        assert_eq!(["sda", "sdb", "nvme0n1"].map(of), expected);
    }

    #[test]
    fn options_that_name_people_and_places_are_dropped() {
        let text = "36 1 0:45 / /data rw,noatime - nfs4 filer:/export rw,vers=4.2,hard,addr=10.0.0.7,clientaddr=10.0.0.9\n\
                    37 1 0:46 / /smb rw - cifs //filer/x rw,username=ann,password=hunter2,vers=3.0\n\
                    38 1 8:1 / /ext rw,nodiratime - ext4 /dev/sda1 rw,stripe=64,user_xattr\n";
        let mounts = Mounts::parse(text);
        let options: Vec<String> = mounts.iter().map(public_options).collect();
        assert_eq!(
            options,
            ["rw,noatime,vers=4.2,hard", "rw,vers=3.0", "rw,nodiratime,stripe=64,user_xattr"]
        );
    }
}
