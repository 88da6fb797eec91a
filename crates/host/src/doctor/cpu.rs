//! Processors: whether they change speed, share a core, or are virtual.

use super::{Context, Verdict};
use crate::View;

/// Why this is taken for a virtual machine, or `None` on metal.
pub(super) fn virtual_machine(view: &View) -> Option<String> {
    const PRODUCT: &str = "sys/class/dmi/id/product_name";
    const VENDOR: &str = "sys/class/dmi/id/sys_vendor";
    const VENDORS: [&str; 8] =
        ["QEMU", "VMware", "Xen", "Amazon EC2", "Google", "innotek", "OpenStack", "DigitalOcean"];
    let product = view.value(PRODUCT).unwrap_or_default();
    if product.contains("metal") {
        return None;
    }
    let vendor = view.value(VENDOR).unwrap_or_default();
    if let Some(name) = view.value("sys/hypervisor/type") {
        return Some(format!("/sys/hypervisor/type = {name}"));
    }
    if VENDORS.iter().any(|name| vendor.starts_with(name)) || product.contains("Virtual") {
        return Some(format!("/{VENDOR} = {vendor}, /{PRODUCT} = {product}"));
    }
    let flags = view.text("proc/cpuinfo")?;
    let flagged =
        flags.lines().find(|line| line.starts_with("flags"))?.split_whitespace().any(|f| f == "hypervisor");
    flagged.then(|| "/proc/cpuinfo: the flag hypervisor is set".to_owned())
}

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
