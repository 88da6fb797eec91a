//! System-wide maxima and the keepalive time, and the commands that set any of `/proc/sys`.

use super::{Context, Verdict, limits};

/// `vm.swappiness` for `proc/sys/vm/swappiness`.
pub(super) fn name(path: &str) -> String {
    path.trim_start_matches("proc/sys/").replace('/', ".")
}

/// The line that makes a value outlive a restart.
pub(super) fn persistent(name: &str, value: &str) -> String {
    format!("echo '{name} = {value}' >> /etc/sysctl.d/99-mongodb.conf")
}

/// The command that sets a value now and after a restart.
pub(super) fn set(path: &str, value: &str) -> String {
    let name = name(path);
    format!("sysctl -w {name}={value}\n{}", persistent(&name, value))
}

fn at_least(context: &Context, path: &str, wanted: u64) -> Vec<Verdict> {
    let name = name(path);
    let Some(value) = context.view.number(path) else {
        let claim = format!("{name} cannot be read.");
        return vec![Verdict::cannot_tell(claim, format!("'sysctl {name}' on the host itself would tell."))];
    };
    let verdict = if value >= wanted {
        Verdict::pass(format!("{name} is {value}."))
    } else {
        Verdict::fail(format!("{name} is {value}, below {wanted}.")).command(set(path, &wanted.to_string()))
    };
    vec![verdict.read(path, value.to_string())]
}

/// Open files of the whole system.
pub(super) fn file_max(context: &Context) -> Vec<Verdict> {
    at_least(context, "proc/sys/fs/file-max", 98_000)
}

/// Process numbers, which threads use up too.
pub(super) fn pid_max(context: &Context) -> Vec<Verdict> {
    at_least(context, "proc/sys/kernel/pid_max", 64_000)
}

/// Threads of the whole system.
pub(super) fn threads_max(context: &Context) -> Vec<Verdict> {
    at_least(context, "proc/sys/kernel/threads-max", 64_000)
}

/// Memory maps of one process; mongod wants two for each connection it may take.
pub(super) fn map_count(context: &Context) -> Vec<Verdict> {
    const PATH: &str = "proc/sys/vm/max_map_count";
    let Some(connections) = limits::connections_max(context) else { return at_least(context, PATH, 131_060) };
    let wanted = connections.saturating_mul(2).max(131_060);
    let evidence =
        format!("mongod may take {connections} connections: 80 % of its open files, at most 1000000");
    at_least(context, PATH, wanted).into_iter().map(|verdict| verdict.evidence(evidence.clone())).collect()
}

/// Idle connections must be probed before a firewall forgets them.
pub(super) fn keepalive(context: &Context) -> Vec<Verdict> {
    const PATH: &str = "proc/sys/net/ipv4/tcp_keepalive_time";
    let Some(seconds) = context.view.number(PATH) else {
        let claim = "The TCP keepalive time cannot be read.";
        return vec![Verdict::cannot_tell(claim, "'sysctl net.ipv4.tcp_keepalive_time' would tell.")];
    };
    let verdict = if seconds <= 120 {
        Verdict::pass(format!("Idle connections are probed after {seconds} s."))
    } else {
        let capped = if seconds > 300 { "; mongod itself caps it at 300 s" } else { "" };
        Verdict::fail(format!("Idle connections are probed only after {seconds} s{capped}."))
            .wanted("Wanted: 120 s (100 to 120 on Azure); mongod and mongos must be restarted to take it up.")
            .command(set(PATH, "120"))
    };
    vec![verdict.read(PATH, seconds.to_string())]
}
