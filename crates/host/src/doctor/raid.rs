//! Rules on devices made of several: software RAID, and the stripes of RAID and LVM compared with the file system's own.

use super::change::Change;
use super::{Context, RuleVerdict};
use crate::{Device, DeviceKind, Mount};

fn arrays(context: &Context) -> impl Iterator<Item = &Device> {
    context.stack.layers.iter().filter(|device| device.kind == DeviceKind::Raid)
}

/// RAID-10 is advised, 5 and 6 are not.
pub(super) fn level(context: &Context) -> Vec<RuleVerdict> {
    let mut verdicts = Vec::new();
    for device in arrays(context) {
        let folder = format!("{}/md", device.sysfs());
        let path = format!("{folder}/level");
        let name = &device.name;
        let Some(level) = context.view.value(&path) else {
            let claim = format!("The level of {name} cannot be read.");
            verdicts.push(RuleVerdict::cannot_tell(claim, "Read /proc/mdstat."));
            continue;
        };
        let verdict = match level.as_str() {
            "raid10" => RuleVerdict::pass(format!("{name} is RAID-10.")),
            "raid1" => RuleVerdict::pass(format!("{name} is a mirror (RAID-1).")),
            "raid4" | "raid5" | "raid6" => RuleVerdict::fail(format!(
                "{name} is {}: each small write also reads and writes the parity.",
                level.to_uppercase()
            ))
            .wanted("Recommended: RAID-10. To change the level of an array that is in use, build a new one."),
            "raid0" => RuleVerdict::note(format!(
                "{name} is RAID-0: the first disk that fails loses all of it."
            ))
            .wanted(
                "Recommended: RAID-10, unless a replica set keeps the data and you can afford to lose this member.",
            ),
            other => RuleVerdict::note(format!("{name} is {other}.")).wanted("Recommended: RAID-10."),
        };
        let facts = ["raid_disks", "chunk_size", "layout", "stripe_cache_size"];
        verdicts.push(facts.iter().fold(verdict.read(&path, level), |verdict, fact| {
            let path = format!("{folder}/{fact}");
            match context.view.value(&path) {
                Some(value) => verdict.read(&path, value),
                None => verdict,
            }
        }));
    }
    verdicts
}

/// Checks for degraded arrays, and those that resync or check themselves.
pub(super) fn state(context: &Context) -> Vec<RuleVerdict> {
    let mut verdicts = Vec::new();
    for device in arrays(context) {
        let folder = format!("{}/md", device.sysfs());
        let name = &device.name;
        let (degraded, action) = (format!("{folder}/degraded"), format!("{folder}/sync_action"));
        // Arrays without redundancy (RAID-0, linear) have neither file.
        let Some(missing) = context.view.value(&degraded) else { continue };
        let doing = context.view.value(&action).unwrap_or_else(|| "unknown".to_owned());
        let verdict = match (missing.as_str(), doing.as_str()) {
            ("0", "idle" | "frozen" | "unknown") => {
                RuleVerdict::pass(format!("{name} has all of its disks and does not resync."))
            }
            ("0", doing) => RuleVerdict::fail(format!(
                "{name} is busy with maintenance ({doing}), so measurements taken now are not valid."
            ))
            .wanted("Wait until it ends; /proc/mdstat shows its progress."),
            (missing, doing) => {
                RuleVerdict::fail(format!("{missing} of the disks of {name} are missing (now: {doing})."))
                    .wanted("Replace the failed disk and let the array rebuild before measuring.")
                    .change(
                        Change::by_hand(format!("mdadm --detail /dev/{name}, then with the new disk:"))
                            .and(Change::by_hand(format!("mdadm /dev/{name} --add /dev/NEW_DISK"))),
                    )
            }
        };
        verdicts.push(verdict.read(&degraded, missing).read(&action, doing));
    }
    verdicts
}

/// The file system's view of its stripes, in bytes: unit and width.
fn believed(mount: &Mount) -> Option<(Option<u64>, Option<u64>)> {
    let bytes = |name: &str, unit: u64| {
        mount.option(name).and_then(|text| text.parse::<u64>().ok()?.checked_mul(unit))
    };
    match mount.fs_type.as_str() {
        // In 512-byte sectors.
        "xfs" => Some((bytes("sunit", 512), bytes("swidth", 512))),
        // In blocks, which have 4096 bytes in all but the smallest file systems.
        "ext4" => Some((None, bytes("stripe", 4096))),
        _ => None,
    }
}

/// Compares chunk and full stripe of a striped top device with those of the file system.
pub(super) fn stripes(context: &Context) -> Vec<RuleVerdict> {
    let Some(top) = context.disks().next() else { return Vec::new() };
    if !matches!(top.kind, DeviceKind::Raid | DeviceKind::Mapper) {
        return Vec::new();
    }
    let Some(mount) = &context.stack.mount else { return Vec::new() };
    let name = top.mapper_name.as_deref().unwrap_or(&top.name);
    let (chunk_path, full_path) =
        (format!("{}/minimum_io_size", top.queue()), format!("{}/optimal_io_size", top.queue()));
    let (Some(chunk), Some(full)) = (context.view.number(&chunk_path), context.view.number(&full_path))
    else {
        let claim = format!("The stripes of {name} cannot be read.");
        return vec![RuleVerdict::cannot_tell(claim, "Run 'lvs -o stripes,stripe_size' as root.")];
    };
    let with_facts = |verdict: RuleVerdict| {
        verdict.read(&chunk_path, chunk.to_string()).read(&full_path, full.to_string())
    };
    let striped = |layer: &Device| match layer.kind {
        DeviceKind::Raid => true,
        DeviceKind::Mapper => layer.below.len() > 1 && !is(context, layer, "mpath"),
        _ => false,
    };
    if !context.stack.layers.iter().any(striped) {
        return vec![with_facts(RuleVerdict::pass(format!("{name} is not striped over several devices.")))];
    }
    if full <= chunk || chunk == 0 || full % chunk != 0 {
        // Concatenated, mirrored, or on a kernel that hides the stripes.
        return vec![with_facts(if top.kind == DeviceKind::Mapper {
            let claim = format!("Fathom cannot determine whether {name} is striped over its devices.");
            RuleVerdict::cannot_tell(claim, "Run 'lvs -o stripes,stripe_size' as root.")
        } else {
            RuleVerdict::pass(format!("{name} has no stripes to align with."))
        })];
    }
    let stripes = format!("{} stripes of {} KiB", full / chunk, chunk / 1024);
    let point = mount.mount_point.display();
    let fix = format!(
        "at the next mkfs: mkfs.xfs -d su={}k,sw={} /dev/…; on a mounted XFS, in /etc/fstab: sunit={},swidth={}",
        chunk / 1024,
        full / chunk,
        chunk / 512,
        full / 512
    );
    let verdict = match believed(mount) {
        None => RuleVerdict::cannot_tell(
            format!("{name} has {stripes}; whether {} is aligned with them is unknown.", mount.fs_type),
            "Use the file system's own tools.",
        ),
        Some((unit, Some(width))) if width == full && unit.is_none_or(|unit| unit == chunk) => {
            RuleVerdict::pass(format!("{point} is aligned with the {stripes} of {name}."))
        }
        Some((_, None)) => RuleVerdict::fail(format!(
            "{name} has {stripes}, and the file system on {point} was made without them."
        ))
        .change(Change::by_hand(fix)),
        Some((unit, Some(width))) => {
            let unit =
                unit.map_or(String::new(), |unit| format!("a stripe unit of {} KiB and ", unit / 1024));
            let claim = format!(
                "{name} has {stripes}, but the file system on {point} was made for {unit}a stripe width of {} KiB.",
                width / 1024
            );
            RuleVerdict::fail(claim).change(Change::by_hand(fix))
        }
    };
    let options = crate::environment::public_options(mount);
    vec![with_facts(verdict).evidence(format!("/proc/self/mountinfo: {point} has {options}"))]
}

/// Returns whether device mapper shows that `layer` is of this kind (`LVM`, `mpath`, `CRYPT`), as its uuid begins.
fn is(context: &Context, layer: &Device, kind: &str) -> bool {
    let uuid = context.view.value(&format!("{}/dm/uuid", layer.sysfs()));
    uuid.is_some_and(|uuid| uuid.split('-').next() == Some(kind))
}

/// Reports encryption, because it costs processor time.
pub(super) fn encryption(context: &Context) -> Vec<RuleVerdict> {
    let mut verdicts = Vec::new();
    for device in context.stack.layers.iter().filter(|device| device.kind == DeviceKind::Mapper) {
        if is(context, device, "CRYPT") {
            let path = format!("{}/dm/uuid", device.sysfs());
            let claim = format!("{} is encrypted: each request costs processor time.", device.name);
            verdicts.push(RuleVerdict::note(claim).read(&path, "CRYPT-…"));
        }
    }
    verdicts
}
