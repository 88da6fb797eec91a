//! Memory that is nearer to some CPUs than to others, and what moves pages between them.

use super::sysctl::set;
use super::{Context, Verdict};
use crate::View;

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
pub(super) fn interleave(context: &Context) -> Vec<Verdict> {
    const FOLDER: &str = "/sys/devices/system/node";
    let count = match nodes(context) {
        None => {
            return vec![
                Verdict::pass("This kernel knows no NUMA nodes.").evidence(format!("{FOLDER} has no node")),
            ];
        }
        Some(1) => {
            return vec![
                Verdict::pass("There is one NUMA node.").evidence(format!("{FOLDER} holds node0 only")),
            ];
        }
        Some(count) => count,
    };
    let held = format!("{FOLDER} holds {count} nodes");
    let tells = "The first line of /proc/PID/numa_maps of the running mongod, read as root, would tell.";
    let Some(mongod) = &context.mongod else {
        let claim =
            format!("There are {count} NUMA nodes, and no running mongod shows how its memory is spread.");
        return vec![Verdict::cannot_tell(claim, tells).evidence(held)];
    };
    let path = format!("proc/{}/numa_maps", mongod.pid);
    let Some(first) = super::snapshot::first_line(&context.view, &path) else {
        let claim = format!("How mongod spreads its memory over {count} NUMA nodes may not be read.");
        return vec![Verdict::cannot_tell(claim, tells).evidence(held)];
    };
    let policy = first.split_whitespace().nth(1).unwrap_or("").to_owned();
    let verdict = if policy.starts_with("interleave") {
        Verdict::pass(format!("mongod's memory is interleaved over {count} NUMA nodes."))
    } else {
        Verdict::fail(format!(
            "mongod's memory is not interleaved over {count} NUMA nodes (policy {policy})."
        ))
        .command(
            "systemctl edit mongod\n# ExecStart=/usr/bin/numactl --interleave=all /usr/bin/mongod --config …",
        )
    };
    vec![verdict.evidence(format!("/{path} first line: {first}")).evidence(held)]
}

/// A node must not throw its file cache away while others have memory.
pub(super) fn zone_reclaim(context: &Context) -> Vec<Verdict> {
    const PATH: &str = "proc/sys/vm/zone_reclaim_mode";
    // Kernels without NUMA have no such file.
    let Some(value) = context.view.value(PATH) else { return Vec::new() };
    let verdict = if value == "0" {
        Verdict::pass("No NUMA node reclaims its own cache first (zone_reclaim_mode 0).")
    } else {
        Verdict::fail(format!("A NUMA node throws away cache before it uses another's memory ({value})."))
            .command(set(PATH, "0"))
    };
    vec![verdict.read(PATH, value)]
}

/// The process number of a running numad.
pub(super) fn numad_pid(view: &View) -> Option<String> {
    let mut pids = view.list("proc").into_iter().filter(|name| name.parse::<u32>().is_ok());
    pids.find(|pid| view.value(&format!("proc/{pid}/comm")).is_some_and(|name| name == "numad"))
}

/// numad moves what should stay spread.
pub(super) fn numad(context: &Context) -> Vec<Verdict> {
    match numad_pid(&context.view) {
        Some(pid) => {
            let path = format!("proc/{pid}/comm");
            let claim = "numad runs, and moves memory that should stay spread.";
            vec![Verdict::fail(claim).read(&path, "numad").command("systemctl disable --now numad")]
        }
        None => vec![Verdict::pass("numad does not run.").evidence("no /proc/*/comm is numad")],
    }
}
