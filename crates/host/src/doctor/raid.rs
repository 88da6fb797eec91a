//! Devices made of several: software RAID, and the stripes of RAID and LVM against the file system's own.

use super::{Context, Verdict};
use crate::{Device, DeviceKind, Mount};

fn arrays(context: &Context) -> impl Iterator<Item = &Device> {
    context.layers.iter().filter(|device| device.kind == DeviceKind::Raid)
}

/// RAID-10 is advised, 5 and 6 are not.
pub(super) fn level(context: &Context) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for device in arrays(context) {
        let folder = format!("{}/md", device.sysfs());
        let path = format!("{folder}/level");
        let name = &device.name;
        let Some(level) = context.view.value(&path) else {
            let claim = format!("The level of {name} cannot be read.");
            verdicts.push(Verdict::cannot_tell(claim, "'cat /proc/mdstat' would tell."));
            continue;
        };
        let verdict = match level.as_str() {
            "raid10" => Verdict::pass(format!("{name} is RAID-10.")),
            "raid1" => Verdict::pass(format!("{name} is a mirror (RAID-1).")),
            "raid4" | "raid5" | "raid6" => Verdict::fail(format!(
                "{name} is {}: each small write costs reads and writes of the parity too.",
                level.to_uppercase()
            ))
            .wanted("Wanted: RAID-10. The level of a full array changes only by building a new one."),
            "raid0" => Verdict::note(format!(
                "{name} is RAID-0: fast, and lost with the first disk that fails."
            ))
            .wanted(
                "Wanted: RAID-10, unless a replica set keeps the data and losing this member is planned for.",
            ),
            other => Verdict::note(format!("{name} is {other}.")).wanted("Wanted: RAID-10."),
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

/// Degraded, or busy with itself.
pub(super) fn state(context: &Context) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for device in arrays(context) {
        let folder = format!("{}/md", device.sysfs());
        let name = &device.name;
        let (degraded, action) = (format!("{folder}/degraded"), format!("{folder}/sync_action"));
        // Arrays without redundancy (RAID-0, linear) have neither file.
        let Some(missing) = context.view.value(&degraded) else { continue };
        let doing = context.view.value(&action).unwrap_or_else(|| "unknown".to_owned());
        let verdict = match (missing.as_str(), doing.as_str()) {
            ("0", "idle" | "frozen" | "unknown") => Verdict::pass(format!("{name} is whole and at rest.")),
            ("0", doing) => {
                Verdict::fail(format!("{name} is busy with itself ({doing}): nothing measured now holds."))
                    .wanted("Wait until it is done; /proc/mdstat shows how far it is.")
            }
            (missing, doing) => Verdict::fail(format!("{name} lacks {missing} of its disks (now: {doing})."))
                .wanted("Replace the failed disk and let the array rebuild before measuring.")
                .command(format!("mdadm --detail /dev/{name}\nmdadm /dev/{name} --add /dev/NEW_DISK")),
        };
        verdicts.push(verdict.read(&degraded, missing).read(&action, doing));
    }
    verdicts
}

/// What the file system believes of its stripes, in bytes: unit and width.
fn believed(mount: &Mount) -> Option<(Option<u64>, Option<u64>)> {
    let bytes = |name: &str, unit: u64| {
        mount.option(name).and_then(|text| text.parse::<u64>().ok()?.checked_mul(unit))
    };
    match mount.fs_type.as_str() {
        // In 512-byte sectors.
        "xfs" => Some((bytes("sunit", 512), bytes("swidth", 512))),
        // In blocks, of which all but the smallest file systems have 4096 bytes.
        "ext4" => Some((None, bytes("stripe", 4096))),
        _ => None,
    }
}

/// Chunk and full stripe of a striped top device, against the file system's.
pub(super) fn stripes(context: &Context) -> Vec<Verdict> {
    let Some(top) = context.disks().next() else { return Vec::new() };
    if !matches!(top.kind, DeviceKind::Raid | DeviceKind::Mapper) {
        return Vec::new();
    }
    let Some(mount) = &context.mount else { return Vec::new() };
    let name = top.mapper_name.as_deref().unwrap_or(&top.name);
    let (chunk_path, full_path) =
        (format!("{}/minimum_io_size", top.queue()), format!("{}/optimal_io_size", top.queue()));
    let (Some(chunk), Some(full)) = (context.view.number(&chunk_path), context.view.number(&full_path))
    else {
        let claim = format!("The stripes of {name} cannot be read.");
        return vec![Verdict::cannot_tell(claim, "'lvs -o stripes,stripe_size' as root would tell.")];
    };
    let with_facts =
        |verdict: Verdict| verdict.read(&chunk_path, chunk.to_string()).read(&full_path, full.to_string());
    let striped = |layer: &Device| match layer.kind {
        DeviceKind::Raid => true,
        DeviceKind::Mapper => layer.below.len() > 1 && !is(context, layer, "mpath"),
        _ => false,
    };
    if !context.layers.iter().any(striped) {
        return vec![with_facts(Verdict::pass(format!("{name} is not striped over several devices.")))];
    }
    if full <= chunk || chunk == 0 || full % chunk != 0 {
        // Joined end to end, mirrored, or of a kernel that hides its stripes.
        return vec![with_facts(if top.kind == DeviceKind::Mapper {
            let claim = format!("{name} stands on several devices and does not say whether it is striped.");
            Verdict::cannot_tell(claim, "'lvs -o stripes,stripe_size' as root would tell.")
        } else {
            Verdict::pass(format!("{name} has no stripes to align with."))
        })];
    }
    let stripes = format!("{} stripes of {} KiB", full / chunk, chunk / 1024);
    let point = mount.mount_point.display();
    let fix = format!(
        "# at the next mkfs: mkfs.xfs -d su={}k,sw={} /dev/…; on a mounted XFS, in /etc/fstab: sunit={},swidth={}",
        chunk / 1024,
        full / chunk,
        chunk / 512,
        full / 512
    );
    let verdict = match believed(mount) {
        None => Verdict::cannot_tell(
            format!("{name} has {stripes}; whether {} follows them cannot be read.", mount.fs_type),
            "The file system's own tools would tell.",
        ),
        Some((unit, Some(width))) if width == full && unit.is_none_or(|unit| unit == chunk) => {
            Verdict::pass(format!("{point} is aligned with the {stripes} of {name}."))
        }
        Some((_, None)) => {
            Verdict::fail(format!("{name} has {stripes}, and {point} knows nothing of them.")).command(fix)
        }
        Some((unit, Some(width))) => {
            let unit = unit.map_or(String::new(), |unit| format!("a unit of {} KiB and ", unit / 1024));
            let claim = format!(
                "{name} has {stripes}, but {point} believes in {unit}a width of {} KiB.",
                width / 1024
            );
            Verdict::fail(claim).command(fix)
        }
    };
    let options = crate::environment::public_options(mount);
    vec![with_facts(verdict).evidence(format!("/proc/self/mountinfo: {point} has {options}"))]
}

/// Whether device mapper says that `layer` is of this kind (`LVM`, `mpath`, `CRYPT`), as its uuid begins.
fn is(context: &Context, layer: &Device, kind: &str) -> bool {
    let uuid = context.view.value(&format!("{}/dm/uuid", layer.sysfs()));
    uuid.is_some_and(|uuid| uuid.split('-').next() == Some(kind))
}

/// Encryption, named because it costs processor time.
pub(super) fn encryption(context: &Context) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for device in context.layers.iter().filter(|device| device.kind == DeviceKind::Mapper) {
        if is(context, device, "CRYPT") {
            let path = format!("{}/dm/uuid", device.sysfs());
            let claim = format!("{} encrypts: each request costs processor time.", device.name);
            verdicts.push(Verdict::note(claim).read(&path, "CRYPT-…"));
        }
    }
    verdicts
}
