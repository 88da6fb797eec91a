//! Rules on memory: huge pages, overcommit, swapping, the dirty memory that may accumulate before a checkpoint's end,
//! and NUMA nodes.

use fathom_record::{Priority, Severity};

use super::change::{Change, sysctl_name};
use super::{Context, RuleVerdict};
use crate::View;

/// The folders of the settings of huge pages; the second is Red Hat's on its kernel 2.6.
const FOLDERS: [&str; 2] =
    ["sys/kernel/mm/transparent_hugepage", "sys/kernel/mm/redhat_transparent_hugepage"];

fn folder(context: &Context) -> &'static str {
    let [usual, red_hat] = FOLDERS;
    if !context.view.exists(usual) && context.view.exists(red_hat) { red_hat } else { usual }
}

/// A setting of huge pages: now, and at each boot through systemd's tmpfiles.
fn thp_change(path: &str, wanted: &str, before: &str) -> Change {
    let name = path.rsplit('/').next().unwrap_or(path);
    Change::value(path, wanted, before).and(Change::file(
        &format!("/etc/tmpfiles.d/mongodb-thp-{name}.conf"),
        &[&format!("w /{path} - - - - {wanted}")],
    ))
}

fn thp_choice(context: &Context, file: &str, wanted: &str, why: &str) -> Vec<RuleVerdict> {
    let path = format!("{}/{file}", folder(context));
    let (Some(text), Some(chosen)) = (context.view.value(&path), context.view.choice(&path)) else {
        // A kernel without huge pages has no such folder, which is equivalent to never.
        if wanted == "never" && !context.view.exists(folder(context)) {
            return vec![
                RuleVerdict::pass("This kernel has no transparent huge pages.")
                    .evidence(format!("/{} is not there", folder(context))),
            ];
        }
        let claim = format!("The setting of huge pages ({file}) cannot be read.");
        return vec![RuleVerdict::cannot_tell(claim, format!("Run 'cat /{path}' on the host itself."))];
    };
    let what = if file == "defrag" { "Huge page defragmentation is" } else { "Transparent huge pages are" };
    let version = context.mongodb;
    let verdict = if chosen == wanted {
        RuleVerdict::pass(format!("{what} set to {chosen}, as MongoDB recommends for {version}."))
    } else {
        let verdict = RuleVerdict::fail(format!(
            "{what} set to {chosen}; MongoDB recommends '{wanted}' for {version}."
        ))
        .wanted(format!("Recommended: '{wanted}'. {why}"))
        .change(thp_change(&path, wanted, &chosen));
        // With this value page faults wait for defragmentation.
        let stalls = file == "defrag" && chosen == "always";
        if stalls { verdict.priority(Priority::WorthDoing) } else { verdict }
    };
    vec![verdict.read(&path, text)]
}

/// Up to 7.0, and later without the newer allocator: never.
pub(super) fn huge_pages_off(context: &Context) -> Vec<RuleVerdict> {
    let why = "The server uses its memory sparsely, so huge pages waste memory and cause pauses.";
    thp_choice(context, "enabled", "never", why)
}

/// From 8.0, with the newer allocator: always.
pub(super) fn huge_pages_on(context: &Context) -> Vec<RuleVerdict> {
    thp_choice(
        context,
        "enabled",
        "always",
        "The allocator of 8.0 and later is made for huge pages; before 8.0 the recommendation was 'never'.",
    )
}

/// Before 8.0: never; from 4.2 the server itself looks at it only while huge pages are on.
pub(super) fn defrag_off(context: &Context) -> Vec<RuleVerdict> {
    let enabled = format!("{}/enabled", folder(context));
    if context.mongodb.0 >= (4, 2, 0) && context.view.choice(&enabled).as_deref() == Some("never") {
        let claim = "Huge page defragmentation has no effect while huge pages are off.";
        return vec![RuleVerdict::pass(claim).read(&enabled, "never")];
    }
    thp_choice(context, "defrag", "never", "Defragmentation on a page fault stalls the server.")
}

/// MongoDB 8.0 and later want `defer+madvise`.
pub(super) fn defrag_deferred(context: &Context) -> Vec<RuleVerdict> {
    thp_choice(
        context,
        "defrag",
        "defer+madvise",
        "Then only memory that asked for huge pages (madvise) waits for defragmentation.",
    )
}

/// From 8.0: khugepaged must not fill holes with memory.
pub(super) fn khugepaged(context: &Context) -> Vec<RuleVerdict> {
    let path = format!("{}/khugepaged/max_ptes_none", folder(context));
    let Some(value) = context.view.value(&path) else {
        let claim = "The setting max_ptes_none of khugepaged cannot be read.";
        return vec![RuleVerdict::cannot_tell(claim, format!("Run 'cat /{path}' on the host itself."))];
    };
    let verdict = if value == "0" {
        RuleVerdict::pass("khugepaged merges only pages that are all in use (max_ptes_none 0).")
    } else {
        RuleVerdict::fail(format!(
            "khugepaged can fill a huge page with up to {value} empty pages (max_ptes_none)."
        ))
        .change(thp_change(&path, "0", &value))
    };
    vec![verdict.read(&path, value)]
}

fn sysctl_number(context: &Context, path: &str) -> Result<u64, RuleVerdict> {
    context.view.number(path).ok_or_else(|| {
        let claim = format!("/{path} cannot be read.");
        RuleVerdict::cannot_tell(claim, format!("Run 'sysctl {}' on the host itself.", sysctl_name(path)))
    })
}

/// MongoDB 8.0 and later want 1.
pub(super) fn overcommit_always(context: &Context) -> Vec<RuleVerdict> {
    overcommit(context, &[1])
}

/// Before 8.0: 0 or 1.
pub(super) fn overcommit_not_strict(context: &Context) -> Vec<RuleVerdict> {
    overcommit(context, &[0, 1])
}

fn overcommit(context: &Context, accepted: &[u64]) -> Vec<RuleVerdict> {
    const PATH: &str = "proc/sys/vm/overcommit_memory";
    let value = match sysctl_number(context, PATH) {
        Ok(value) => value,
        Err(verdict) => return vec![verdict],
    };
    let how = match value {
        0 => "grants memory by a heuristic",
        1 => "always grants memory",
        _ => "never grants more than its limit",
    };
    let verdict = if accepted.contains(&value) {
        RuleVerdict::pass(format!("vm.overcommit_memory is {value}: the kernel {how}."))
    } else {
        let verdict = RuleVerdict::fail(format!("vm.overcommit_memory is {value}: the kernel {how}."))
            .change(Change::sysctl(PATH, "1", &value.to_string()));
        // The kernel then refuses memory although some is free.
        if value >= 2 { verdict.priority(Priority::WorthDoing) } else { verdict }
    };
    vec![verdict.read(PATH, value.to_string())]
}

/// 0 or 1; an older control group's own value overrides the system's.
pub(super) fn swappiness(context: &Context) -> Vec<RuleVerdict> {
    const PATH: &str = "proc/sys/vm/swappiness";
    const FORCE: &str = "proc/sys/vm/force_cgroup_v2_swappiness";
    let value = match sysctl_number(context, PATH) {
        Ok(value) => value,
        Err(verdict) => return vec![verdict],
    };
    let swap = meminfo(context, "SwapTotal");
    let mut verdicts = vec![
        match (value, swap) {
            (0 | 1, _) => RuleVerdict::pass(format!("vm.swappiness is {value}.")),
            (_, Some(0)) => RuleVerdict::note(format!(
                "vm.swappiness is {value}; it has no effect while the host has no swap."
            ))
            .evidence("/proc/meminfo: SwapTotal is 0")
            .wanted("Recommended: 1 or 0, before swap is added.")
            .change(Change::sysctl(PATH, "1", &value.to_string())),
            _ => RuleVerdict::fail(format!(
                "vm.swappiness is {value}: the kernel can swap the server out to keep file cache."
            ))
            .change(Change::sysctl(PATH, "1", &value.to_string())),
        }
        .read(PATH, value.to_string()),
    ];
    // With force_cgroup_v2_swappiness the system's value holds everywhere (Red Hat's kernels).
    if context.mongod.is_some() && context.view.number(FORCE) != Some(1) {
        verdicts.extend(swappiness_of_group(context));
    }
    verdicts
}

fn swappiness_of_group(context: &Context) -> Option<RuleVerdict> {
    let path = format!("{}/memory.swappiness", super::control::own_folder(context, "memory")?);
    let value = context.view.number(&path)?;
    let verdict = if value <= 1 {
        RuleVerdict::pass(format!("mongod's control group has a swappiness of {value}."))
    } else {
        RuleVerdict::fail(format!(
            "mongod's control group has a swappiness of {value}, which overrides vm.swappiness."
        ))
        .change(Change::value(&path, "1", &value.to_string()))
    };
    Some(verdict.read(&path, value.to_string()))
}

/// Of the pair (ratio, bytes), the one that is not zero is in force.
fn limit(context: &Context, which: &str) -> Option<(u64, String, String)> {
    let bytes_path = format!("proc/sys/vm/{which}_bytes");
    if let Some(bytes) = context.view.number(&bytes_path).filter(|bytes| *bytes > 0) {
        return Some((bytes, bytes_path, bytes.to_string()));
    }
    let ratio_path = format!("proc/sys/vm/{which}_ratio");
    let ratio = context.view.number(&ratio_path)?;
    let memory = meminfo(context, "MemTotal")?;
    Some((memory.saturating_mul(ratio) / 100, ratio_path, ratio.to_string()))
}

/// Sets one of the dirty limits. Setting one of the pair (ratio, bytes) clears the other, so the undo sets the one that was in force before.
fn dirty_change(name: &str, value: &str, held: &(u64, String, String)) -> Change {
    Change::sysctl_instead(&format!("proc/sys/vm/{name}"), value, (&held.1, &held.2))
}

/// The limits on dirty memory; MongoDB gives no advice on them, but others do.
pub(super) fn dirty(context: &Context) -> Vec<RuleVerdict> {
    const GIB: u64 = 1 << 30;
    let (Some(hard), Some(background)) = (limit(context, "dirty"), limit(context, "dirty_background")) else {
        let claim = "The kernel's dirty limits cannot be read.";
        return vec![RuleVerdict::cannot_tell(claim, "Run 'sysctl -a -r ^vm.dirty' on the host itself.")];
    };
    let memory = meminfo(context, "MemTotal").unwrap_or(u64::MAX);
    let share = |bytes: u64| bytes as f64 * 100.0 / memory as f64;
    let in_gib = |bytes: u64| bytes as f64 / GIB as f64;
    // 15 and 5 of a hundred are the advice; half a point of grace for rounding.
    let modest = share(hard.0) <= 15.5 && share(background.0) <= 5.5;
    let claim = format!(
        "Writers wait from {:.1} GiB of dirty memory on ({:.0} %); writeback starts at {:.1} GiB ({:.0} %).",
        in_gib(hard.0),
        share(hard.0),
        in_gib(background.0),
        share(background.0)
    );
    let verdict = if modest {
        RuleVerdict::pass(claim)
    } else {
        let large = memory != u64::MAX && memory >= 256 * GIB;
        let (first, second, value, lower) = if large {
            ("dirty_bytes", "dirty_background_bytes", "4294967296", "1073741824")
        } else {
            ("dirty_ratio", "dirty_background_ratio", "15", "5")
        };
        RuleVerdict::at(Severity::Note, claim)
            .wanted(
                "MongoDB has no recommendation. Percona recommends 15 and 5 %, or limits in bytes on hosts with much memory, so \
                 that a checkpoint's fsync has less to write.",
            )
            .change(dirty_change(first, value, &hard).and(dirty_change(second, lower, &background)))
    };
    vec![verdict.read(&hard.1, hard.2).read(&background.1, background.2)]
}

/// A line of `/proc/meminfo`, in bytes.
pub(super) fn meminfo(context: &Context, key: &str) -> Option<u64> {
    crate::memory::field_bytes(&context.view.text("proc/meminfo")?, key)
}

fn nodes(context: &Context) -> Option<usize> {
    let names = context.view.list("sys/devices/system/node");
    let count = names
        .iter()
        .filter(|name| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok()))
        .count();
    (count > 0).then_some(count)
}

/// The server's memory should be spread over all nodes.
pub(super) fn interleave(context: &Context) -> Vec<RuleVerdict> {
    const FOLDER: &str = "/sys/devices/system/node";
    let count = match nodes(context) {
        None => {
            return vec![
                RuleVerdict::pass("This kernel does not report NUMA nodes.")
                    .evidence(format!("{FOLDER} has no node")),
            ];
        }
        Some(1) => {
            return vec![
                RuleVerdict::pass("There is one NUMA node.").evidence(format!("{FOLDER} holds node0 only")),
            ];
        }
        Some(count) => count,
    };
    let held = format!("{FOLDER} holds {count} nodes");
    let tells = "Read the first line of /proc/PID/numa_maps of the running mongod, as root.";
    let Some(mongod) = &context.mongod else {
        let claim =
            format!("There are {count} NUMA nodes, and no running mongod shows how its memory is spread.");
        return vec![RuleVerdict::cannot_tell(claim, tells).evidence(held)];
    };
    let path = format!("proc/{}/numa_maps", mongod.pid);
    let Some(first) = context.view.first_line(&path) else {
        let claim = format!(
            "Fathom has no permission to read how mongod spreads its memory over {count} NUMA nodes."
        );
        return vec![RuleVerdict::cannot_tell(claim, tells).evidence(held)];
    };
    let policy = first.split_whitespace().nth(1).unwrap_or("").to_owned();
    let verdict = if policy.starts_with("interleave") {
        RuleVerdict::pass(format!("mongod's memory is interleaved over {count} NUMA nodes."))
    } else {
        RuleVerdict::fail(format!(
            "mongod's memory is not interleaved over {count} NUMA nodes (policy {policy})."
        ))
        .change(Change::by_hand(
            "systemctl edit mongod: ExecStart= and ExecStart=/usr/bin/numactl --interleave=all /usr/bin/mongod --config ...",
        ))
    };
    vec![verdict.evidence(format!("/{path} first line: {first}")).evidence(held)]
}

/// A node must not throw its file cache away while others have memory.
pub(super) fn zone_reclaim(context: &Context) -> Vec<RuleVerdict> {
    const PATH: &str = "proc/sys/vm/zone_reclaim_mode";
    // Kernels without NUMA have no such file.
    let Some(value) = context.view.value(PATH) else { return Vec::new() };
    let verdict = if value == "0" {
        RuleVerdict::pass(
            "A full NUMA node uses the memory of others before it drops cache (zone_reclaim_mode 0).",
        )
    } else {
        RuleVerdict::fail(format!(
            "A full NUMA node drops cache before it uses the memory of others (zone_reclaim_mode {value})."
        ))
        .change(Change::sysctl(PATH, "0", &value))
    };
    vec![verdict.read(PATH, value)]
}

/// The process number of a running numad.
pub(super) fn numad_pid(view: &View) -> Option<String> {
    let mut pids = view.list("proc").into_iter().filter(|name| name.parse::<u32>().is_ok());
    pids.find(|pid| view.value(&format!("proc/{pid}/comm")).is_some_and(|name| name == "numad"))
}

/// numad moves memory that should stay spread.
pub(super) fn numad(context: &Context) -> Vec<RuleVerdict> {
    match numad_pid(&context.view) {
        Some(pid) => {
            let path = format!("proc/{pid}/comm");
            let claim = "numad is running. It moves memory that should stay interleaved.";
            vec![
                RuleVerdict::fail(claim)
                    .read(&path, "numad")
                    .change(Change::command("systemctl disable --now numad", "systemctl enable --now numad")),
            ]
        }
        None => vec![RuleVerdict::pass("numad is not running.").evidence("no /proc/*/comm is numad")],
    }
}
