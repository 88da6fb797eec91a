//! Rules on the device under the data: its visibility, its kind of medium, and the path of requests to it (iSCSI
//! sessions, SCSI queue depth, NVMe queues).
//!
//! The kernel's `rotational` is ignored if better facts are known: virtual disks and arrays report an arbitrary value
//! of their driver. Only a measured latency at depth 1 shows the real medium.
//!
//! No request beyond the reachable depth is ever in flight, so a measured knee is compared with these numbers.

use super::change::Change;
use super::{Context, RuleVerdict};
use crate::block::iscsi_host;
use crate::{Device, DeviceKind};

/// The kind of a layer, by names and drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerMedium {
    /// Flash behind NVMe, or a cloud volume presented as such.
    Nvme,
    /// A virtual machine's disk.
    Virtual,
    /// A volume of an array, over iSCSI.
    Remote,
    /// A local disk that reports that it does not rotate.
    SolidState,
    /// A local disk that reports that it rotates.
    Spinning,
    /// A device made of other devices, or of a file.
    Stacked,
}

pub(super) fn medium(context: &Context, device: &Device) -> LayerMedium {
    let name = device.name.as_str();
    if device.kind != DeviceKind::Disk || !device.below.is_empty() {
        LayerMedium::Stacked
    } else if name.starts_with("nvme") {
        LayerMedium::Nvme
    } else if crate::block::iscsi_host(&context.view, device).is_some() {
        LayerMedium::Remote
    } else if context.virtual_machine.is_some() || name.starts_with("vd") || name.starts_with("xvd") {
        LayerMedium::Virtual
    } else if context.view.number(&format!("{}/rotational", device.queue())) == Some(0) {
        LayerMedium::SolidState
    } else {
        LayerMedium::Spinning
    }
}

/// Checks that the device under the data can be seen; without it, the rules on queues say nothing.
pub(super) fn found(context: &Context) -> Vec<RuleVerdict> {
    let Some(mount) = &context.mount else {
        let claim = format!("No mount is known that holds {}.", context.dir.display());
        return vec![RuleVerdict::cannot_tell(claim, "Name the folder that mongod uses with --dir.")];
    };
    let on = format!(
        "{} is {} on {}",
        mount.mount_point.display(),
        mount.fs_type,
        super::filesystem::public_source(&mount.source)
    );
    let stack = &context.stack;
    if stack.layers.is_empty() {
        let claim = "The block device under the data is not visible here, so scheduler, read-ahead, cache, RAID \
                     and transport were not judged.";
        // Under an overlay, the file system that holds its files.
        let holder = stack.mount.as_ref().unwrap_or(mount);
        let tells = match holder.fs_type.as_str() {
            _ if mount.is_in_memory() => "--dir names a directory that is on a disk.",
            _ if mount.is_remote() => "Run fathom doctor on the machine that has the disk.",
            "zfs" => "'zpool status' lists the devices of the pool.",
            _ => {
                "Run fathom doctor on the host itself (not in the container), or name the volume with --dir."
            }
        };
        let reason = match stack.absence() {
            Some(absence) if holder.fs_type == "zfs" => format!("{absence}."),
            _ => format!("Its device number is {}; /sys/block has no such device.", mount.number),
        };
        return vec![RuleVerdict::cannot_tell(claim, tells).evidence(format!("{on}.")).evidence(reason)];
    }
    let names: Vec<String> = stack.layers.iter().map(describe).collect();
    let verdict = RuleVerdict::pass(format!("The data is on these block devices: {}.", names.join(", ")))
        .evidence(format!("/proc/self/mountinfo: {on}, device number {}", mount.number));
    let under = stack.mount.as_ref().filter(|under| *under != mount);
    vec![under.into_iter().fold(verdict, |verdict, under| {
        let (point, kind) = (under.mount_point.display(), &under.fs_type);
        verdict.evidence(format!("/proc/self/mountinfo: the files of the overlay are in {point} ({kind})"))
    })]
}

fn describe(device: &Device) -> String {
    match &device.mapper_name {
        Some(name) => format!("{} ({name})", device.name),
        None => device.name.clone(),
    }
}

/// Compares `rotational` with the other known facts.
pub(super) fn rotational(context: &Context) -> Vec<RuleVerdict> {
    let mut verdicts = Vec::new();
    for device in context.leaves() {
        let path = format!("{}/rotational", device.queue());
        let name = &device.name;
        let Some(value) = context.view.value(&path) else {
            verdicts.push(RuleVerdict::cannot_tell(
                format!("Whether {name} is reported as a rotating disk could not be read."),
                format!("Read /{path}; the latency that fathom disk measures at depth 1 shows more reliably what it is."),
            ));
            continue;
        };
        let medium = medium(context, device);
        let doubtful = value == "1" && !matches!(medium, LayerMedium::Spinning | LayerMedium::Stacked);
        let verdict = if doubtful {
            RuleVerdict::note(format!(
                "The driver reports {name} as a rotating disk, which may be wrong."
            ))
            .wanted("Do not rely on it: the latency that fathom disk measures at depth 1 shows the kind of disk.")
        } else {
            let kind = if value == "1" { "a rotating disk" } else { "a disk that does not rotate" };
            RuleVerdict::pass(format!("{name} reports that it is {kind}. No rule relies on it."))
        };
        verdicts.push(verdict.read(&path, value));
    }
    verdicts
}

fn queue_depth(context: &Context, device: &Device) -> Option<(String, u64)> {
    let path = format!("sys/block/{}/device/queue_depth", device.disk.as_deref().unwrap_or(&device.name));
    let depth = context.view.number(&path)?;
    Some((path, depth))
}

/// The depth of each SCSI disk.
pub(super) fn depth(context: &Context) -> Vec<RuleVerdict> {
    let mut verdicts = Vec::new();
    for device in context.leaves() {
        let Some((path, depth)) = queue_depth(context, device) else { continue };
        let claim = format!("{} takes at most {depth} requests at once.", device.name);
        verdicts.push(RuleVerdict::pass(claim).read(&path, depth.to_string()));
    }
    verdicts
}

/// A setting of the initiator, as configured for new sessions.
fn configured(context: &Context, name: &str) -> Option<u64> {
    let text = context.view.text("etc/iscsi/iscsid.conf")?;
    text.lines().find_map(|line| {
        let (key, value) = line.trim().split_once('=')?;
        (key.trim() == name).then(|| value.trim().parse().ok())?
    })
}

/// Sessions whose target sits on `host`.
fn sessions(context: &Context, hosts: &[String]) -> Vec<String> {
    let folder = "sys/class/iscsi_session";
    let of_hosts = |session: &String| {
        let targets = context.view.list(&format!("{folder}/{session}/device"));
        let target_host =
            |name: &String| Some(format!("host{}", name.strip_prefix("target")?.split(':').next()?));
        targets.iter().filter_map(target_host).any(|host| hosts.contains(&host))
    };
    context.view.list(folder).into_iter().filter(of_hosts).collect()
}

/// open-iscsi's own value for `node.session.queue_depth`.
const DEFAULT_DEPTH: u64 = 32;

/// Two sessions at least, each of twice the depth.
fn more_sessions(sessions: u64, depth: u64) -> Change {
    let set =
        |name: &str, value: u64| format!("iscsiadm -m node -o update -n node.session.{name} -v {value}");
    Change::command(set("nr_sessions", sessions.max(2)), set("nr_sessions", sessions))
        .and(Change::command(set("queue_depth", 2 * depth), set("queue_depth", depth)))
        .and(Change::by_hand(
            "stop the server, then log the sessions out and in again: the new values apply at login",
        ))
}

/// Checks sessions, paths and the depth that they add up to.
pub(super) fn iscsi(context: &Context) -> Vec<RuleVerdict> {
    let paths: Vec<(&Device, String)> =
        context.leaves().filter_map(|device| Some((device, iscsi_host(&context.view, device)?))).collect();
    if paths.is_empty() {
        return Vec::new();
    }
    let mut hosts: Vec<String> = paths.iter().map(|(_, host)| host.clone()).collect();
    hosts.sort();
    hosts.dedup();
    let sessions = sessions(context, &hosts);
    let depths: Vec<(String, u64)> =
        paths.iter().filter_map(|(device, _)| queue_depth(context, device)).collect();
    let can_queue: Vec<(String, u64)> = hosts
        .iter()
        .filter_map(|host| {
            let path = format!("sys/class/scsi_host/{host}/can_queue");
            Some((context.view.number(&path)?, path)).map(|(value, path)| (path, value))
        })
        .collect();
    if depths.len() < paths.len() || can_queue.len() < hosts.len() {
        let claim = "The depth that iSCSI can reach cannot be read.";
        return vec![RuleVerdict::cannot_tell(claim, "Run 'iscsiadm -m session -P 3' as root.")];
    }
    // The software initiator makes one SCSI host for each session, whose can_queue is the session's cmds_max.
    let by_paths: u64 = depths.iter().map(|(_, depth)| depth).sum();
    let by_hosts: u64 = can_queue.iter().map(|(_, depth)| depth).sum();
    let reachable = by_paths.min(by_hosts);
    let claim = format!(
        "The data is on iSCSI: {} session{}, {} path{}, at most {reachable} requests in flight.",
        sessions.len(),
        if sessions.len() == 1 { "" } else { "s" },
        paths.len(),
        if paths.len() == 1 { "" } else { "s" },
    );
    let mut verdict = if sessions.len() == 1 { RuleVerdict::fail(claim) } else { RuleVerdict::note(claim) };
    for (path, value) in depths.iter().chain(&can_queue) {
        verdict = verdict.read(path, value.to_string());
    }
    for session in &sessions {
        verdict = verdict.evidence(format!("/sys/class/iscsi_session/{session} is a session of this disk"));
    }
    let configured_depth = configured(context, "node.session.queue_depth").unwrap_or(DEFAULT_DEPTH);
    for name in ["node.session.nr_sessions", "node.session.cmds_max", "node.session.queue_depth"] {
        if let Some(value) = configured(context, name) {
            verdict = verdict.evidence(format!("/etc/iscsi/iscsid.conf: {name} = {value}"));
        }
    }
    vec![
        verdict
            .wanted(
                "Compare this depth with the knee that fathom disk finds. If they are equal, add sessions (vendors advise 2 or 4), \
                 or raise node.session.queue_depth (32 by default, at most 1024) and cmds_max (128 by default, at most 2048).",
            )
            .change(more_sessions(sessions.len() as u64, configured_depth)),
    ]
}

/// NVMe queues against processors.
pub(super) fn nvme(context: &Context) -> Vec<RuleVerdict> {
    let mut verdicts = Vec::new();
    for device in context.leaves().filter(|device| device.name.starts_with("nvme")) {
        let disk = device.disk.as_deref().unwrap_or(&device.name);
        let name = &device.name;
        let folder = format!("sys/block/{disk}/mq");
        let queues = context.view.list(&folder).len();
        let cpus = crate::environment::cpu_count(&context.view);
        let (Some(cpus), true) = (cpus, queues > 0) else {
            let claim = format!("The number of {name}'s queues cannot be read.");
            verdicts.push(RuleVerdict::cannot_tell(claim, format!("Run 'ls /{folder}' on the host itself.")));
            continue;
        };
        let verdict = if queues < cpus {
            RuleVerdict::fail(format!(
                "{name} has {queues} queues for {cpus} processors, so several processors share a queue."
            ))
            .wanted("More queues need another device or instance type; expect contention at high rates.")
        } else {
            RuleVerdict::pass(format!("{name} has {queues} queues for {cpus} processors."))
        };
        let verdict = verdict
            .evidence(format!("/{folder} holds {queues} queues"))
            .evidence(format!("/sys/devices/system/cpu holds {cpus} processors"));
        verdicts.push(controller_facts(context, device, verdict));
    }
    verdicts
}

/// The description of a disk's controller, and the longest latency that power saving may add.
fn controller_facts(context: &Context, device: &Device, verdict: RuleVerdict) -> RuleVerdict {
    let controller = format!("sys/class/nvme/nvme{}", device.nvme_controller().unwrap_or_default());
    let facts = ["queue_count", "sqsize", "model", "firmware_rev", "transport", "numa_node"];
    let paths = facts.iter().map(|fact| format!("{controller}/{fact}"));
    let saving = "sys/module/nvme_core/parameters/default_ps_max_latency_us".to_owned();
    paths.chain([saving]).fold(verdict, |verdict, path| match context.view.value(&path) {
        Some(value) => verdict.read(&path, value),
        None => verdict,
    })
}
