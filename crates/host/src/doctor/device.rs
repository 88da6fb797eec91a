//! The device under the data: found at all, what kind of medium it is, and how requests reach it: iSCSI sessions, SCSI
//! queue depth, NVMe queues.
//!
//! The kernel's `rotational` is not believed where something better is known: virtual disks and arrays report what
//! their driver felt like. What a medium really is, only a measured latency at depth 1 tells.
//!
//! No request beyond the reachable depth is ever in flight, so these numbers are what a measured knee is compared with.

use super::{Context, Verdict};
use crate::block::iscsi_host;
use crate::{Device, DeviceKind};

/// What a layer is, as far as names and drivers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    /// Flash behind NVMe, or what a cloud presents as such.
    Nvme,
    /// A virtual machine's disk.
    Virtual,
    /// A volume of an array, over iSCSI.
    Remote,
    /// A local disk that says it does not turn.
    SolidState,
    /// A local disk that says it turns.
    Spinning,
    /// A device made of others, or of a file.
    Stacked,
}

/// What `device` is.
pub(super) fn medium(context: &Context, device: &Device) -> Medium {
    let name = device.name.as_str();
    if device.kind != DeviceKind::Disk || !device.below.is_empty() {
        Medium::Stacked
    } else if name.starts_with("nvme") {
        Medium::Nvme
    } else if crate::block::iscsi_host(&context.view, device).is_some() {
        Medium::Remote
    } else if context.virtual_machine.is_some() || name.starts_with("vd") || name.starts_with("xvd") {
        Medium::Virtual
    } else if context.view.number(&format!("{}/rotational", device.queue())) == Some(0) {
        Medium::SolidState
    } else {
        Medium::Spinning
    }
}

/// Whether the device under the data can be seen; without it, nothing is said of queues.
pub(super) fn found(context: &Context) -> Vec<Verdict> {
    let Some(mount) = &context.mount else {
        let claim = format!("No mount is known that holds {}.", context.dir.display());
        return vec![Verdict::cannot_tell(claim, "Name the folder that mongod uses with --dir.")];
    };
    let on = format!(
        "{} is {} on {}",
        mount.mount_point.display(),
        mount.fs_type,
        super::filesystem::public_source(&mount.source)
    );
    if context.layers.is_empty() {
        let claim = "The block device under the data is not visible here, so scheduler, read-ahead, cache, RAID \
                     and transport were not judged.";
        let tells =
            "Run fathom doctor on the host itself (not in the container), or name the volume with --dir.";
        let number = format!("Its device number is {}; /sys/block has no such device.", mount.number);
        return vec![Verdict::cannot_tell(claim, tells).evidence(format!("{on}.")).evidence(number)];
    }
    let stack: Vec<String> = context.layers.iter().map(describe).collect();
    vec![
        Verdict::pass(format!("The data stands on {}.", stack.join(", ")))
            .evidence(format!("/proc/self/mountinfo: {on}, device number {}", mount.number)),
    ]
}

fn describe(device: &Device) -> String {
    match &device.mapper_name {
        Some(name) => format!("{} ({name})", device.name),
        None => device.name.clone(),
    }
}

/// `rotational`, against what is known otherwise.
pub(super) fn rotational(context: &Context) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for device in context.leaves() {
        let path = format!("{}/rotational", device.queue());
        let name = &device.name;
        let Some(value) = context.view.value(&path) else {
            verdicts.push(Verdict::cannot_tell(
                format!("Whether the kernel takes {name} for a spinning disk cannot be read."),
                format!("/{path} would tell; the latency that fathom disk measures at depth 1 tells more."),
            ));
            continue;
        };
        let medium = medium(context, device);
        let doubtful = value == "1" && !matches!(medium, Medium::Spinning | Medium::Stacked);
        let verdict = if doubtful {
            Verdict::note(format!(
                "The kernel takes {name} for a spinning disk; that is only its driver's word."
            ))
            .wanted("Do not classify by it: the latency that fathom disk measures at depth 1 tells.")
        } else {
            let turns = if value == "1" { "turns" } else { "does not turn" };
            Verdict::pass(format!("{name} says that it {turns}; not used to judge it."))
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
pub(super) fn depth(context: &Context) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for device in context.leaves() {
        let Some((path, depth)) = queue_depth(context, device) else { continue };
        let claim = format!("{} takes at most {depth} requests at once.", device.name);
        verdicts.push(Verdict::pass(claim).read(&path, depth.to_string()));
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

/// Sessions, paths and the depth that they add up to.
pub(super) fn iscsi(context: &Context) -> Vec<Verdict> {
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
        return vec![Verdict::cannot_tell(claim, "'iscsiadm -m session -P 3' as root would tell.")];
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
    let mut verdict = if sessions.len() == 1 { Verdict::fail(claim) } else { Verdict::note(claim) };
    for (path, value) in depths.iter().chain(&can_queue) {
        verdict = verdict.read(path, value.to_string());
    }
    for session in &sessions {
        verdict = verdict.evidence(format!("/sys/class/iscsi_session/{session} is a session of this disk"));
    }
    for name in ["node.session.nr_sessions", "node.session.cmds_max", "node.session.queue_depth"] {
        if let Some(value) = configured(context, name) {
            verdict = verdict.evidence(format!("/etc/iscsi/iscsid.conf: {name} = {value}"));
        }
    }
    vec![
        verdict
            .wanted(
                "Compare this depth with the knee that fathom disk finds. If the knee lies at it, raise \
                 node.session.queue_depth (32, to 1024) and cmds_max (128, to 2048), or add sessions; vendors advise 2 \
                 or 4.",
            )
            .command(
                "iscsiadm -m node -o update -n node.session.nr_sessions -v 2\niscsiadm -m node -o update -n \
                 node.session.queue_depth -v 64",
            ),
    ]
}

/// NVMe queues against processors.
pub(super) fn nvme(context: &Context) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for device in context.leaves().filter(|device| device.name.starts_with("nvme")) {
        let disk = device.disk.as_deref().unwrap_or(&device.name);
        let name = &device.name;
        let folder = format!("sys/block/{disk}/mq");
        let queues = context.view.list(&folder).len();
        let cpus = crate::environment::cpu_count(&context.view);
        let (Some(cpus), true) = (cpus, queues > 0) else {
            let claim = format!("The number of {name}'s queues cannot be read.");
            verdicts
                .push(Verdict::cannot_tell(claim, format!("'ls /{folder}' on the host itself would tell.")));
            continue;
        };
        let verdict = if queues < cpus {
            Verdict::fail(format!(
                "{name} has {queues} queues for {cpus} processors, so processors share them."
            ))
            .wanted("More queues need another device or instance type; expect contention at high rates.")
        } else {
            Verdict::pass(format!("{name} has {queues} queues for {cpus} processors."))
        };
        let verdict = verdict
            .evidence(format!("/{folder} holds {queues} queues"))
            .evidence(format!("/sys/devices/system/cpu holds {cpus} processors"));
        verdicts.push(controller_facts(context, disk, verdict));
    }
    verdicts
}

/// What the controller of `nvme0n1` says of itself, and the longest latency that power saving may add.
fn controller_facts(context: &Context, disk: &str, verdict: Verdict) -> Verdict {
    let digits = disk.trim_start_matches("nvme");
    let number = digits.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("");
    let controller = format!("sys/class/nvme/nvme{number}");
    let facts = ["queue_count", "sqsize", "model", "firmware_rev", "transport", "numa_node"];
    let paths = facts.iter().map(|fact| format!("{controller}/{fact}"));
    let saving = "sys/module/nvme_core/parameters/default_ps_max_latency_us".to_owned();
    paths.chain([saving]).fold(verdict, |verdict, path| match context.view.value(&path) {
        Some(value) => verdict.read(&path, value),
        None => verdict,
    })
}
