//! Traces block requests one by one: the time that each waits in the kernel (Q2D) and the time that the device takes (D2C).
//!
//! It needs root, or CAP_PERFMON and readable tracefs; without them it makes one note with the consequence. Every event is
//! counted, not sampled; events that the kernel dropped for lack of space are counted and reported. Above 200 000 requests a
//! second tracing stops, because it would cost more than it is worth.

mod perf_event;
mod records;
mod stages;
mod tracepoint;

use std::collections::HashMap;

use fathom_errors::{Error, Kind, Result};
use fathom_host::{BlockTree, DeviceNumber, View};
use fathom_stats::Histogram;
use rustix::time::{ClockId, clock_gettime};

use crate::host::WatchedDevice;
use crate::sampler::Notes;
use crate::{Batch, Sampler};
use perf_event::RingBuffer;
use records::TraceEvent;
use stages::{RequestTracks, Stages};
use tracepoint::Tracepoints;

/// The rate beyond which tracing ends.
const MAX_REQUESTS_PER_S: f64 = 200_000.0;
/// The period at which times become readings.
const WINDOW_NS: u64 = 1_000_000_000;
/// Events younger than this may still lack older ones of another processor, whose ring was drained a moment before.
const MIN_EVENT_AGE_NS: u64 = 1_000_000;
/// Memory of all rings together, which is locked.
const RINGS_BYTES: usize = 64 << 20;

/// Traces the bottom devices.
pub(crate) struct Trace {
    view: View,
    disks: Vec<WatchedDevice>,
    state: TraceState,
    notes: Notes,
}

enum TraceState {
    Fresh,
    Running(Box<TraceSession>),
    /// Refused or given up; a note has the reason.
    Ended,
}

struct TraceSession {
    points: Tracepoints,
    rings: Vec<RingBuffer>,
    requests: RequestTracks,
    /// Events that may not be complete yet.
    waiting: Vec<TraceEvent>,
    bytes: Vec<u8>,
    begin_ns: u64,
    lost: u64,
}

impl Trace {
    /// Makes a tracer of the bottom devices among `targets`.
    pub(crate) fn new(view: &View, targets: &[WatchedDevice]) -> Trace {
        let disks = targets.iter().filter(|target| target.bottom).cloned().collect();
        Trace { view: view.clone(), disks, state: TraceState::Fresh, notes: Notes::default() }
    }

    fn start(&self, now_ns: u64) -> Result<TraceSession> {
        if !self.view.is_live() {
            return Err(Error::new(Kind::Unsupported, "a saved host has no requests to trace"));
        }
        let points = Tracepoints::find()?;
        let ids = [points.queue.id, points.issue.id, points.complete.id];
        let disk_of = self.disk_of();
        let filter: Vec<String> = disk_of.keys().map(|device| format!("dev == {device}")).collect();
        let processors = processors(&self.view.text("sys/devices/system/cpu/online").unwrap_or_default());
        let ring_bytes = (RINGS_BYTES / processors.len().max(1)).clamp(512 << 10, 8 << 20);
        // A ring must be a power of two, so the size is rounded down to one.
        let ring_bytes = 1 << ring_bytes.ilog2();
        let open = |processor: &u32| {
            RingBuffer::open(&ids, *processor, &filter.join(" || "), ring_bytes).map_err(|e| {
                Error::new(Kind::Permission, "the kernel does not permit Fathom to trace block requests")
                    .because(e)
                    .advise("run as root, or grant CAP_PERFMON")
            })
        };
        let rings = processors.iter().map(open).collect::<Result<Vec<RingBuffer>>>()?;
        Ok(TraceSession {
            points,
            rings,
            requests: RequestTracks::new(self.disks.len(), disk_of),
            waiting: Vec::new(),
            bytes: Vec::new(),
            begin_ns: now_ns,
            lost: 0,
        })
    }

    /// The disk of each device number that events may carry: a bio that was sent to a partition keeps the partition's number.
    fn disk_of(&self) -> HashMap<u32, usize> {
        let tree = BlockTree::read(&self.view);
        let mut disk_of = HashMap::new();
        for (at, disk) in self.disks.iter().enumerate() {
            disk_of.insert(kernel_number(disk.number), at);
            let parts = tree.iter().filter(|device| device.disk.as_ref() == Some(&disk.name));
            disk_of.extend(parts.map(|part| (kernel_number(part.number), at)));
        }
        disk_of
    }
}

impl Sampler for Trace {
    fn name(&self) -> String {
        "trace".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let now_ns = batch.clock.now_ns();
        if matches!(self.state, TraceState::Fresh) {
            self.state = TraceState::Ended;
            self.state = TraceState::Running(Box::new(self.start(now_ns)?));
        }
        let TraceState::Running(running) = &mut self.state else { return Ok(()) };
        running.drain();
        if now_ns.saturating_sub(running.begin_ns) < WINDOW_NS {
            return Ok(());
        }
        let window_ns = (running.begin_ns, now_ns);
        running.begin_ns = now_ns;
        let mut traced = 0;
        for (disk, stages) in self.disks.iter().zip(running.requests.take()) {
            traced += put(batch, &disk.name, window_ns, stages);
        }
        let lost = std::mem::take(&mut running.lost);
        batch.put("monitor.trace.lost", "1", window_ns, lost as f64);
        if lost > 0 {
            self.notes.once(batch, "The kernel dropped some events of block requests for lack of space (monitor.trace.lost counts them). The times of requests do not contain them.");
        }
        if (traced as f64 + lost as f64) * 1e9 / (window_ns.1 - window_ns.0) as f64 > MAX_REQUESTS_PER_S {
            self.state = TraceState::Ended;
            self.notes.once(batch, "Block requests are no longer traced, because there are more than 200 000 a second; from now on a device's time is not split into waiting and being served.");
        }
        Ok(())
    }
}

impl TraceSession {
    /// Takes the events of the rings, and adds those that are old enough to be complete, in the order of time.
    fn drain(&mut self) {
        let settled_ns = monotonic_ns().saturating_sub(MIN_EVENT_AGE_NS);
        for ring in &mut self.rings {
            self.bytes.clear();
            ring.drain(&mut self.bytes);
            self.lost =
                self.lost.saturating_add(records::parse(&self.bytes, &self.points, &mut self.waiting));
        }
        self.waiting.sort_by_key(|event| event.at_ns);
        let ready = self.waiting.partition_point(|event| event.at_ns <= settled_ns);
        for event in self.waiting.drain(..ready) {
            self.requests.add(&event);
        }
        self.requests.tidy(settled_ns);
    }
}

/// Writes one disk's times, and returns the number of their requests.
fn put(batch: &mut Batch, disk: &str, window_ns: (u64, u64), stages: Stages) -> u64 {
    let mut all = Histogram::new();
    stages.served.iter().for_each(|(histogram, _)| all.merge(histogram));
    let traced = all.len();
    batch.put(format!("device.{disk}.traced"), "1", window_ns, traced as f64);
    for (what, histogram) in [("queued", &stages.queued), ("served", &all)] {
        if let Some(mean_ns) = histogram.mean_ns() {
            batch.put(format!("device.{disk}.{what}.mean_us"), "us", window_ns, mean_ns / 1e3);
        }
    }
    let mut keep = |what: &str, histogram: Histogram| {
        if !histogram.is_empty() {
            batch.histograms.push((format!("device.{disk}.{what}"), window_ns, histogram));
        }
    };
    keep("queued", stages.queued);
    for (histogram, name) in stages.served {
        keep(&format!("served.{name}"), histogram);
    }
    keep("served.flush", stages.flushes);
    traced
}

/// Encodes a device's number as the kernel does in events.
fn kernel_number(number: DeviceNumber) -> u32 {
    (number.major << 20) | (number.minor & 0xf_ffff)
}

/// Parses the list of online processors, such as `0-3,5`. Without a list there is processor 0 alone.
fn processors(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // No machine has that many processors: the text is damaged.
        (last < 1 << 16).then_some(first..=last)
    };
    let list: Vec<u32> = text.split(',').filter_map(range).flatten().collect();
    if list.is_empty() { vec![0] } else { list }
}

fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000)
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;
    use records::{RequestKind, RequestStage};

    #[test]
    fn every_request_and_flush_is_counted_with_its_times() {
        const MS: u64 = 1_000_000;
        let mut requests = RequestTracks::new(1, HashMap::from([(5, 0)]));
        for number in 0..300 {
            let mut add = |after_us: u64, stage, sectors, operation| {
                let (at_ns, sector) = (number * MS + after_us * 1000, 8 * number);
                requests.add(&TraceEvent { at_ns, stage, device: 5, sector, sectors, operation });
            };
            add(0, RequestStage::Queued, 8, RequestKind::Write);
            add(100, RequestStage::Issued, 8, RequestKind::Write);
            add(400, RequestStage::Done, 8, RequestKind::Write);
            add(500, RequestStage::Issued, 0, RequestKind::Flush);
            add(700, RequestStage::Done, 0, RequestKind::Flush);
        }
        let mut batch = Batch::new(Clock::simulated(&[]));
        assert_eq!(put(&mut batch, "sda", (0, 300 * MS), requests.take().remove(0)), 300);
        let readings: Vec<_> = batch.readings.iter().map(|one| (one.name.as_str(), one.value)).collect();
        assert_eq!(
            readings,
            [
                ("device.sda.traced", 300.0),
                ("device.sda.queued.mean_us", 100.0),
                ("device.sda.served.mean_us", 300.0)
            ]
        );
        let times = batch.histograms.iter().map(|(name, _, all)| (name.as_str(), all.len(), all.mean_ns()));
        assert_eq!(
            times.collect::<Vec<_>>(),
            [
                ("device.sda.queued", 300, Some(100_000.0)),
                ("device.sda.served.write", 300, Some(300_000.0)),
                ("device.sda.served.flush", 300, Some(200_000.0)),
            ]
        );
    }

    #[test]
    fn numbers_and_lists_of_the_kernel() {
        assert_eq!(processors("0-3,5\n"), [0, 1, 2, 3, 5]);
        assert_eq!((processors(""), processors("0-99999999")), (vec![0], vec![0]));
        assert_eq!(kernel_number(DeviceNumber { major: 7, minor: 1 }), 7_340_033);
    }
}
