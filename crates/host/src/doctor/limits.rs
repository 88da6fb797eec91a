//! Rules on the limits of the running mongod and those of the whole system.
//!
//! The server's limits are read from its own `/proc/PID/limits`, since they may differ from ours.

use super::change::{Change, sysctl_name};
use super::{Context, RuleVerdict};

/// The vendor's floor for open files and for processes.
const MIN_RECOMMENDED_LIMIT: u64 = 64_000;

/// The soft limit called `name`; unlimited is the largest number.
fn soft(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn in_words(value: u64) -> String {
    if value == u64::MAX { "unlimited".to_owned() } else { value.to_string() }
}

struct ProcessLimits {
    path: String,
    text: String,
}

/// The running server's limits; without one, [`open_files`] reports for all rules here that they are unknown.
fn read(context: &Context, what: &str) -> Option<Result<ProcessLimits, RuleVerdict>> {
    let path = format!("proc/{}/limits", context.mongod.as_ref()?.pid);
    Some(match context.view.text(&path) {
        Some(text) => Ok(ProcessLimits { path, text }),
        None => {
            let claim = format!("Fathom has no permission to read mongod's limits on {what}.");
            Err(RuleVerdict::cannot_tell(claim, format!("Read /{path} as root.")))
        }
    })
}

/// The number of connections that the server accepts by default: 80 % of its open files, at most a million (the server
/// logs 838860 for a limit of 1048576 in message 5123300).
pub(super) fn connections_max(context: &Context) -> Option<u64> {
    let limits = read(context, "open files")?.ok()?;
    let files = soft(&limits.text, "Max open files")?;
    Some((files / 5).saturating_mul(4).saturating_add(files % 5 * 4 / 5).min(1_000_000))
}

fn floor(limits: &ProcessLimits, name: &str, wanted: u64, unit: &str) -> RuleVerdict {
    let Some(value) = soft(&limits.text, name) else {
        let claim = format!("/{} has no line '{name}'.", limits.path);
        return RuleVerdict::cannot_tell(claim, "Run 'prlimit --pid PID'.");
    };
    let evidence = format!("/{}: {name}, soft limit {}", limits.path, in_words(value));
    if value >= wanted {
        RuleVerdict::pass(format!("mongod is allowed {} {unit}.", in_words(value))).evidence(evidence)
    } else {
        RuleVerdict::fail(format!("mongod is allowed {value} {unit}, fewer than {wanted}."))
            .evidence(evidence)
    }
}

/// Limits of the service, as systemd calls them.
fn service_limits(context: &Context, name: &str, limits: &[&str]) -> Change {
    if context.mongod.as_ref().is_some_and(|mongod| mongod.pid == 1) {
        return Change::by_hand(format!(
            "in the container's definition (docker run --ulimit), set the limit that systemd calls {}",
            limits.join(", ")
        ));
    }
    Change::service(name, limits)
}

pub(super) fn open_files(context: &Context) -> Vec<RuleVerdict> {
    match read(context, "open files") {
        None => {
            let claim = "No mongod runs here, so its limits (open files, processes, memory) cannot be read.";
            vec![RuleVerdict::cannot_tell(
                claim,
                "Run fathom doctor while mongod runs, or read /proc/PID/limits of the running mongod.",
            )]
        }
        Some(Ok(limits)) => {
            let verdict = floor(&limits, "Max open files", MIN_RECOMMENDED_LIMIT, "open files");
            vec![verdict.change(service_limits(context, "open-files", &["LimitNOFILE=64000"]))]
        }
        Some(Err(verdict)) => vec![verdict],
    }
}

/// Processes and threads: the floor, and at least half the open files.
pub(super) fn processes(context: &Context) -> Vec<RuleVerdict> {
    match read(context, "processes") {
        None => Vec::new(),
        Some(Ok(limits)) => {
            let files = soft(&limits.text, "Max open files").unwrap_or(0);
            let wanted =
                if files == u64::MAX { MIN_RECOMMENDED_LIMIT } else { MIN_RECOMMENDED_LIMIT.max(files / 2) };
            let verdict = floor(&limits, "Max processes", wanted, "processes and threads");
            vec![verdict.change(service_limits(context, "processes", &[&format!("LimitNPROC={wanted}")]))]
        }
        Some(Err(verdict)) => vec![verdict],
    }
}

/// The resources that must have no limit at all.
pub(super) fn unlimited(context: &Context) -> Vec<RuleVerdict> {
    const NAMES: [(&str, &str); 4] = [
        ("Max file size", "LimitFSIZE"),
        ("Max cpu time", "LimitCPU"),
        ("Max address space", "LimitAS"),
        ("Max locked memory", "LimitMEMLOCK"),
    ];
    let limits = match read(context, "memory, file size and time") {
        None => return Vec::new(),
        Some(Ok(limits)) => limits,
        Some(Err(verdict)) => return vec![verdict],
    };
    let bounded: Vec<(&str, &str, u64)> = NAMES
        .iter()
        .filter_map(|(name, unit)| Some((*name, *unit, soft(&limits.text, name)?)))
        .filter(|(.., value)| *value != u64::MAX)
        .collect();
    if bounded.is_empty() {
        let evidence = format!("/{}: file size, cpu time, address space, locked memory", limits.path);
        return vec![RuleVerdict::pass("mongod's other limits are unlimited.").evidence(evidence)];
    }
    let names: Vec<String> = bounded.iter().map(|(name, ..)| name.replacen("Max ", "", 1)).collect();
    let lines: Vec<String> = bounded.iter().map(|(_, unit, _)| format!("{unit}=infinity")).collect();
    let verdict =
        RuleVerdict::fail(format!("mongod has limits that should be unlimited: {}.", names.join(", ")))
            .change(service_limits(context, "limits", &lines.iter().map(String::as_str).collect::<Vec<_>>()));
    vec![bounded.iter().fold(verdict, |verdict, (name, _, value)| {
        verdict.evidence(format!("/{}: {name}, soft limit {value}", limits.path))
    })]
}

fn at_least(context: &Context, path: &str, wanted: u64) -> Vec<RuleVerdict> {
    let name = sysctl_name(path);
    let Some(value) = context.view.number(path) else {
        let claim = format!("{name} cannot be read.");
        return vec![RuleVerdict::cannot_tell(claim, format!("Run 'sysctl {name}' on the host itself."))];
    };
    let verdict = if value >= wanted {
        RuleVerdict::pass(format!("{name} is {value}."))
    } else {
        RuleVerdict::fail(format!("{name} is {value}, below {wanted}.")).change(Change::sysctl(
            path,
            &wanted.to_string(),
            &value.to_string(),
        ))
    };
    vec![verdict.read(path, value.to_string())]
}

/// Open files of the whole system.
pub(super) fn file_max(context: &Context) -> Vec<RuleVerdict> {
    at_least(context, "proc/sys/fs/file-max", 98_000)
}

/// Process numbers, which threads use up too.
pub(super) fn pid_max(context: &Context) -> Vec<RuleVerdict> {
    at_least(context, "proc/sys/kernel/pid_max", 64_000)
}

/// Threads of the whole system.
pub(super) fn threads_max(context: &Context) -> Vec<RuleVerdict> {
    at_least(context, "proc/sys/kernel/threads-max", 64_000)
}

/// Memory maps of one process; mongod wants two for each connection it may take.
pub(super) fn map_count(context: &Context) -> Vec<RuleVerdict> {
    const PATH: &str = "proc/sys/vm/max_map_count";
    let Some(connections) = connections_max(context) else { return at_least(context, PATH, 131_060) };
    let wanted = connections.saturating_mul(2).max(131_060);
    let evidence =
        format!("mongod accepts up to {connections} connections: 80 % of its open files, at most 1000000");
    at_least(context, PATH, wanted).into_iter().map(|verdict| verdict.evidence(evidence.clone())).collect()
}

/// Idle connections must be probed before a firewall forgets them.
pub(super) fn keepalive(context: &Context) -> Vec<RuleVerdict> {
    const PATH: &str = "proc/sys/net/ipv4/tcp_keepalive_time";
    let Some(seconds) = context.view.number(PATH) else {
        let claim = "The TCP keepalive time cannot be read.";
        return vec![RuleVerdict::cannot_tell(claim, "Run 'sysctl net.ipv4.tcp_keepalive_time'.")];
    };
    let verdict = if seconds <= 120 {
        RuleVerdict::pass(format!("TCP keepalive probes idle connections after {seconds} s."))
    } else {
        let capped = if seconds > 300 { " (those of mongod after 300 s)" } else { "" };
        RuleVerdict::fail(format!("TCP keepalive probes idle connections only after {seconds} s{capped}."))
            .wanted("Recommended: 120 s (100 to 120 on Azure). mongod and mongos read it when they start: restart them.")
            .change(Change::sysctl(PATH, "120", &seconds.to_string()))
    };
    vec![verdict.read(PATH, seconds.to_string())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limits_are_the_first_column() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max cpu time              unlimited            unlimited            seconds   \n\
                    Max open files            1024                 524288               files     \n";
        assert_eq!(soft(text, "Max open files"), Some(1024));
        assert_eq!(soft(text, "Max cpu time"), Some(u64::MAX));
        assert_eq!(soft(text, "Max processes"), None);
    }
}
