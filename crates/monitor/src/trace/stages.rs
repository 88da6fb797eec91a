//! Combines events into requests: the time that each waited in the kernel, and the time that the device took.
//!
//! A request is known by its disk and first sector. Requests that were merged into another begin elsewhere, so of a merged pair
//! only the wait of the front one is known; the time from issue to completion is known of every request. An event without a
//! partner is left out: a lost event loses a count, but never gives a wrong time.

use std::collections::HashMap;

use fathom_stats::Histogram;

use super::records::{RequestKind, RequestStage, TraceEvent};

/// Above this number of unmatched events, old ones are dropped.
const MAX_OPEN_EVENTS: usize = 10_000;
/// No request waits longer: the kernel gives up a request after 30 s by default.
const MAX_REQUEST_NS: u64 = 60_000_000_000;

/// The key of a request: its disk's place in the list and its first sector.
type RequestKey = (usize, u64);

/// The requests of one disk since they were last taken.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    /// From queueing to issue (Q2D).
    pub(crate) queued: Histogram,
    /// From issue to completion (D2C), of reads, writes and others.
    pub(crate) served: [(Histogram, &'static str); 3],
    /// The same of flushes, which move nothing.
    pub(crate) flushes: Histogram,
}

impl Stages {
    fn new() -> Stages {
        let served = ["read", "write", "other"].map(|name| (Histogram::new(), name));
        Stages { served, ..Stages::default() }
    }
}

/// Requests under way and times taken.
#[derive(Debug)]
pub(crate) struct RequestTracks {
    /// The disk to which an event of a device number belongs: the device itself, or the disk of the partition.
    disk_of: HashMap<u32, usize>,
    queued: HashMap<RequestKey, u64>,
    issued: HashMap<RequestKey, (u64, u32)>,
    flushing: HashMap<usize, u64>,
    stages: Vec<Stages>,
}

impl RequestTracks {
    /// For `disks` disks; device numbers as the kernel's events give them.
    pub(crate) fn new(disks: usize, disk_of: HashMap<u32, usize>) -> RequestTracks {
        RequestTracks {
            disk_of,
            queued: HashMap::new(),
            issued: HashMap::new(),
            flushing: HashMap::new(),
            stages: (0..disks).map(|_| Stages::new()).collect(),
        }
    }

    /// The measurements since the last call, disk by disk.
    pub(crate) fn take(&mut self) -> Vec<Stages> {
        self.stages.iter_mut().map(|stages| std::mem::replace(stages, Stages::new())).collect()
    }

    /// Takes the next event; they must come in the order of time.
    pub(crate) fn add(&mut self, event: &TraceEvent) {
        let Some(disk) = self.disk_of.get(&event.device).copied() else { return };
        let Some(stages) = self.stages.get_mut(disk) else { return };
        let (key, at_ns) = ((disk, event.sector), event.at_ns);
        if event.sectors == 0 {
            // A flush also appears as empty writes, which are the same flush seen from above.
            match (event.operation, event.stage) {
                (RequestKind::Flush, RequestStage::Issued) => drop(self.flushing.insert(disk, at_ns)),
                (RequestKind::Flush, RequestStage::Done) => {
                    let issued_ns = self.flushing.remove(&disk);
                    issued_ns.into_iter().for_each(|ns| stages.flushes.record(at_ns.saturating_sub(ns)));
                }
                _ => {}
            }
            return;
        }
        match event.stage {
            RequestStage::Queued => drop(self.queued.insert(key, at_ns)),
            RequestStage::Issued => {
                if let Some(queued_ns) = self.queued.remove(&key) {
                    stages.queued.record(at_ns.saturating_sub(queued_ns));
                }
                self.issued.insert(key, (at_ns, event.sectors));
            }
            RequestStage::Done => {
                let Some((issued_ns, sectors)) = self.issued.remove(&key) else { return };
                match sectors.checked_sub(event.sectors).filter(|left| *left > 0) {
                    // Completion may come in parts; the last one counts.
                    Some(left) => {
                        let rest = event.sector.saturating_add(u64::from(event.sectors));
                        self.issued.insert((disk, rest), (issued_ns, left));
                    }
                    None => {
                        let [reads, writes, others] = &mut stages.served;
                        let (histogram, _) = match event.operation {
                            RequestKind::Read => reads,
                            RequestKind::Write => writes,
                            _ => others,
                        };
                        histogram.record(at_ns.saturating_sub(issued_ns));
                    }
                }
            }
        }
    }

    /// Drops events that will never be matched: merged requests, and partners of lost events.
    pub(crate) fn tidy(&mut self, now_ns: u64) {
        if self.queued.len() > MAX_OPEN_EVENTS {
            self.queued.retain(|_, at_ns| now_ns.saturating_sub(*at_ns) < MAX_REQUEST_NS);
        }
        if self.issued.len() > MAX_OPEN_EVENTS {
            self.issued.retain(|_, (at_ns, _)| now_ns.saturating_sub(*at_ns) < MAX_REQUEST_NS);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(
        at_ns: u64,
        stage: RequestStage,
        sector: u64,
        sectors: u32,
        operation: RequestKind,
    ) -> TraceEvent {
        TraceEvent { at_ns, stage, device: 5, sector, sectors, operation }
    }

    fn times(events: &[TraceEvent]) -> Stages {
        let mut requests = RequestTracks::new(1, HashMap::from([(5, 0), (6, 0)]));
        events.iter().for_each(|event| requests.add(event));
        requests.take().remove(0)
    }

    #[test]
    fn a_request_of_a_partition_in_two_parts() {
        use RequestKind::Read;
        let stages = times(&[
            TraceEvent { device: 6, ..event(100, RequestStage::Queued, 64, 16, Read) },
            event(1_100, RequestStage::Issued, 64, 16, Read),
            event(3_100, RequestStage::Done, 64, 8, Read),
            event(4_100, RequestStage::Done, 72, 8, Read),
            event(5_000, RequestStage::Done, 72, 8, Read),
            TraceEvent { device: 9, ..event(6_000, RequestStage::Issued, 1, 8, Read) },
        ]);
        assert_eq!((stages.queued.mean_ns(), stages.served[0].0.mean_ns()), (Some(1_000.0), Some(3_000.0)));
        assert_eq!((stages.served[0].0.len(), stages.served[1].0.len()), (1, 0));
    }

    #[test]
    fn flushes_are_timed_alone() {
        use RequestKind::{Flush, Write};
        let stages = times(&[
            event(0, RequestStage::Queued, 0, 0, Write),
            event(10, RequestStage::Issued, 0, 0, Flush),
            event(510, RequestStage::Done, 0, 0, Flush),
            event(520, RequestStage::Done, 0, 0, Write),
        ]);
        assert_eq!((stages.flushes.mean_ns(), stages.served[1].0.len()), (Some(500.0), 0));
    }

    #[test]
    fn open_ends_do_not_pile_up() {
        let mut requests = RequestTracks::new(1, HashMap::from([(5, 0)]));
        for sector in 0..20_000 {
            requests.add(&event(sector, RequestStage::Queued, sector, 8, RequestKind::Write));
        }
        requests.tidy(MAX_REQUEST_NS + 15_000);
        assert_eq!(requests.queued.len(), 4_999);
    }

    proptest! {
        #[test]
        fn no_order_of_events_panics(events in prop::collection::vec((any::<u64>(), 0..3_u8, 0..3_u64, 0..3_u32, 0..4_u8), 0..60)) {
            let events: Vec<TraceEvent> = events.into_iter().map(|(at_ns, stage, sector, sectors, operation)| {
                let stage = [RequestStage::Queued, RequestStage::Issued, RequestStage::Done][usize::from(stage)];
                let operation = [RequestKind::Read, RequestKind::Write, RequestKind::Flush, RequestKind::Other][usize::from(operation)];
                event(at_ns, stage, u64::MAX - sector, sectors, operation)
            }).collect();
            times(&events);
        }
    }
}
