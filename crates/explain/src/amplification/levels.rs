//! The levels of one server: what its user wrote, its journal, its engine, its volume and the devices at the bottom.
//!
//! Bytes are compared between the ends of checkpoints, when few pages are dirty, so that a window does not leave its writes to
//! the next one. An engine without checkpoints is compared over equal parts of the run. The bytes that it has yet to compact are
//! then a debt, and the result says so.

use fathom_record::amplification::{Amplification, WrittenLevel};
use fathom_stats::{coefficient_of_variation, theil_sen_slope};
use fathom_units::decimal;

use crate::Evidence;
use crate::path::client_names;
use crate::server_devices::{leaves, tops};

/// The number of equal parts for an engine without checkpoints, and the shortest such part in nanoseconds.
const PARTS: u64 = 10;
const MIN_PART_NS: u64 = 10_000_000_000;

/// The windows within a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Windows {
    /// The whole: from the first bound to the last.
    pub(super) whole_ns: (u64, u64),
    /// Whether the bounds are ends of checkpoints.
    pub(super) between_checkpoints: bool,
    /// The parts, one after the other.
    pub(super) parts_ns: Vec<(u64, u64)>,
}

/// The windows of a server.
pub(super) fn windows_of(evidence: &Evidence, member: &str) -> Windows {
    let (begin_ns, end_ns) = evidence.window_ns;
    let ended = evidence.series.get(&format!("server.{member}.checkpoint.count"));
    let bounds: Vec<u64> = ended.map_or_else(Vec::new, |series| {
        let points = series.within(begin_ns, end_ns).iter();
        points.filter(|point| point.value > 0.0).map(|point| point.end_ns).collect()
    });
    let pairs = |bounds: &[u64]| -> Vec<(u64, u64)> {
        bounds.windows(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect()
    };
    if let (Some(first), Some(last)) = (bounds.first(), bounds.last())
        && first < last
    {
        return Windows { whole_ns: (*first, *last), between_checkpoints: true, parts_ns: pairs(&bounds) };
    }
    let length = end_ns.saturating_sub(begin_ns);
    let compacts = evidence.series.get(&format!("server.{member}.flush.written_bytes")).is_some();
    let parts_ns = if compacts && length >= PARTS * MIN_PART_NS {
        pairs(&(0..=PARTS).map(|part| begin_ns + length / PARTS * part).collect::<Vec<u64>>())
    } else {
        Vec::new()
    };
    Windows { whole_ns: (begin_ns, end_ns), between_checkpoints: false, parts_ns }
}

/// The sum that a counter added within a window; a reading across its edge counts by the part within it. `None` if there is no
/// such series.
pub(super) fn sum(evidence: &Evidence, name: &str, (begin_ns, end_ns): (u64, u64)) -> Option<f64> {
    let points = &evidence.series.get(name)?.points;
    let from = points.partition_point(|point| point.end_ns <= begin_ns);
    let within =
        points.get(from..)?.iter().take_while(|point| point.begin_ns < end_ns || point.end_ns <= end_ns);
    Some(
        within
            .filter(|point| point.value.is_finite())
            .map(|point| {
                let length = point.end_ns.saturating_sub(point.begin_ns);
                let inside = point.end_ns.min(end_ns).saturating_sub(point.begin_ns.max(begin_ns));
                if length == 0 { point.value } else { point.value * inside as f64 / length as f64 }
            })
            .sum(),
    )
}

/// The sum of several counters; `None` if none was read.
pub(super) fn sums<'n>(
    evidence: &Evidence,
    names: impl IntoIterator<Item = &'n String>,
    window_ns: (u64, u64),
) -> Option<f64> {
    names.into_iter().filter_map(|name| sum(evidence, name, window_ns)).reduce(|a, b| a + b)
}

/// The fewest windows for a settled figure, and the most that they may vary: a smaller difference does not change what a reader decides.
const MIN_WINDOWS: usize = 5;
const MAX_SETTLED_VARIATION: f64 = 0.05;

/// If the server's process has less than this share of a device's bytes, its own count takes the device's place.
const MIN_OWN_SHARE: f64 = 0.9;
/// The fewest bytes from users for a ratio. With fewer, the writes of an idle server would be divided by almost nothing.
const MIN_USER_BYTES: f64 = 1_048_576.0;
/// The fewest reads for each write for a ratio of the bytes read to the reads.
const MIN_READS_PER_WRITE: f64 = 0.1;
/// If less than this is allocated for a byte of the documents, that is no compression: they are in memory and the journal only.
const MIN_ALLOCATED_PER_BYTE: f64 = 0.02;

/// Names of the counters of a server, by level.
struct Names {
    user: Vec<String>,
    journal: Vec<String>,
    engine: Vec<String>,
    volume: Vec<String>,
    devices: Vec<String>,
    devices_read: Vec<String>,
    devices_reads: Vec<String>,
}

fn names(evidence: &Evidence, member: &str, notes: &mut Vec<String>) -> Names {
    let leaves = leaves(evidence, member);
    if leaves.is_empty() {
        notes.push("No device of this server was watched, so the last level is what its engine says.".into());
    }
    let of = |leaves: &[String], counter: &str| {
        leaves.iter().map(|leaf| format!("device.{leaf}.{counter}")).collect::<Vec<_>>()
    };
    let tops = tops(evidence, member);
    let volume = if tops == leaves { Vec::new() } else { tops };
    Names {
        user: user(evidence, member, notes),
        journal: vec![format!("server.{member}.journal.written_bytes")],
        engine: vec![format!("server.{member}.engine.written_bytes")],
        volume: of(&volume, "written_bytes"),
        devices: of(&leaves, "written_bytes"),
        devices_read: of(&leaves, "read_bytes"),
        devices_reads: of(&leaves, "reads"),
    }
}

/// The counters of the user's bytes: the client's own, which hold for every member of a set, else the bytes that came in over the
/// network.
fn user(evidence: &Evidence, member: &str, notes: &mut Vec<String>) -> Vec<String> {
    let counted: Vec<String> = client_names(evidence, "user_bytes").collect();
    let one_load = evidence.members().len() == 1
        || evidence.series.get(&format!("server.{member}.replication.state")).is_some();
    if !counted.is_empty() && one_load {
        return counted;
    }
    notes.push(
        "The client's own count of user bytes is not there for this server: they are estimated by what came in over the \
         network, which holds queries and headers too, so the figures are too low."
            .into(),
    );
    vec![format!("server.{member}.network.in_bytes")]
}

/// The amplification of a server; `None` if nothing was written, or only one level was read.
pub(super) fn amplification(evidence: &Evidence, member: &str) -> Option<Amplification> {
    let mut notes = Vec::new();
    let names = names(evidence, member, &mut notes);
    let windows = windows_of(evidence, member);
    let mut written = levels(evidence, member, &names, windows.whole_ns)?;
    let (slope, variation) = settle(evidence, &names, &windows).unwrap_or_default();
    let settled = windows.parts_ns.len() >= MIN_WINDOWS
        && variation.is_some_and(|variation| variation < MAX_SETTLED_VARIATION);
    notes.extend(doubts(evidence, member, &windows, settled));
    let (read, reads_of_device) = reads_of(evidence, member, &names, windows.whole_ns);
    let count =
        |name: &str| sum(evidence, &format!("server.{member}.{name}"), windows.whole_ns).filter(|n| *n > 0.0);
    let reads = count("reads.operations").or_else(|| count("opcounters.query"));
    // The pages that writes read are not charged to a few reads.
    let reads =
        reads.filter(|reads| *reads >= MIN_READS_PER_WRITE * count("writes.operations").unwrap_or(0.0));
    let over = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
    notes.extend(leave_out_others(evidence, member, &names, &mut written, windows.whole_ns));
    let last = |name: &str| {
        Some(evidence.series.get(&format!("server.{member}.storage.{name}"))?.points.last()?.value)
    };
    let space = over(last("allocated_bytes"), last("logical_bytes").filter(|bytes| *bytes > 0.0));
    if space.is_some_and(|space| space < MIN_ALLOCATED_PER_BYTE) {
        notes.push(
            "Most documents were not in the engine's files yet, so what is allocated for them is not known."
                .into(),
        );
    }
    Some(Amplification {
        member: member.to_owned(),
        window_ns: windows.whole_ns,
        between_checkpoints: windows.between_checkpoints,
        written,
        slope,
        windows: windows.parts_ns.len() as u64,
        variation,
        settled,
        read_per_returned_byte: over(read, count("network.out_bytes")).filter(|_| reads.is_some()),
        read_per_operation_bytes: over(read, reads),
        reads_per_operation: over(reads_of_device, reads),
        space: space.filter(|space| *space >= MIN_ALLOCATED_PER_BYTE),
        notes,
    })
}

/// Bytes and requests that were read. If other programs read from the devices too, the bytes are those of the process; its requests are not counted.
fn reads_of(
    evidence: &Evidence,
    member: &str,
    names: &Names,
    window_ns: (u64, u64),
) -> (Option<f64>, Option<f64>) {
    let read = sums(evidence, &names.devices_read, window_ns);
    let own = sum(evidence, &format!("server.{member}.process.read_bytes"), window_ns);
    match own.zip(read) {
        Some((own, read)) if own < MIN_OWN_SHARE * read => (Some(own), None),
        _ => (read, sums(evidence, &names.devices_reads, window_ns)),
    }
}

/// Replaces the bytes of the devices by those that the process asked for, if other programs wrote many of them, and says so.
fn leave_out_others(
    evidence: &Evidence,
    member: &str,
    names: &Names,
    written: &mut Vec<WrittenLevel>,
    window_ns: (u64, u64),
) -> Option<String> {
    // A server makes the copies on several devices itself.
    let lowest = if names.volume.is_empty() { "device" } else { "volume" };
    let at = written.iter().position(|level| level.name == lowest)?;
    let own = sum(evidence, &format!("server.{member}.process.written_bytes"), window_ns)?;
    let of_device = written.get(at)?.clone();
    if own >= MIN_OWN_SHARE * of_device.bytes {
        return None;
    }
    written.truncate(at);
    let above = written.last().map_or(own, |level| level.bytes);
    written.push(WrittenLevel {
        name: "process".to_owned(),
        bytes: own,
        per_user_byte: of_device.per_user_byte * own / of_device.bytes,
        step: own / above,
        per_operation_bytes: of_device.per_operation_bytes.map(|bytes| bytes * own / of_device.bytes),
        parts: Vec::new(),
    });
    Some(format!(
        "The server's process wrote {:.0} % of what the {lowest} did ({} for each byte of the user): the file system's own journal and \
         metadata, or other programs, wrote the rest.",
        100.0 * own / of_device.bytes,
        decimal(of_device.per_user_byte)
    ))
}

/// The bytes that each level wrote. `None` if a user wrote no bytes, or if no level below was read.
fn levels(
    evidence: &Evidence,
    member: &str,
    names: &Names,
    window_ns: (u64, u64),
) -> Option<Vec<WrittenLevel>> {
    let user = sums(evidence, &names.user, window_ns).filter(|bytes| *bytes >= MIN_USER_BYTES)?;
    let operations =
        ["inserted", "updated", "deleted"].map(|kind| format!("server.{member}.documents.{kind}"));
    let operations = sums(evidence, &operations, window_ns).filter(|count| *count > 0.0);
    let mut above = user;
    let mut written = Vec::new();
    let all = [
        ("user", &names.user),
        ("journal", &names.journal),
        ("engine", &names.engine),
        ("volume", &names.volume),
        ("device", &names.devices),
    ];
    for (name, counters) in all {
        let Some(bytes) = sums(evidence, counters, window_ns).filter(|bytes| *bytes > 0.0) else { continue };
        written.push(WrittenLevel {
            name: name.to_owned(),
            bytes,
            per_user_byte: bytes / user,
            step: bytes / above,
            per_operation_bytes: operations.map(|count| bytes / count),
            parts: parts(evidence, member, name, counters, window_ns),
        });
        above = bytes;
    }
    (written.len() > 1).then_some(written)
}

/// The parts of a level, if they were counted.
fn parts(
    evidence: &Evidence,
    member: &str,
    level: &str,
    counters: &[String],
    window_ns: (u64, u64),
) -> Vec<(String, f64)> {
    let named: Vec<(String, String)> = match level {
        "engine" => [
            ("checkpoint", "engine.checkpoint_bytes"),
            ("flush", "flush.written_bytes"),
            ("compaction", "compaction.written_bytes"),
        ]
        .map(|(part, name)| (part.to_owned(), format!("server.{member}.{name}")))
        .into(),
        "device" if counters.len() > 1 => counters
            .iter()
            .filter_map(|name| {
                Some((name.strip_prefix("device.")?.strip_suffix(".written_bytes")?.to_owned(), name.clone()))
            })
            .collect(),
        _ => Vec::new(),
    };
    named
        .into_iter()
        .filter_map(|(part, name)| {
            Some((part, sum(evidence, &name, window_ns).filter(|bytes| *bytes > 0.0)?))
        })
        .collect()
}

/// The slope of the lowest level over the user's bytes through the windows, and how the windows vary.
fn settle(evidence: &Evidence, names: &Names, windows: &Windows) -> Option<(Option<f64>, Option<f64>)> {
    let lowest = [&names.devices, &names.volume, &names.engine, &names.journal]
        .into_iter()
        .find(|counters| sums(evidence, *counters, windows.whole_ns).is_some_and(|bytes| bytes > 0.0))?;
    let mut at = (0.0, 0.0);
    let mut points = vec![at];
    let mut ratios = Vec::new();
    for window_ns in &windows.parts_ns {
        let user = sums(evidence, &names.user, *window_ns).unwrap_or(0.0);
        let bytes = sums(evidence, lowest, *window_ns).unwrap_or(0.0);
        at = (at.0 + user, at.1 + bytes);
        points.push(at);
        if user > 0.0 {
            ratios.push(bytes / user);
        }
    }
    let slope = (ratios.len() >= MIN_WINDOWS).then(|| theil_sen_slope(&points)).flatten();
    Some((slope, coefficient_of_variation(&ratios)))
}

/// One sentence for each weakness of the figures.
fn doubts(evidence: &Evidence, member: &str, windows: &Windows, settled: bool) -> Vec<String> {
    let mut doubts = Vec::new();
    if windows.parts_ns.is_empty() {
        doubts.push("The window does not begin and end with a checkpoint: pages that were dirty at its ends are not accounted for.".into());
    }
    if !settled {
        doubts.push(format!(
            "Not at steady state: that needs {MIN_WINDOWS} checkpoint cycles within {:.0} % of each other, and there were {}.",
            100.0 * MAX_SETTLED_VARIATION,
            windows.parts_ns.len()
        ));
    }
    let pending = evidence.series.get(&format!("server.{member}.compaction.pending"));
    let pending = pending.and_then(|series| series.within(windows.whole_ns.0, windows.whole_ns.1).last());
    if pending.is_some_and(|point| point.value > 0.0) {
        doubts.push("Compaction was pending at the end: what it has yet to write is missing.".into());
    }
    doubts
}
