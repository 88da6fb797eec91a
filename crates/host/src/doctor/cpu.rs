//! Rules on processors: changes of speed, shared cores, virtual processors, and the per-processor caches of 8.0's
//! allocator.
//!
//! These caches need restartable sequences; on some kernels they decide whether the server survives its first minute.
//! Only one library per process may register with the kernel. `glibc.pthread.rseq=0` leaves that to the allocator
//! (fast); `=1` keeps it for the C library (the workaround for the crash on kernels from 6.19).

use super::change::{Change, quoted};
use super::mongod::{Tunables, tunables};
use super::{Context, RuleVerdict};

pub(super) fn governor(context: &Context) -> Vec<RuleVerdict> {
    const PATH: &str = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let Some(value) = context.view.value(PATH) else {
        return vec![
            RuleVerdict::pass("The kernel offers no frequency governor here.")
                .evidence(format!("/{PATH} is not there")),
        ];
    };
    let verdict = if value == "performance" {
        RuleVerdict::pass("The processors stay at full speed (governor performance).")
    } else {
        RuleVerdict::fail(format!(
            "The processors change their speed (governor {value}), so latency varies from run to run."
        ))
        .change(Change::command(
            "cpupower frequency-set -g performance",
            format!("cpupower frequency-set -g {}", quoted(&value)),
        ))
    };
    vec![verdict.read(PATH, value)]
}

/// Two threads on one core.
pub(super) fn threads_per_core(context: &Context) -> Vec<RuleVerdict> {
    const PATH: &str = "sys/devices/system/cpu/smt/control";
    // Kernels before 4.19 have no such file.
    let Some(value) = context.view.value(PATH) else {
        let claim = "Fathom cannot determine whether processors share a core.";
        return vec![RuleVerdict::cannot_tell(claim, "Run 'lscpu' and read 'Thread(s) per core'.")];
    };
    let verdict = if value == "on" {
        RuleVerdict::fail("Two processors share each core: work on one slows the other.")
            .change(Change::value(PATH, "off", &value))
    } else {
        RuleVerdict::pass(format!("No two processors share a core (smt {value})."))
    };
    vec![verdict.read(PATH, value)]
}

/// Checks for a virtual machine, which decides the scheduler.
pub(super) fn virtualisation(context: &Context) -> Vec<RuleVerdict> {
    vec![match &context.virtual_machine {
        Some(why) => {
            RuleVerdict::pass("This is a virtual machine: the hypervisor orders the requests of its disks.")
                .evidence(why)
        }
        None => RuleVerdict::pass("No sign of a virtual machine was found."),
    }]
}

/// The fix on the kernel's side.
const FIXED: (u32, u32, u32) = (7, 0, 10);

fn setting(context: &Context) -> (Tunables, Option<&'static str>, String) {
    let Some(mongod) = &context.mongod else {
        return (
            Tunables::Unreadable,
            None,
            "no mongod runs, so its GLIBC_TUNABLES cannot be read".to_owned(),
        );
    };
    let path = format!("/proc/{}/environ", mongod.pid);
    let tunables = tunables(&context.view, mongod.pid);
    let evidence = match &tunables {
        Tunables::Unreadable => format!("{path} can be read by root only"),
        Tunables::Unset => format!("{path}: GLIBC_TUNABLES is not set"),
        Tunables::Set(value) => format!("{path}: GLIBC_TUNABLES={value}"),
    };
    let value = match &tunables {
        Tunables::Set(text) => text.split(':').rev().find_map(|entry| match entry {
            "glibc.pthread.rseq=0" => Some("0"),
            "glibc.pthread.rseq=1" => Some("1"),
            _ => None,
        }),
        _ => None,
    };
    (tunables, value, evidence)
}

/// Sets the tunable, and keeps the others that the server has.
fn tunable(tunables: &Tunables, value: &str) -> Change {
    const NAME: &str = "glibc.pthread.rseq=";
    let mut all: Vec<String> = match tunables {
        Tunables::Set(text) => text
            .split(':')
            .filter(|one| !one.is_empty() && !one.starts_with(NAME))
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    };
    all.push(format!("{NAME}{value}"));
    Change::service("rseq", &[&format!("Environment=GLIBC_TUNABLES={}", all.join(":"))])
}

fn kernel(context: &Context) -> String {
    format!("/proc/sys/kernel/osrelease = {}", context.kernel)
}

/// On safe kernels: rseq=0, so that the allocator gets its caches.
pub(super) fn allocator(context: &Context) -> Vec<RuleVerdict> {
    let (tunables, value, evidence) = setting(context);
    let verdict = match (&tunables, value) {
        (_, Some("0")) => RuleVerdict::pass("mongod's allocator has a cache for each CPU (rseq=0)."),
        (Tunables::Unreadable, _) => RuleVerdict::cannot_tell(
            "Fathom cannot determine whether mongod's allocator has a cache for each CPU.",
            "Read the environment of the running mongod (/proc/PID/environ, as root): it should have GLIBC_TUNABLES=glibc.pthread.rseq=0.",
        ),
        _ => RuleVerdict::fail(
            "mongod does not set rseq=0: its allocator falls back to a cache for each thread.",
        )
        .change(tunable(&tunables, "0")),
    };
    vec![verdict.evidence(evidence)]
}

/// Kernels on which servers from 8.0 crash, or refuse to start.
pub(super) fn crash(context: &Context) -> Vec<RuleVerdict> {
    let (tunables, value, evidence) = setting(context);
    let mongodb = context.mongodb;
    let fixed = context.kernel_numbers() >= FIXED;
    let verdict = match value {
        Some("1") => RuleVerdict::pass(format!(
            "mongod {mongodb} runs with rseq=1, the workaround for the crash on this kernel."
        )),
        _ if fixed && context.architecture == "x86_64" => RuleVerdict::note(format!(
            "This kernel no longer crashes MongoDB {mongodb}, but the server may still refuse to start on it."
        ))
        .wanted("From kernel 7.0.14 on the server starts; rseq=1 is the workaround before.")
        .change(tunable(&tunables, "1")),
        _ => {
            let verdict = RuleVerdict::fail(format!(
                "MongoDB {mongodb} on this kernel crashes within a minute (SIGSEGV), or refuses to start (log id \
                 12257600)."
            ))
            .change(tunable(&tunables, "1"));
            if context.mongod.is_some() { verdict } else { verdict.likely() }
        }
    };
    vec![verdict.evidence(kernel(context)).evidence(evidence)]
}

/// Later kernels on ARM, where the fix was pending when this was written.
pub(super) fn crash_pending(context: &Context) -> Vec<RuleVerdict> {
    let (tunables, value, evidence) = setting(context);
    let verdict = match value {
        Some("1") => RuleVerdict::pass("mongod runs with rseq=1, the workaround for the crash on newer kernels."),
        _ => RuleVerdict::cannot_tell(
            "Fathom cannot determine whether this kernel has the fix for the crash of MongoDB 8.0 and later on ARM.",
            "See the kernel's change log; rseq=1 is the workaround.",
        )
        .change(tunable(&tunables, "1")),
    };
    vec![verdict.evidence(kernel(context)).evidence(evidence)]
}

/// Kernels too old for the allocator's caches.
pub(super) fn unavailable(context: &Context) -> Vec<RuleVerdict> {
    let claim = "This kernel is too old for the allocator's caches per CPU, which need 4.18.";
    vec![RuleVerdict::fail(claim).evidence(kernel(context))]
}
