//! Huge pages, overcommit, swapping, and how much dirty memory the kernel lets pile up before a checkpoint's end.

use fathom_record::Severity;

use super::sysctl::{persistent, set};
use super::{Context, Verdict};

/// Where huge pages are set up; the second is Red Hat's on its kernel 2.6.
const FOLDERS: [&str; 2] =
    ["sys/kernel/mm/transparent_hugepage", "sys/kernel/mm/redhat_transparent_hugepage"];

fn folder(context: &Context) -> &'static str {
    let [usual, red_hat] = FOLDERS;
    if !context.view.exists(usual) && context.view.exists(red_hat) { red_hat } else { usual }
}

/// The command for a huge page setting: now, and at each boot through systemd's tmpfiles.
fn thp_command(path: &str, wanted: &str) -> String {
    format!("echo {wanted} > /{path}\necho 'w /{path} - - - - {wanted}' >> /etc/tmpfiles.d/mongodb-thp.conf")
}

fn thp_choice(context: &Context, file: &str, wanted: &str, why: &str) -> Vec<Verdict> {
    let path = format!("{}/{file}", folder(context));
    let (Some(text), Some(chosen)) = (context.view.value(&path), context.view.choice(&path)) else {
        // A kernel without huge pages has no such folder, which is as good as never.
        if wanted == "never" && !context.view.exists(folder(context)) {
            return vec![
                Verdict::pass("This kernel has no transparent huge pages.")
                    .evidence(format!("/{} is not there", folder(context))),
            ];
        }
        let claim = format!("The setting of huge pages ({file}) cannot be read.");
        return vec![Verdict::cannot_tell(claim, format!("'cat /{path}' on the host itself would tell."))];
    };
    let what = if file == "defrag" { "Huge page defragmentation is" } else { "Transparent huge pages are" };
    let version = context.mongodb;
    let verdict = if chosen == wanted {
        Verdict::pass(format!("{what} set to {chosen}, as MongoDB {version} wants."))
    } else {
        Verdict::fail(format!("{what} set to {chosen}; MongoDB {version} wants {wanted}."))
            .wanted(format!("Wanted: {wanted}. {why}"))
            .command(thp_command(&path, wanted))
    };
    vec![verdict.read(&path, text)]
}

/// Up to 7.0, and later without the newer allocator: never.
pub(super) fn huge_pages_off(context: &Context) -> Vec<Verdict> {
    let why = "This server's memory use is sparse, and huge pages cost it memory and pauses.";
    thp_choice(context, "enabled", "never", why)
}

/// From 8.0, with the newer allocator: always.
pub(super) fn huge_pages_on(context: &Context) -> Vec<Verdict> {
    thp_choice(
        context,
        "enabled",
        "always",
        "The allocator of 8.0 and later is built for huge pages; before 8.0 it was never.",
    )
}

/// Before 8.0: never; from 4.2 the server itself looks at it only while huge pages are on.
pub(super) fn defrag_off(context: &Context) -> Vec<Verdict> {
    let enabled = format!("{}/enabled", folder(context));
    if context.mongodb.0 >= (4, 2, 0) && context.view.choice(&enabled).as_deref() == Some("never") {
        let claim = "Huge page defragmentation is without effect while huge pages are off.";
        return vec![Verdict::pass(claim).read(&enabled, "never")];
    }
    thp_choice(context, "defrag", "never", "Defragmentation on a page fault stalls the server.")
}

/// From 8.0: defer+madvise.
pub(super) fn defrag_deferred(context: &Context) -> Vec<Verdict> {
    thp_choice(context, "defrag", "defer+madvise", "Only what asked for it waits for defragmentation.")
}

/// From 8.0: khugepaged must not fill holes with memory.
pub(super) fn khugepaged(context: &Context) -> Vec<Verdict> {
    let path = format!("{}/khugepaged/max_ptes_none", folder(context));
    let Some(value) = context.view.value(&path) else {
        let claim = "How khugepaged fills holes (max_ptes_none) cannot be read.";
        return vec![Verdict::cannot_tell(claim, format!("'cat /{path}' on the host itself would tell."))];
    };
    let verdict = if value == "0" {
        Verdict::pass("khugepaged merges only pages that are all in use (max_ptes_none 0).")
    } else {
        Verdict::fail(format!("khugepaged may fill {value} missing pages to make a huge one."))
            .command(thp_command(&path, "0"))
    };
    vec![verdict.read(&path, value)]
}

fn sysctl_number(context: &Context, path: &str) -> Result<u64, Verdict> {
    context.view.number(path).ok_or_else(|| {
        let claim = format!("/{path} cannot be read.");
        Verdict::cannot_tell(
            claim,
            format!("'sysctl {}' on the host itself would tell.", super::sysctl::name(path)),
        )
    })
}

/// From 8.0: 1.
pub(super) fn overcommit_always(context: &Context) -> Vec<Verdict> {
    overcommit(context, &[1])
}

/// Before 8.0: 0 or 1.
pub(super) fn overcommit_not_strict(context: &Context) -> Vec<Verdict> {
    overcommit(context, &[0, 1])
}

fn overcommit(context: &Context, accepted: &[u64]) -> Vec<Verdict> {
    const PATH: &str = "proc/sys/vm/overcommit_memory";
    let value = match sysctl_number(context, PATH) {
        Ok(value) => value,
        Err(verdict) => return vec![verdict],
    };
    let how = match value {
        0 => "guesses",
        1 => "always",
        _ => "never",
    };
    let verdict = if accepted.contains(&value) {
        Verdict::pass(format!("The kernel overcommits memory: {how}."))
    } else {
        Verdict::fail(format!("The kernel overcommits memory: {how} ({value}).")).command(set(PATH, "1"))
    };
    vec![verdict.read(PATH, value.to_string())]
}

/// 0 or 1; an older control group's own value overrides the system's.
pub(super) fn swappiness(context: &Context) -> Vec<Verdict> {
    const PATH: &str = "proc/sys/vm/swappiness";
    const FORCE: &str = "proc/sys/vm/force_cgroup_v2_swappiness";
    let value = match sysctl_number(context, PATH) {
        Ok(value) => value,
        Err(verdict) => return vec![verdict],
    };
    let swap = super::numa::meminfo(context, "SwapTotal");
    let mut verdicts = vec![
        match (value, swap) {
            (0 | 1, _) => Verdict::pass(format!("vm.swappiness is {value}.")),
            (_, Some(0)) => {
                Verdict::note(format!("vm.swappiness is {value}, without effect while there is no swap."))
                    .evidence("/proc/meminfo: SwapTotal is 0")
                    .wanted("Wanted: 1 or 0, before swap is added.")
                    .command(set(PATH, "1"))
            }
            _ => Verdict::fail(format!(
                "vm.swappiness is {value}: the kernel swaps the server out to keep file cache."
            ))
            .command(set(PATH, "1")),
        }
        .read(PATH, value.to_string()),
    ];
    // With force_cgroup_v2_swappiness the system's value holds everywhere (Red Hat's kernels).
    if context.mongod.is_some() && context.view.number(FORCE) != Some(1) {
        verdicts.extend(swappiness_of_group(context));
    }
    verdicts
}

fn swappiness_of_group(context: &Context) -> Option<Verdict> {
    let path = format!("{}/memory.swappiness", super::control::own_folder(context, "memory")?);
    let value = context.view.number(&path)?;
    let verdict = if value <= 1 {
        Verdict::pass(format!("mongod's control group has a swappiness of {value}."))
    } else {
        Verdict::fail(format!(
            "mongod's control group has a swappiness of {value}, which overrides vm.swappiness."
        ))
        .command(format!("echo 1 > /{path}"))
    };
    Some(verdict.read(&path, value.to_string()))
}

/// One of the pair (ratio, bytes) holds: the one that is not zero.
fn limit(context: &Context, which: &str) -> Option<(u64, String, String)> {
    let bytes_path = format!("proc/sys/vm/{which}_bytes");
    if let Some(bytes) = context.view.number(&bytes_path).filter(|bytes| *bytes > 0) {
        return Some((bytes, bytes_path, bytes.to_string()));
    }
    let ratio_path = format!("proc/sys/vm/{which}_ratio");
    let ratio = context.view.number(&ratio_path)?;
    let memory = super::numa::meminfo(context, "MemTotal")?;
    Some((memory.saturating_mul(ratio) / 100, ratio_path, ratio.to_string()))
}

/// How much dirty memory may pile up; nobody at MongoDB advises, others do.
pub(super) fn dirty(context: &Context) -> Vec<Verdict> {
    const GIB: u64 = 1 << 30;
    let (Some(hard), Some(background)) = (limit(context, "dirty"), limit(context, "dirty_background")) else {
        let claim = "The kernel's dirty limits cannot be read.";
        return vec![Verdict::cannot_tell(claim, "'sysctl -a -r ^vm.dirty' on the host itself would tell.")];
    };
    let memory = super::numa::meminfo(context, "MemTotal").unwrap_or(u64::MAX);
    let share = |bytes: u64| bytes as f64 * 100.0 / memory as f64;
    let in_gib = |bytes: u64| bytes as f64 / GIB as f64;
    // 15 and 5 of a hundred are the advice; half a point of grace for rounding.
    let modest = share(hard.0) <= 15.5 && share(background.0) <= 5.5;
    let claim = format!(
        "Writers wait at {:.1} GiB of dirty memory ({:.0} %), writeback starts at {:.1} GiB ({:.0} %).",
        in_gib(hard.0),
        share(hard.0),
        in_gib(background.0),
        share(background.0)
    );
    let verdict = if modest {
        Verdict::pass(claim)
    } else {
        let large = memory != u64::MAX && memory >= 256 * GIB;
        let (first, second, value, background) = if large {
            ("vm.dirty_bytes", "vm.dirty_background_bytes", "4294967296", "1073741824")
        } else {
            ("vm.dirty_ratio", "vm.dirty_background_ratio", "15", "5")
        };
        Verdict::at(Severity::Note, claim)
            .wanted(
                "MongoDB says nothing; Percona lowers both (15 and 5 %), in bytes on hosts with much memory, so that \
                 a checkpoint's fsync meets less.",
            )
            .command(format!(
                "sysctl -w {first}={value} {second}={background}\n{}\n{}",
                persistent(first, value),
                persistent(second, background)
            ))
    };
    vec![verdict.read(&hard.1, hard.2).read(&background.1, background.2)]
}
