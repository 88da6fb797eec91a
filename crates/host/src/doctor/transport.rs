//! How requests reach the disk: iSCSI sessions, SCSI queue depth, NVMe queues.
//!
//! No request beyond the reachable depth is ever in flight, so these numbers are what a measured knee is
//! compared with.

use super::{Context, Verdict};
use crate::Device;
use crate::scsi::iscsi_host;

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
