//! What no single level shows to be wrong: levels that cannot go together, in any cell of a study.
//!
//! Only the study's own words are looked at. Whether this machine can hold it is asked before the first trial ([`crate::Bench`]).

use fathom_errors::Result;
use fathom_storage::{ArrayKind, Filesystem};
use fathom_units::Bytes;

use crate::plan::combinations;
use crate::setup::{Load, Servers, Setup, Storage};
use crate::{Measures, Study};

/// The smallest file that `fathom disk` takes.
const LEAST_FILE: Bytes = Bytes::mib(16);

/// What is wrong, and the factor that is to be changed.
type Wrong = Option<(&'static str, String)>;

/// Refuses a study of which a cell contradicts itself.
pub(crate) fn check(study: &Study) -> Result<()> {
    for levels in combinations(&study.shape()) {
        let setup = study.setup(&levels)?;
        let found = storage(&setup.storage).or_else(|| match study.measures {
            Measures::Load => servers(&setup).or_else(|| load(&setup.load, &setup.servers)),
            Measures::Probe => probe(&setup),
        });
        if let Some((factor, what)) = found {
            let cell = study.labels(&levels).join(", ");
            return Err(study.refuse(factor, &format!("in the cell of {cell}: {what}")));
        }
    }
    Ok(())
}

fn wrong(factor: &'static str, what: impl Into<String>) -> Wrong {
    Some((factor, what.into()))
}

fn storage(storage: &Storage) -> Wrong {
    let Storage { array, filesystem, disks, devices, .. } = storage;
    match (array, filesystem) {
        (Some(ArrayKind::BtrfsRaid0), Some(filesystem)) if *filesystem != Filesystem::Btrfs => {
            return wrong("array", format!("btrfs joins disks for itself only, not for {filesystem}"));
        }
        (Some(_), None) => return wrong("array", "an array needs a file system on it"),
        _ => {}
    }
    if !devices.is_empty() && *disks > 1 {
        return wrong("disks", "'disks' counts loop devices, and devices are named");
    }
    let (factor, plural) = if devices.is_empty() { ("disks", "disks") } else { ("device", "devices") };
    if array.is_some() && storage.count() < 2 {
        return wrong(factor, format!("an array needs two {plural} at least"));
    }
    if array.is_none() && storage.count() > 1 {
        return wrong(factor, format!("several {plural} need an array"));
    }
    let twice = devices
        .iter()
        .enumerate()
        .find(|(at, device)| devices.iter().take(*at).any(|other| other.path == device.path));
    if let Some((_, device)) = twice {
        return wrong("device", format!("{} is named more than once", device.path.display()));
    }
    if storage.chunk_kib.is_some_and(|chunk| !chunk.is_power_of_two()) {
        return wrong("chunk", "a chunk is a power of two, and 1K at least");
    }
    if !storage.is_made() {
        let queue = &storage.queue;
        if queue.read_ahead_kib.is_some() || queue.scheduler.is_some() || queue.nr_requests.is_some() {
            let factor = if queue.scheduler.is_some() {
                "scheduler"
            } else if queue.nr_requests.is_some() {
                "nr_requests"
            } else {
                "read_ahead"
            };
            return wrong(
                factor,
                "the queue of a device that others use is not changed; name a file system or a device",
            );
        }
        if !storage.mkfs.is_empty() || !storage.mount.is_empty() {
            let factor = if storage.mkfs.is_empty() { "mount" } else { "mkfs" };
            return wrong(factor, "nothing is made or mounted without a file system");
        }
        if storage.per_member {
            return wrong("per_member", "storage for each member has to be made: name a file system");
        }
    }
    if storage.per_member && !devices.is_empty() {
        return wrong(
            "per_member",
            "devices that are named are one storage, and cannot be each member's own",
        );
    }
    None
}

fn servers(setup: &Setup) -> Wrong {
    let Servers { engines, members, shards, chunks, .. } = &setup.servers;
    if engines.len() > *members as usize {
        return wrong(
            "engine",
            format!("{} engines are named, and a set has {members} members", engines.len()),
        );
    }
    if chunks.is_some() && shards.is_none() {
        return wrong("chunks", "without shards there are no chunks");
    }
    if setup.servers.data_servers() > 32 {
        return wrong("shards", "more than 32 servers with data do not fit one machine");
    }
    None
}

fn load(load: &Load, servers: &Servers) -> Wrong {
    if load.operations.is_none() && load.time.is_none() {
        return wrong("operations", "a run needs 'operations' or 'time', or it never ends");
    }
    if let Some(concern) = &load.write_concern {
        if let Ok(number) = concern.parse::<u32>()
            && number > servers.members
        {
            let what = format!("no write can be on {number} members where there are {}", servers.members);
            return wrong("write_concern", what);
        }
        if concern == "0" && load.journaled == Some(true) {
            return wrong(
                "journaled",
                "nobody waits for the journal where nobody waits for an answer (w is 0)",
            );
        }
    }
    if load.threads as f64 > load.operations.unwrap_or(u64::MAX) as f64 {
        return wrong("threads", "there are more threads than operations");
    }
    None
}

fn probe(setup: &Setup) -> Wrong {
    let Setup { storage, probe, .. } = setup;
    if probe.time.is_zero() {
        return wrong("probe_time", "a probe needs some time");
    }
    let room = storage.disk_size.0.saturating_mul(u64::from(storage.disks));
    if storage.is_made() && storage.devices.is_empty() && probe.size.0 > room / 10 * 9 {
        return wrong(
            "file_size",
            format!("a file of {} does not fit disks of {} together", probe.size, Bytes(room)),
        );
    }
    if probe.size < LEAST_FILE {
        return wrong("file_size", format!("a test file of {} is less than {LEAST_FILE}", probe.size));
    }
    if probe.size.0 < probe.block.0.saturating_mul(4) {
        return wrong("file_size", "the test file has not even four blocks");
    }
    None
}
