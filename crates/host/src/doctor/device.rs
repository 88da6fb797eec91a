//! The device under the data: found at all, and what kind of medium it is.
//!
//! The kernel's `rotational` is not believed where something better is known: virtual disks and arrays report
//! what their driver felt like. What a medium really is, only a measured latency at depth 1 tells.

use super::{Context, Verdict};
use crate::{Device, DeviceKind};

/// What a layer is, as far as names and drivers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    /// Flash behind NVMe, or what a cloud presents as such.
    Nvme,
    /// A virtual machine's disk.
    Virtual,
    /// A volume of an array, over iSCSI.
    Remote,
    /// A local disk that says it does not turn.
    SolidState,
    /// A local disk that says it turns.
    Spinning,
    /// A device made of others, or of a file.
    Stacked,
}

/// What `device` is.
pub(super) fn medium(context: &Context, device: &Device) -> Medium {
    let name = device.name.as_str();
    if device.kind != DeviceKind::Disk || !device.below.is_empty() {
        Medium::Stacked
    } else if name.starts_with("nvme") {
        Medium::Nvme
    } else if crate::scsi::iscsi_host(&context.view, device).is_some() {
        Medium::Remote
    } else if context.virtual_machine.is_some() || name.starts_with("vd") || name.starts_with("xvd") {
        Medium::Virtual
    } else if context.view.number(&format!("{}/rotational", device.queue())) == Some(0) {
        Medium::SolidState
    } else {
        Medium::Spinning
    }
}

/// Whether the device under the data can be seen; without it, nothing is said of queues.
pub(super) fn found(context: &Context) -> Vec<Verdict> {
    let Some(mount) = &context.mount else {
        let claim = format!("No mount is known that holds {}.", context.dir.display());
        return vec![Verdict::cannot_tell(claim, "Name the folder that mongod uses with --dir.")];
    };
    let on = format!(
        "{} is {} on {}",
        mount.mount_point.display(),
        mount.fs_type,
        super::filesystem::public_source(&mount.source)
    );
    if context.layers.is_empty() {
        let claim = "The block device under the data is not visible here, so scheduler, read-ahead, cache, RAID \
                     and transport were not judged.";
        let tells =
            "Run fathom doctor on the host itself (not in the container), or name the volume with --dir.";
        let number = format!("Its device number is {}; /sys/block has no such device.", mount.number);
        return vec![Verdict::cannot_tell(claim, tells).evidence(format!("{on}.")).evidence(number)];
    }
    let stack: Vec<String> = context.layers.iter().map(describe).collect();
    vec![
        Verdict::pass(format!("The data stands on {}.", stack.join(", ")))
            .evidence(format!("/proc/self/mountinfo: {on}, device number {}", mount.number)),
    ]
}

fn describe(device: &Device) -> String {
    match &device.mapper_name {
        Some(name) => format!("{} ({name})", device.name),
        None => device.name.clone(),
    }
}

/// `rotational`, against what is known otherwise.
pub(super) fn rotational(context: &Context) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for device in context.leaves() {
        let path = format!("{}/rotational", device.queue());
        let name = &device.name;
        let Some(value) = context.view.value(&path) else {
            verdicts.push(Verdict::cannot_tell(
                format!("Whether the kernel takes {name} for a spinning disk cannot be read."),
                format!("/{path} would tell; the latency that fathom disk measures at depth 1 tells more."),
            ));
            continue;
        };
        let medium = medium(context, device);
        let doubtful = value == "1" && !matches!(medium, Medium::Spinning | Medium::Stacked);
        let verdict = if doubtful {
            Verdict::note(format!(
                "The kernel takes {name} for a spinning disk; that is only its driver's word."
            ))
            .wanted("Do not classify by it: the latency that fathom disk measures at depth 1 tells.")
        } else {
            let turns = if value == "1" { "turns" } else { "does not turn" };
            Verdict::pass(format!("{name} says that it {turns}; not used to judge it."))
        };
        verdicts.push(verdict.read(&path, value));
    }
    verdicts
}
