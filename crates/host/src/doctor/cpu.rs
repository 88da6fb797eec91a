//! Processors: whether they change speed, share a core, or are virtual, and whether 8.0's allocator gets a cache for
//! each of them.
//!
//! That cache needs restartable sequences; on some kernels these decide whether the server survives its first minute.
//! Only one library per process may register with the kernel. `glibc.pthread.rseq=0` leaves that to the allocator
//! (fast); `=1` keeps it for the C library (the way round the crash on kernels from 6.19).

use super::mongod::{Tunables, tunables};
use super::{Context, Verdict};

/// The frequency governor.
pub(super) fn governor(context: &Context) -> Vec<Verdict> {
    const PATH: &str = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let Some(value) = context.view.value(PATH) else {
        return vec![
            Verdict::pass("No frequency governor is in our hands here.")
                .evidence(format!("/{PATH} is not there")),
        ];
    };
    let verdict = if value == "performance" {
        Verdict::pass("The processors stay at full speed (governor performance).")
    } else {
        Verdict::fail(format!(
            "The processors change speed (governor {value}): latency varies from run to run."
        ))
        .command("cpupower frequency-set -g performance")
    };
    vec![verdict.read(PATH, value)]
}

/// Two threads on one core.
pub(super) fn threads_per_core(context: &Context) -> Vec<Verdict> {
    const PATH: &str = "sys/devices/system/cpu/smt/control";
    // Kernels before 4.19 have no such file.
    let Some(value) = context.view.value(PATH) else {
        let claim = "Whether processors share a core cannot be read.";
        return vec![Verdict::cannot_tell(claim, "'lscpu' (Thread(s) per core) would tell.")];
    };
    let verdict = if value == "on" {
        Verdict::fail("Two processors share each core: a busy neighbour slows the other.")
            .command("echo off > /sys/devices/system/cpu/smt/control")
    } else {
        Verdict::pass(format!("Processors share no core that we could separate (smt {value})."))
    };
    vec![verdict.read(PATH, value)]
}

/// Whether this is a virtual machine, which decides the scheduler.
pub(super) fn virtualisation(context: &Context) -> Vec<Verdict> {
    vec![match &context.virtual_machine {
        Some(why) => {
            Verdict::pass("This is a virtual machine: its disks are somebody else's queue.").evidence(why)
        }
        None => Verdict::pass("Nothing says that this is a virtual machine."),
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
        Tunables::Unreadable => format!("{path} may not be read; run as root"),
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

fn command(value: &str) -> String {
    format!("systemctl edit mongod\n# [Service]\n# Environment=GLIBC_TUNABLES=glibc.pthread.rseq={value}")
}

fn kernel(context: &Context) -> String {
    format!("/proc/sys/kernel/osrelease = {}", context.kernel)
}

/// Kernels that are safe: rseq=0, so that the allocator gets its caches.
pub(super) fn allocator(context: &Context) -> Vec<Verdict> {
    let (tunables, value, evidence) = setting(context);
    let verdict = match (tunables, value) {
        (_, Some("0")) => Verdict::pass("mongod's allocator has a cache for each CPU (rseq=0)."),
        (Tunables::Unreadable, _) => Verdict::cannot_tell(
            "Whether mongod's allocator gets a cache for each CPU cannot be told.",
            "The environment of the running mongod would tell: it should hold GLIBC_TUNABLES=glibc.pthread.rseq=0.",
        ),
        _ => {
            Verdict::fail("mongod does not set rseq=0: its allocator falls back to a cache for each thread.")
                .command(command("0"))
        }
    };
    vec![verdict.evidence(evidence)]
}

/// Kernels on which servers from 8.0 crash, or refuse to start.
pub(super) fn crash(context: &Context) -> Vec<Verdict> {
    let (_, value, evidence) = setting(context);
    let mongodb = context.mongodb;
    let fixed = context.kernel_numbers() >= FIXED;
    let verdict = match value {
        Some("1") => {
            Verdict::pass(format!("mongod {mongodb} runs with rseq=1, the way round this kernel's crash."))
        }
        _ if fixed && context.architecture == "x86_64" => Verdict::note(format!(
            "This kernel no longer crashes MongoDB {mongodb}, but the server may still refuse to start on it."
        ))
        .wanted("Kernel 7.0.14 or later lifts the server's guard; rseq=1 is the way round.")
        .command(command("1")),
        _ => {
            let verdict = Verdict::fail(format!(
                "MongoDB {mongodb} on this kernel crashes within a minute (SIGSEGV), or refuses to start (log id \
                 12257600)."
            ))
            .command(command("1"));
            if context.mongod.is_some() { verdict } else { verdict.likely() }
        }
    };
    vec![verdict.evidence(kernel(context)).evidence(evidence)]
}

/// Later kernels on ARM, where the fix was pending when this was written.
pub(super) fn crash_pending(context: &Context) -> Vec<Verdict> {
    let (_, value, evidence) = setting(context);
    let verdict = match value {
        Some("1") => Verdict::pass("mongod runs with rseq=1, the way round the crash on newer kernels."),
        _ => Verdict::cannot_tell(
            "Whether this kernel has the fix for the crash of MongoDB 8.0 and later on ARM cannot be told.",
            "The kernel's change log would tell; rseq=1 is the way round.",
        )
        .command(command("1")),
    };
    vec![verdict.evidence(kernel(context)).evidence(evidence)]
}

/// Kernels too old for the allocator's caches.
pub(super) fn unavailable(context: &Context) -> Vec<Verdict> {
    let claim = "This kernel is too old for the allocator's caches per CPU, which need 4.18.";
    vec![Verdict::fail(claim).evidence(kernel(context))]
}
