//! Limits that a control group puts on the server: on its disk, memory, processors and processes.
//!
//! A limit on the data disk is throttling that was configured on this host; a probe or a server under it measures the
//! limit. The groups are those of the running mongod, else of this process; [`crate::cgroup`] decides which groups
//! bind.

use std::path::Path;

use super::change::Change;
use super::{Context, RuleVerdict};
use crate::cgroup::{Cgroups, LimitKind};

fn groups(context: &Context) -> Cgroups {
    Cgroups::read(&context.view, context.mongod.as_ref().map(|mongod| mongod.pid))
}

/// The owner of the group, for claims.
fn whose(context: &Context) -> String {
    match &context.mongod {
        Some(mongod) => format!("mongod (pid {})", mongod.pid),
        None => "this program (no mongod runs)".to_owned(),
    }
}

/// The group's folder for a controller, in the version that has it, and those above it, without leading slashes.
fn folders(context: &Context, controller: &str) -> Vec<String> {
    let groups = groups(context);
    let Some(own) = groups.controller_folder(controller).or_else(|| groups.unified_folder()) else {
        return Vec::new();
    };
    let within = |folder: &&Path| {
        let mut mounts = context.mounts.iter().filter(|mount| mount.fs_type.starts_with("cgroup"));
        mounts.any(|mount| folder.starts_with(&mount.mount_point))
    };
    let bare = |folder: &Path| folder.to_string_lossy().trim_matches('/').to_owned();
    own.ancestors().take_while(within).map(bare).collect()
}

/// The group's own folder for a controller.
pub(super) fn own_folder(context: &Context, controller: &str) -> Option<String> {
    folders(context, controller).into_iter().next()
}

/// Every folder that a rule may read; a snapshot keeps these.
pub(super) fn all_folders(context: &Context) -> Vec<String> {
    let mut all: Vec<String> =
        ["blkio", "memory", "cpu", "pids", "io"].iter().flat_map(|name| folders(context, name)).collect();
    all.sort();
    all.dedup();
    all
}

/// Each file of that name from the group up, with its text.
fn values(context: &Context, controller: &str, file: &str) -> Vec<(String, String)> {
    let paths = folders(context, controller).into_iter().map(|folder| format!("{folder}/{file}"));
    paths.filter_map(|path| context.view.value(&path).map(|text| (path, text))).collect()
}

fn unknown(what: &str) -> Vec<RuleVerdict> {
    let claim = format!("Fathom cannot determine whether a control group limits {what}.");
    vec![RuleVerdict::cannot_tell(claim, "See /proc/PID/cgroup and the mounted hierarchies of the host.")]
}

fn in_words(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::ReadIops => "reads",
        LimitKind::WriteIops => "writes",
        LimitKind::ReadBytes => "bytes read",
        LimitKind::WriteBytes => "bytes written",
    }
}

/// The limit's name in `io.max`.
fn io_max_key(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::ReadIops => "riops",
        LimitKind::WriteIops => "wiops",
        LimitKind::ReadBytes => "rbps",
        LimitKind::WriteBytes => "wbps",
    }
}

/// Throttling of the data disk, at any layer.
pub(super) fn disk(context: &Context) -> Vec<RuleVerdict> {
    let groups = groups(context);
    if groups.memberships().is_empty() {
        return unknown("the disk");
    }
    if context.stack.layers.is_empty() {
        return unseen_disk(context);
    }
    let mut verdicts = Vec::new();
    for device in &context.stack.layers {
        for limit in groups.io_limits(device.number) {
            let (number, what) = (device.number, in_words(limit.kind));
            let (none, value) = if limit.file.ends_with("io.max") {
                let key = io_max_key(limit.kind);
                (format!("{number} {key}=max"), format!("{number} {key}={}", limit.value))
            } else {
                (format!("{number} 0"), format!("{number} {}", limit.value))
            };
            verdicts.push(
                RuleVerdict::fail(format!(
                    "A control group allows {} {what} a second on {}. This limit was set on this host.",
                    limit.value, device.name
                ))
                .evidence(format!("{}: {} for {number}, {what}", limit.file, limit.value))
                .evidence(format!("This limit applies to {}.", whose(context)))
                .change(Change::value(&limit.file, &none, &value)),
            );
        }
    }
    if verdicts.is_empty() {
        let claim = format!("No control group of {} throttles the data disk.", whose(context));
        verdicts.push(
            RuleVerdict::pass(claim).evidence(format!("no limit in /{}", all_folders(context).join(", /"))),
        );
    }
    verdicts
}

/// Inside a container the disk may be hidden while the limit on it is visible.
fn unseen_disk(context: &Context) -> Vec<RuleVerdict> {
    let mut verdicts = Vec::new();
    for (path, text) in values(context, "io", "io.max") {
        for line in text.lines() {
            let limited = line.split_whitespace().skip(1).any(|limit| !limit.ends_with("=max"));
            if limited {
                let number = line.split_whitespace().next().unwrap_or("");
                verdicts.push(
                    RuleVerdict::fail(format!(
                        "A control group throttles device {number}, which may hold the data."
                    ))
                    .likely()
                    .read(&path, line)
                    .evidence(format!("This limit applies to {}.", whose(context)))
                    .wanted(
                        "On the host, find the disk that has this number (lsblk), then raise its limit or plan with it.",
                    ),
                );
            }
        }
    }
    if verdicts.is_empty() {
        let claim = "No limit on any disk is visible from here.";
        let tells = "On the host itself, read io.max of the container's group.";
        verdicts.push(RuleVerdict::cannot_tell(claim, tells));
    }
    verdicts
}

/// Checks the memory limit, which includes the file cache.
pub(super) fn memory(context: &Context) -> Vec<RuleVerdict> {
    let groups = groups(context);
    if groups.memberships().is_empty() {
        return unknown("memory");
    }
    let Some(bytes) = groups.memory_max_bytes() else {
        return vec![RuleVerdict::pass(format!("No control group limits the memory of {}.", whose(context)))];
    };
    let gib = bytes as f64 / (1_u64 << 30) as f64;
    let verdict = RuleVerdict::fail(format!(
        "A control group limits {} to {gib:.1} GiB of memory, file cache included.",
        whose(context)
    ))
    .wanted("mongod sizes its cache by this limit. If you set the cache's size yourself, leave room for the file cache.");
    vec![from(context, verdict, "memory", &["memory.max", "memory.limit_in_bytes"], &bytes.to_string())]
}

/// Adds the file, of those named, that holds `value`.
fn from(
    context: &Context,
    verdict: RuleVerdict,
    controller: &str,
    files: &[&str],
    value: &str,
) -> RuleVerdict {
    let held =
        files.iter().flat_map(|file| values(context, controller, file)).find(|(_, text)| text == value);
    match held {
        Some((path, text)) => verdict.read(&path, text),
        None => verdict,
    }
}

pub(super) fn cpu(context: &Context) -> Vec<RuleVerdict> {
    let groups = groups(context);
    if groups.memberships().is_empty() {
        return unknown("processor time");
    }
    let Some(cpus) = groups.cpu_max() else {
        return vec![RuleVerdict::pass(format!(
            "No control group limits the processors of {}.",
            whose(context)
        ))];
    };
    let verdict = RuleVerdict::fail(format!(
        "A control group limits {} to the time of {cpus:.1} processors.",
        whose(context)
    ))
    .wanted(
        "Threads that have used up their share wait for the next period, which can look like a slow disk.",
    );
    let files = ["cpu.max", "cpu.cfs_quota_us"].iter().flat_map(|file| values(context, "cpu", file));
    let set = files.filter(|(_, text)| !text.starts_with("max") && !text.starts_with('-'));
    vec![set.fold(verdict, |verdict, (path, text)| verdict.read(&path, text))]
}

pub(super) fn pids(context: &Context) -> Vec<RuleVerdict> {
    if groups(context).memberships().is_empty() {
        return unknown("processes");
    }
    let limits = values(context, "pids", "pids.max")
        .into_iter()
        .filter_map(|(path, text)| text.parse::<u64>().ok().map(|count| (count, path)));
    match limits.min() {
        Some((count, path)) if count < 64_000 => vec![
            RuleVerdict::fail(format!(
                "A control group limits {} to {count} processes and threads.",
                whose(context)
            ))
            .read(&path, count.to_string())
            .wanted("mongod needs a thread for each connection."),
        ],
        _ => vec![RuleVerdict::pass(format!(
            "No control group limits the threads of {} below 64000.",
            whose(context)
        ))],
    }
}
