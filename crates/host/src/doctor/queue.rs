//! Rules on the request queues of every layer: scheduler, read-ahead, depth, cache mode, throttling of writeback, and others.
//!
//! The units of read-ahead are easily confused: the file counts KiB, `blockdev --setra` counts 512-byte sectors, and
//! the vendor's "8 to 32" is in sectors. The older single-queue kernels call two schedulers `noop` and `deadline`; both
//! names are accepted, and the command names the one that this kernel has.

use super::change::{Change, quoted};
use super::device::{LayerMedium, medium};
use super::{Context, RuleVerdict};
use crate::{Device, DeviceKind, ReadAhead};

/// The vendor's upper bound, 32 sectors of 512 bytes, in KiB.
const MAX_READ_AHEAD_KIB: u64 = 16;
/// The vendor's lower bound, 8 sectors, in KiB.
const MIN_READ_AHEAD_KIB: u64 = 4;

/// Makes a queue setting outlive a restart, by a udev rule.
fn persistent(device: &Device, setting: &str, assignment: &str) -> Change {
    let which = match (&device.mapper_name, device.kind) {
        (Some(name), _) => format!("ENV{{DM_NAME}}==\"{name}\""),
        _ => format!("KERNEL==\"{}\"", device.name),
    };
    let rule = format!("ACTION==\"add|change\", SUBSYSTEM==\"block\", {which}, {assignment}");
    Change::file(&format!("/etc/udev/rules.d/99-mongodb-{}-{setting}.rules", device.name), &[&rule])
}

/// Checks the read-ahead that counts, which is the file system's own or the top device's, and shows the others.
pub(super) fn read_ahead(context: &Context) -> Vec<RuleVerdict> {
    let Some(mount) = &context.stack.mount else { return Vec::new() };
    let Some(ReadAhead { kib, path, device }) = &context.stack.read_ahead else {
        if context.stack.tops.is_empty() {
            return Vec::new();
        }
        return vec![if mount.number.is_anonymous() {
            let kind = &mount.fs_type;
            RuleVerdict::cannot_tell(
                format!(
                    "{kind} has a read-ahead of its own, which cannot be read; that of its devices has no effect."
                ),
                format!("Read the file of its mount among /sys/class/bdi/{kind}-*/read_ahead_kb."),
            )
        } else {
            RuleVerdict::cannot_tell(
                "The read-ahead of the device under the data cannot be read.",
                "Run 'blockdev --getra DEVICE' as root; it prints sectors.",
            )
        }];
    };
    let kib = *kib;
    let name = match device {
        Some(device) => device.clone(),
        None => format!("{} on {}", mount.fs_type, mount.mount_point.display()),
    };
    let sectors = kib.saturating_mul(2);
    let verdict = if (MIN_READ_AHEAD_KIB..=MAX_READ_AHEAD_KIB).contains(&kib) {
        RuleVerdict::pass(format!("The read-ahead of {name} is {kib} KiB ({sectors} sectors)."))
    } else {
        let verb =
            if kib > MAX_READ_AHEAD_KIB { "more than a cache miss needs" } else { "less than recommended" };
        let verdict = RuleVerdict::fail(format!(
            "The read-ahead of {name} is {kib} KiB ({sectors} sectors of 512 bytes), {verb}."
        ))
        .wanted(
            "Recommended: 4 to 16 KiB (8 to 32 sectors), unless a measurement shows that more helps. \
             read_ahead_kb is in KiB, blockdev --setra in sectors.",
        );
        match context.disks().find(|disk| device.as_ref() == Some(&disk.name)) {
            Some(top) => {
                let set = |sectors: u64| {
                    format!("blockdev --setra {sectors} {}", quoted(&format!("/dev/{}", top.name)))
                };
                let change = Change::command(set(2 * MAX_READ_AHEAD_KIB), set(sectors));
                verdict.change(change.and(persistent(top, "read-ahead", "ATTR{bdi/read_ahead_kb}=\"16\"")))
            }
            None => {
                verdict.change(Change::value(path, "16", &kib.to_string()).and(Change::by_hand(format!(
                    "set it again after each mount of {}: {} begins with its own value",
                    mount.mount_point.display(),
                    mount.fs_type
                ))))
            }
        }
    };
    let unused = context.disks().filter(|disk| device.as_ref() != Some(&disk.name)).filter_map(|disk| {
        let path = format!("{}/read_ahead_kb", disk.queue());
        Some(format!("/{path} = {} (of a lower device, not used)", context.view.value(&path)?))
    });
    vec![unused.fold(verdict.read(path, kib.to_string()), RuleVerdict::evidence)]
}

/// Compares the requests that the scheduler may hold with the tags that the device takes.
pub(super) fn requests(context: &Context) -> Vec<RuleVerdict> {
    let mut verdicts = Vec::new();
    for device in context.leaves() {
        let path = format!("{}/nr_requests", device.queue());
        let Some(requests) = context.view.number(&path) else { continue };
        let folder = format!("sys/block/{}/mq", device.disk.as_deref().unwrap_or(&device.name));
        let queues = context.view.list(&folder);
        let tags = queues.iter().find_map(|queue| {
            let path = format!("{folder}/{queue}/nr_tags");
            Some((context.view.number(&path)?, path))
        });
        let name = &device.name;
        verdicts.push(match tags {
            Some((tags, tags_path)) if requests > tags => RuleVerdict::note(format!(
                "{name} accepts {tags} requests at once in each hardware queue ({}); the kernel holds up to {requests}.",
                queues.len()
            ))
            .read(&path, requests.to_string())
            .read(&tags_path, tags.to_string())
            .wanted("Requests beyond that depth wait in the scheduler. Compare the depth with the knee that fathom disk finds."),
            Some((tags, tags_path)) => {
                RuleVerdict::pass(format!("{name} accepts {requests} requests at once in each hardware queue ({}).", queues.len()))
                    .read(&path, requests.to_string())
                    .read(&tags_path, tags.to_string())
            }
            None => RuleVerdict::pass(format!("{name} queues up to {requests} requests."))
                .read(&path, requests.to_string())
                .evidence(format!("/{folder}/*/nr_tags is not there (an older kernel): its tags are not known")),
        });
    }
    verdicts
}

/// Compares the kernel's use of flushes with the device's own report on its cache.
pub(super) fn write_cache(context: &Context) -> Vec<RuleVerdict> {
    let mut verdicts = Vec::new();
    for device in context.leaves() {
        let path = format!("{}/write_cache", device.queue());
        let name = &device.name;
        let own = device_cache(context, device);
        let Some(mode) = context.view.value(&path) else {
            verdicts.push(unknown_mode(name, own));
            continue;
        };
        let verdict = match (mode.as_str(), &own) {
            ("write back", _) => {
                RuleVerdict::pass(format!("{name} has a write cache, and the kernel sends flushes to it."))
            }
            (_, Some((_, own))) if own == "write back" => RuleVerdict::fail(format!(
                "{name} has a volatile cache, and the kernel sends no flushes to it."
            ))
            .wanted(
                "Recommended: write back. Without it fsync does not reach the medium, and a power cut loses data.",
            )
            .change(Change::value(&path, "write back", &mode)),
            (_, Some(_)) => {
                RuleVerdict::pass(format!("{name} reports that it has no volatile cache, so it needs no flushes."))
            }
            (_, None) => RuleVerdict::cannot_tell(
                format!(
                    "The kernel sends no flushes to {name}, which is safe only if it has no volatile cache."
                ),
                format!(
                    "Run 'nvme id-ctrl /dev/{name}' or 'hdparm -W /dev/{name}' as root: a vwc or a write-caching of 0 \
                     means that it has none."
                ),
            ),
        };
        let verdict = verdict.read(&path, mode);
        let fua = format!("{}/fua", device.queue());
        let verdict = context.view.value(&fua).map_or(verdict.clone(), |value| verdict.read(&fua, value));
        verdicts.push(own.map_or(verdict.clone(), |(path, own)| verdict.read(&path, own)));
    }
    verdicts
}

/// Kernels before 4.7 do not show whether they flush, but follow the report of a SCSI disk.
fn unknown_mode(name: &str, own: Option<(String, String)>) -> RuleVerdict {
    match own {
        Some((path, own)) => {
            let flushes =
                if own == "write back" { "flushes are sent to it" } else { "no flushes are needed" };
            RuleVerdict::pass(format!("{name} reports that its cache is {own}; {flushes}."))
                .likely()
                .read(&path, own)
        }
        None => RuleVerdict::cannot_tell(
            format!(
                "Fathom cannot determine whether the kernel sends flushes to {name} (kernels before 4.7 do not report it)."
            ),
            format!(
                "Run 'hdparm -W /dev/{name}' or 'nvme id-ctrl /dev/{name}' as root: 0 (in the latter vwc 0) means no volatile cache."
            ),
        ),
    }
}

/// The device's own description of its cache, if its driver passes that on (SCSI, virtio).
fn device_cache(context: &Context, device: &Device) -> Option<(String, String)> {
    let folder = format!("sys/block/{}", device.disk.as_deref().unwrap_or(&device.name));
    let scsi = format!("{folder}/device/scsi_disk");
    let of_scsi = context.view.list(&scsi).into_iter().map(|address| format!("{scsi}/{address}/cache_type"));
    of_scsi.chain([format!("{folder}/cache_type")]).find_map(|path| {
        let own = context.view.value(&path)?;
        Some((path, own))
    })
}

/// Checks the throttling of writeback, which delays checkpoints.
pub(super) fn writeback_throttling(context: &Context) -> Vec<RuleVerdict> {
    let mut verdicts = Vec::new();
    for device in context.leaves() {
        let path = format!("{}/wbt_lat_usec", device.queue());
        // The file is absent if the kernel was built without throttling.
        let Some(value) = context.view.value(&path) else { continue };
        let name = &device.name;
        let target_us: Option<i64> = value.parse().ok();
        verdicts.push(match target_us {
            Some(target_us) if target_us > 0 => RuleVerdict::note(format!(
                "The kernel throttles writeback to {name} to keep reads under {} ms; this slows checkpoints.",
                target_us as f64 / 1000.0
            ))
            .wanted("There is no recommendation: measure with it and without it.")
            .change(Change::value(&path, "0", &value)),
            _ => RuleVerdict::pass(format!("The kernel does not throttle writeback to {name}.")),
        }
        .read(&path, value));
    }
    verdicts
}

/// Checks that the device's counters are enabled.
pub(super) fn counters(context: &Context) -> Vec<RuleVerdict> {
    let mut verdicts = Vec::new();
    for device in context.disks() {
        let path = format!("{}/iostats", device.queue());
        let Some(value) = context.view.value(&path) else { continue };
        let name = &device.name;
        let verdict = if value == "0" {
            RuleVerdict::fail(format!(
                "The kernel does not count the requests of {name}: iostat and fathom cannot observe it."
            ))
            .change(Change::value(&path, "1", &value))
        } else {
            RuleVerdict::pass(format!("The kernel counts the requests of {name}."))
        };
        verdicts.push(verdict.read(&path, value));
    }
    verdicts
}

/// Facts of the queue without a recommendation, kept because they explain measurements.
pub(super) fn others(context: &Context) -> Vec<RuleVerdict> {
    const FACTS: [&str; 8] = [
        "logical_block_size",
        "physical_block_size",
        "minimum_io_size",
        "optimal_io_size",
        "max_sectors_kb",
        "nomerges",
        "rq_affinity",
        "io_timeout",
    ];
    let mut verdicts = Vec::new();
    for device in context.disks() {
        let nomerges = context.view.value(&format!("{}/nomerges", device.queue()));
        let verdict = match nomerges.as_deref() {
            Some("1" | "2") => {
                RuleVerdict::note(format!("Merging of requests is switched off on {}.", device.name))
                    .wanted("Adjacent writes of a checkpoint then need a request each. Recommended: 0, which merges them.")
            }
            _ if device.kind == DeviceKind::Disk => {
                RuleVerdict::pass(format!("The queue of {} has the limits below; no rule judges them.", device.name))
            }
            _ => RuleVerdict::pass(format!("The stacked device {} has the limits below; no rule judges them.", device.name)),
        };
        verdicts.push(FACTS.iter().fold(verdict, |verdict, fact| {
            let path = format!("{}/{fact}", device.queue());
            match context.view.value(&path) {
                Some(value) => verdict.read(&path, value),
                None => verdict,
            }
        }));
    }
    verdicts
}

/// From 6.0: `none` for virtual disks, NVMe and SSD, `mq-deadline` for rotating disks.
pub(super) fn scheduler(context: &Context) -> Vec<RuleVerdict> {
    judge_scheduler(context, |medium| match medium {
        LayerMedium::Virtual | LayerMedium::Nvme | LayerMedium::SolidState => &["none", "noop"],
        LayerMedium::Spinning => &["mq-deadline", "deadline"],
        LayerMedium::Remote | LayerMedium::Stacked => &["none", "noop", "mq-deadline", "deadline"],
    })
}

/// Up to 5.0: `noop` in virtual machines, `deadline` on physical hardware.
pub(super) fn older_scheduler(context: &Context) -> Vec<RuleVerdict> {
    judge_scheduler(context, |medium| match medium {
        LayerMedium::Virtual => &["noop", "none"],
        LayerMedium::Nvme => &["deadline", "mq-deadline", "none"],
        LayerMedium::SolidState | LayerMedium::Spinning => &["deadline", "mq-deadline"],
        LayerMedium::Remote | LayerMedium::Stacked => &["deadline", "mq-deadline", "noop", "none"],
    })
}

fn judge_scheduler(
    context: &Context,
    accepted: fn(LayerMedium) -> &'static [&'static str],
) -> Vec<RuleVerdict> {
    let mut verdicts = Vec::new();
    for device in context.disks() {
        let path = format!("{}/scheduler", device.queue());
        let name = &device.name;
        let (Some(text), Some(chosen)) = (context.view.value(&path), context.view.choice(&path)) else {
            // Devices that pass requests on untouched (md, most of device mapper) have no such file, or "none".
            if device.below.is_empty() {
                verdicts.push(RuleVerdict::cannot_tell(
                    format!("The scheduler of {name} cannot be read."),
                    format!("Read /{path}."),
                ));
            }
            continue;
        };
        let medium = medium(context, device);
        let accepted = accepted(medium);
        let kyber = chosen == "kyber" && medium == LayerMedium::Virtual && context.kernel.at_least(4, 12);
        let verdict = if accepted.contains(&chosen.as_str()) {
            RuleVerdict::pass(format!("{name} ({}) uses the scheduler {chosen}.", in_words(medium)))
        } else if kyber {
            RuleVerdict::pass(format!(
                "{name} uses kyber, which suits several workloads in one virtual machine."
            ))
        } else {
            let offered: Vec<&str> =
                text.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
            let best =
                accepted.iter().find(|name| offered.contains(name)).or(accepted.first()).unwrap_or(&"none");
            let verdict =
                RuleVerdict::fail(format!("{name} ({}) uses the scheduler {chosen}.", in_words(medium)))
                    .wanted(match *best {
                        "none" | "noop" => {
                            format!(
                                "Recommended: '{best}'. The device or the hypervisor orders requests itself."
                            )
                        }
                        _ => format!("Recommended: {best}."),
                    })
                    .change(Change::value(&path, best, &chosen).and(persistent(
                        device,
                        "scheduler",
                        &format!("ATTR{{queue/scheduler}}=\"{best}\""),
                    )));
            match medium {
                LayerMedium::Spinning => verdict
                    .wanted(format!("Recommended: {best}, if this is really a rotating disk."))
                    .likely(),
                _ => verdict,
            }
        };
        verdicts.push(verdict.read(&path, text));
    }
    verdicts
}

fn in_words(medium: LayerMedium) -> &'static str {
    match medium {
        LayerMedium::Nvme => "NVMe",
        LayerMedium::Virtual => "a virtual disk",
        LayerMedium::Remote => "an array's volume over iSCSI",
        LayerMedium::SolidState => "a solid-state disk",
        LayerMedium::Spinning => "a rotating disk by its own report",
        LayerMedium::Stacked => "a stacked device",
    }
}
