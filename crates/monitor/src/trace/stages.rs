//! Events put together to requests: how long each waited in the kernel, and how long the device took.
//!
//! A request is known by its disk and first sector. Requests that were merged into another begin elsewhere, so of a merged pair
//! only the front one's wait is known; from issue to completion every request is. What has no partner is left out: a lost event
//! costs a count, never a wrong time.

use std::collections::HashMap;

use fathom_stats::Histogram;

use super::records::{Event, Operation, Stage};

/// Beyond this many open ends, old ones are looked for.
const OPEN_MAX: usize = 10_000;
/// Nothing waits longer: the kernel gives up a request after 30 s by default.
const OLD_NS: u64 = 60_000_000_000;

/// Where a request is: its disk's place in the list and its first sector.
type Key = (usize, u64);

/// What one disk's requests did since they were last taken.
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
pub(crate) struct Requests {
    /// Which disk an event of a device number belongs to: its own, or that of the partition.
    disk_of: HashMap<u32, usize>,
    queued: HashMap<Key, u64>,
    issued: HashMap<Key, (u64, u32)>,
    flushing: HashMap<usize, u64>,
    stages: Vec<Stages>,
}

impl Requests {
    /// For `disks` disks; device numbers as the kernel's events give them.
    pub(crate) fn new(disks: usize, disk_of: HashMap<u32, usize>) -> Requests {
        Requests {
            disk_of,
            queued: HashMap::new(),
            issued: HashMap::new(),
            flushing: HashMap::new(),
            stages: (0..disks).map(|_| Stages::new()).collect(),
        }
    }

    /// What was measured since the last call, disk by disk.
    pub(crate) fn take(&mut self) -> Vec<Stages> {
        self.stages.iter_mut().map(|stages| std::mem::replace(stages, Stages::new())).collect()
    }

    /// Takes the next event; they must come in the order of time.
    pub(crate) fn add(&mut self, event: &Event) {
        let Some(disk) = self.disk_of.get(&event.device).copied() else { return };
        let Some(stages) = self.stages.get_mut(disk) else { return };
        let (key, at_ns) = ((disk, event.sector), event.at_ns);
        if event.sectors == 0 {
            // A flush shows up as writes of nothing as well, which are it seen from above.
            match (event.operation, event.stage) {
                (Operation::Flush, Stage::Issued) => drop(self.flushing.insert(disk, at_ns)),
                (Operation::Flush, Stage::Done) => {
                    let issued_ns = self.flushing.remove(&disk);
                    issued_ns.into_iter().for_each(|ns| stages.flushes.record(at_ns.saturating_sub(ns)));
                }
                _ => {}
            }
            return;
        }
        match event.stage {
            Stage::Queued => drop(self.queued.insert(key, at_ns)),
            Stage::Issued => {
                if let Some(queued_ns) = self.queued.remove(&key) {
                    stages.queued.record(at_ns.saturating_sub(queued_ns));
                }
                self.issued.insert(key, (at_ns, event.sectors));
            }
            Stage::Done => {
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
                            Operation::Read => reads,
                            Operation::Write => writes,
                            _ => others,
                        };
                        histogram.record(at_ns.saturating_sub(issued_ns));
                    }
                }
            }
        }
    }

    /// Forgets ends that will never meet: merged requests, and partners of lost events.
    pub(crate) fn tidy(&mut self, now_ns: u64) {
        if self.queued.len() > OPEN_MAX {
            self.queued.retain(|_, at_ns| now_ns.saturating_sub(*at_ns) < OLD_NS);
        }
        if self.issued.len() > OPEN_MAX {
            self.issued.retain(|_, (at_ns, _)| now_ns.saturating_sub(*at_ns) < OLD_NS);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(at_ns: u64, stage: Stage, sector: u64, sectors: u32, operation: Operation) -> Event {
        Event { at_ns, stage, device: 5, sector, sectors, operation }
    }

    fn times(events: &[Event]) -> Stages {
        let mut requests = Requests::new(1, HashMap::from([(5, 0), (6, 0)]));
        events.iter().for_each(|event| requests.add(event));
        requests.take().remove(0)
    }

    #[test]
    fn a_request_of_a_partition_in_two_parts() {
        use Operation::Read;
        let stages = times(&[
            Event { device: 6, ..event(100, Stage::Queued, 64, 16, Read) },
            event(1_100, Stage::Issued, 64, 16, Read),
            event(3_100, Stage::Done, 64, 8, Read),
            event(4_100, Stage::Done, 72, 8, Read),
            event(5_000, Stage::Done, 72, 8, Read),
            Event { device: 9, ..event(6_000, Stage::Issued, 1, 8, Read) },
        ]);
        assert_eq!((stages.queued.mean_ns(), stages.served[0].0.mean_ns()), (Some(1_000.0), Some(3_000.0)));
        assert_eq!((stages.served[0].0.len(), stages.served[1].0.len()), (1, 0));
    }

    #[test]
    fn flushes_are_timed_alone() {
        use Operation::{Flush, Write};
        let stages = times(&[
            event(0, Stage::Queued, 0, 0, Write),
            event(10, Stage::Issued, 0, 0, Flush),
            event(510, Stage::Done, 0, 0, Flush),
            event(520, Stage::Done, 0, 0, Write),
        ]);
        assert_eq!((stages.flushes.mean_ns(), stages.served[1].0.len()), (Some(500.0), 0));
    }

    #[test]
    fn open_ends_do_not_pile_up() {
        let mut requests = Requests::new(1, HashMap::from([(5, 0)]));
        for sector in 0..20_000 {
            requests.add(&event(sector, Stage::Queued, sector, 8, Operation::Write));
        }
        requests.tidy(OLD_NS + 15_000);
        assert_eq!(requests.queued.len(), 4_999);
    }

    proptest! {
        #[test]
        fn no_order_of_events_panics(events in prop::collection::vec((any::<u64>(), 0..3_u8, 0..3_u64, 0..3_u32, 0..4_u8), 0..60)) {
            let events: Vec<Event> = events.into_iter().map(|(at_ns, stage, sector, sectors, operation)| {
                let stage = [Stage::Queued, Stage::Issued, Stage::Done][usize::from(stage)];
                let operation = [Operation::Read, Operation::Write, Operation::Flush, Operation::Other][usize::from(operation)];
                event(at_ns, stage, u64::MAX - sector, sectors, operation)
            }).collect();
            times(&events);
        }
    }
}
