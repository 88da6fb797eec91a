//! The request queues of every layer: scheduler, read-ahead, depth, cache mode, throttling of writeback, and the rest.
//!
//! Read-ahead is the trap of the family: the file counts KiB, `blockdev --setra` counts 512-byte sectors, and the
//! vendor's "8 to 32" is in sectors. The older single-queue kernels call two schedulers `noop` and `deadline`; both
//! names are accepted, and the command names the one that this kernel has.

use super::device::{Medium, medium};
use super::{Context, Verdict};
use crate::{Device, DeviceKind};

/// The vendor's upper bound, 32 sectors of 512 bytes, in KiB.
const READ_AHEAD_KIB_MAX: u64 = 16;
/// The vendor's lower bound, 8 sectors, in KiB.
const READ_AHEAD_KIB_MIN: u64 = 4;

/// The line that makes a queue setting outlive a restart: a udev rule.
pub(super) fn persistent(device: &Device, assignment: &str) -> String {
    let which = match (&device.mapper_name, device.kind) {
        (Some(name), _) => format!("ENV{{DM_NAME}}==\"{name}\""),
        _ => format!("KERNEL==\"{}\"", device.name),
    };
    format!(
        "echo 'ACTION==\"add|change\", SUBSYSTEM==\"block\", {which}, {assignment}' >> \
         /etc/udev/rules.d/99-mongodb.rules"
    )
}

/// The read-ahead that counts (the file system's, else the top device's), and the others under it.
pub(super) fn read_ahead(context: &Context) -> Vec<Verdict> {
    let Some(mount) = &context.mount else { return Vec::new() };
    let top = context.disks().next();
    let candidates = [
        Some(format!("sys/class/bdi/{}/read_ahead_kb", mount.number)),
        top.map(|top| format!("sys/class/bdi/{}/read_ahead_kb", top.number)),
        top.map(|top| format!("{}/read_ahead_kb", top.queue())),
    ];
    let counts = candidates.into_iter().flatten().find_map(|path| Some((context.view.number(&path)?, path)));
    let Some((kib, path)) = counts else {
        if top.is_none() {
            return Vec::new();
        }
        let claim = "The read-ahead of the device under the data cannot be read.";
        return vec![Verdict::cannot_tell(
            claim,
            "'blockdev --getra DEVICE' as root would tell, in sectors.",
        )];
    };
    let name = top.map_or(mount.source.as_str(), |top| top.name.as_str());
    let sectors = kib.saturating_mul(2);
    let verdict = if (READ_AHEAD_KIB_MIN..=READ_AHEAD_KIB_MAX).contains(&kib) {
        Verdict::pass(format!("The read-ahead of {name} is {kib} KiB ({sectors} sectors)."))
    } else {
        let verb =
            if kib > READ_AHEAD_KIB_MAX { "reads too much around each miss" } else { "is below the advice" };
        let verdict = Verdict::fail(format!(
            "The read-ahead of {name} is {kib} KiB ({sectors} sectors of 512 bytes), which {verb}."
        ))
        .wanted(
            "Wanted: 4 to 16 KiB (8 to 32 sectors; read_ahead_kb counts KiB, blockdev sectors), unless a \
             measurement shows a benefit.",
        );
        match top {
            Some(top) => verdict.command(format!(
                "blockdev --setra 32 /dev/{}\n{}",
                top.name,
                persistent(top, "ATTR{bdi/read_ahead_kb}=\"16\"")
            )),
            None => verdict.command(format!("echo 16 > /{path}")),
        }
    };
    let below = context.disks().skip(1).filter_map(|device| {
        let path = format!("{}/read_ahead_kb", device.queue());
        Some(format!("/{path} = {} (a lower layer: not used)", context.view.value(&path)?))
    });
    vec![below.fold(verdict.read(&path, kib.to_string()), Verdict::evidence)]
}

/// Requests that the scheduler may hold, against the tags that the device takes.
pub(super) fn requests(context: &Context) -> Vec<Verdict> {
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
            Some((tags, tags_path)) if requests > tags => Verdict::note(format!(
                "{name} takes {tags} requests at once in each hardware queue ({}); the kernel holds up to {requests}.",
                queues.len()
            ))
            .read(&path, requests.to_string())
            .read(&tags_path, tags.to_string())
            .wanted("Past that depth waiting moves into the scheduler; compare with the knee that fathom disk finds."),
            Some((tags, tags_path)) => {
                Verdict::pass(format!("{name} takes {requests} requests in each hardware queue ({}).", queues.len()))
                    .read(&path, requests.to_string())
                    .read(&tags_path, tags.to_string())
            }
            None => Verdict::pass(format!("{name} queues up to {requests} requests."))
                .read(&path, requests.to_string())
                .evidence(format!("/{folder}/*/nr_tags is not there (an older kernel): its tags are not known")),
        });
    }
    verdicts
}

/// Whether the kernel sends flushes, against what the device itself says of its cache.
pub(super) fn write_cache(context: &Context) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for device in context.leaves() {
        let path = format!("{}/write_cache", device.queue());
        let name = &device.name;
        let own = device_cache(context, device);
        let Some(mode) = context.view.value(&path) else {
            verdicts.push(unknown_mode(name, own));
            continue;
        };
        let verdict =
            match (mode.as_str(), &own) {
                ("write back", _) => {
                    Verdict::pass(format!("{name} has a write cache, and the kernel sends flushes to it."))
                }
                (_, Some((_, own))) if own == "write back" => Verdict::fail(format!(
                    "{name} has a volatile cache, and the kernel sends no flushes to it."
                ))
                .wanted("Wanted: write back, or fsync does not reach the medium and a power cut loses data.")
                .command(format!("echo 'write back' > /{path}")),
                (_, Some(_)) => Verdict::pass(format!(
                    "{name} says that it has no volatile cache; no flushes are needed."
                )),
                (_, None) => Verdict::cannot_tell(
                    format!("The kernel sends no flushes to {name}: right only if it has no volatile cache."),
                    format!("'nvme id-ctrl /dev/{name}' (vwc 0) or 'hdparm -W /dev/{name}' (0) would tell."),
                ),
            };
        let verdict = verdict.read(&path, mode);
        let fua = format!("{}/fua", device.queue());
        let verdict = context.view.value(&fua).map_or(verdict.clone(), |value| verdict.read(&fua, value));
        verdicts.push(own.map_or(verdict.clone(), |(path, own)| verdict.read(&path, own)));
    }
    verdicts
}

/// Kernels before 4.7 do not say whether they flush, but follow what a SCSI disk says of itself.
fn unknown_mode(name: &str, own: Option<(String, String)>) -> Verdict {
    match own {
        Some((path, own)) => {
            let flushes =
                if own == "write back" { "flushes are sent to it" } else { "no flushes are needed" };
            Verdict::pass(format!("{name} says that its cache is {own}; {flushes}."))
                .likely()
                .read(&path, own)
        }
        None => Verdict::cannot_tell(
            format!(
                "Whether the kernel sends flushes to {name} cannot be read (kernels before 4.7 do not say)."
            ),
            format!("'hdparm -W /dev/{name}' or 'nvme id-ctrl' (vwc) tells whether it has a volatile cache."),
        ),
    }
}

/// What the device says of its own cache, where its driver passes that on (SCSI, virtio).
fn device_cache(context: &Context, device: &Device) -> Option<(String, String)> {
    let folder = format!("sys/block/{}", device.disk.as_deref().unwrap_or(&device.name));
    let scsi = format!("{folder}/device/scsi_disk");
    let of_scsi = context.view.list(&scsi).into_iter().map(|address| format!("{scsi}/{address}/cache_type"));
    of_scsi.chain([format!("{folder}/cache_type")]).find_map(|path| {
        let own = context.view.value(&path)?;
        Some((path, own))
    })
}

/// Throttling of writeback, which checkpoints run into.
pub(super) fn writeback_throttling(context: &Context) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for device in context.leaves() {
        let path = format!("{}/wbt_lat_usec", device.queue());
        // Absent: the kernel was built without it, and cannot throttle.
        let Some(value) = context.view.value(&path) else { continue };
        let name = &device.name;
        let target_us: Option<i64> = value.parse().ok();
        verdicts.push(match target_us {
            Some(target_us) if target_us > 0 => Verdict::note(format!(
                "Writeback to {name} is throttled to keep reads under {} ms; checkpoints are what it slows.",
                target_us as f64 / 1000.0
            ))
            .wanted("Nobody advises for or against: measure with and without.")
            .command(format!("echo 0 > /{path}")),
            _ => Verdict::pass(format!("Writeback to {name} is not throttled by the kernel.")),
        }
        .read(&path, value));
    }
    verdicts
}

/// Whether the device's counters run at all.
pub(super) fn counters(context: &Context) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for device in context.disks() {
        let path = format!("{}/iostats", device.queue());
        let Some(value) = context.view.value(&path) else { continue };
        let name = &device.name;
        let verdict = if value == "0" {
            Verdict::fail(format!("The counters of {name} stand still: iostat and fathom see nothing of it."))
                .command(format!("echo 1 > /{path}"))
        } else {
            Verdict::pass(format!("The kernel counts the requests of {name}."))
        };
        verdicts.push(verdict.read(&path, value));
    }
    verdicts
}

/// Facts of the queue that nobody advises on, kept because they explain measurements.
pub(super) fn others(context: &Context) -> Vec<Verdict> {
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
                Verdict::note(format!("Merging of requests is switched off on {}.", device.name))
                    .wanted("Neighbouring writes of a checkpoint then cost one request each: 0 merges them.")
            }
            _ if device.kind == DeviceKind::Disk => {
                Verdict::pass(format!("The limits of {}'s queue.", device.name))
            }
            _ => Verdict::pass(format!("The limits of {} (a stacked device).", device.name)),
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

/// From 6.0: `none` for virtual disks, NVMe and SSD, `mq-deadline` for what turns.
pub(super) fn scheduler(context: &Context) -> Vec<Verdict> {
    judge_scheduler(context, |medium| match medium {
        Medium::Virtual | Medium::Nvme | Medium::SolidState => &["none", "noop"],
        Medium::Spinning => &["mq-deadline", "deadline"],
        Medium::Remote | Medium::Stacked => &["none", "noop", "mq-deadline", "deadline"],
    })
}

/// Up to 5.0: `noop` in virtual machines, `deadline` on metal.
pub(super) fn older_scheduler(context: &Context) -> Vec<Verdict> {
    judge_scheduler(context, |medium| match medium {
        Medium::Virtual => &["noop", "none"],
        Medium::Nvme => &["deadline", "mq-deadline", "none"],
        Medium::SolidState | Medium::Spinning => &["deadline", "mq-deadline"],
        Medium::Remote | Medium::Stacked => &["deadline", "mq-deadline", "noop", "none"],
    })
}

fn judge_scheduler(context: &Context, accepted: fn(Medium) -> &'static [&'static str]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for device in context.disks() {
        let path = format!("{}/scheduler", device.queue());
        let name = &device.name;
        let (Some(text), Some(chosen)) = (context.view.value(&path), context.view.choice(&path)) else {
            // Devices that pass requests on untouched (md, most of device mapper) have no such file, or "none".
            if device.below.is_empty() {
                verdicts.push(Verdict::cannot_tell(
                    format!("The scheduler of {name} cannot be read."),
                    format!("/{path} would tell."),
                ));
            }
            continue;
        };
        let medium = medium(context, device);
        let accepted = accepted(medium);
        let kyber = chosen == "kyber" && medium == Medium::Virtual && context.kernel.at_least(4, 12);
        let verdict = if accepted.contains(&chosen.as_str()) {
            Verdict::pass(format!("{name} ({}) uses the scheduler {chosen}.", in_words(medium)))
        } else if kyber {
            Verdict::pass(format!("{name} uses kyber, which suits several workloads in one virtual machine."))
        } else {
            let offered: Vec<&str> =
                text.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
            let best =
                accepted.iter().find(|name| offered.contains(name)).or(accepted.first()).unwrap_or(&"none");
            let verdict =
                Verdict::fail(format!("{name} ({}) uses the scheduler {chosen}.", in_words(medium)))
                    .wanted(match *best {
                        "none" | "noop" => {
                            format!("Wanted: {best}: the device or the host below orders requests itself.")
                        }
                        _ => format!("Wanted: {best}."),
                    })
                    .command(format!(
                        "echo {best} > /{path}\n{}",
                        persistent(device, &format!("ATTR{{queue/scheduler}}=\"{best}\""))
                    ));
            match medium {
                Medium::Spinning => {
                    verdict.wanted(format!("Wanted: {best}, if this disk really turns.")).likely()
                }
                _ => verdict,
            }
        };
        verdicts.push(verdict.read(&path, text));
    }
    verdicts
}

fn in_words(medium: Medium) -> &'static str {
    match medium {
        Medium::Nvme => "NVMe",
        Medium::Virtual => "a virtual disk",
        Medium::Remote => "an array's volume over iSCSI",
        Medium::SolidState => "a solid-state disk",
        Medium::Spinning => "a spinning disk by its own word",
        Medium::Stacked => "a stacked device",
    }
}
