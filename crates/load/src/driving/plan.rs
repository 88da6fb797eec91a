//! What a run is to do, and what its loops share while they do it: the operations that are left, and one clock,
//! nanoseconds since the run began.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::time::ClockId;

use super::arrivals::Arrivals;

const SECOND_NS: u64 = 1_000_000_000;

/// How a workload is driven.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Connections over all loops.
    pub connections: usize,
    /// Event loops, one thread each; no more than connections.
    pub loops: usize,
    /// Operations under way on each connection.
    pub depth: usize,
    /// How many operations to do; without an end if none.
    pub operations: Option<u64>,
    /// How long, after the warm-up; without an end if none.
    pub time: Option<Duration>,
    /// How long what is done at the start is not measured.
    pub warmup: Duration,
    /// When operations are due.
    pub arrivals: Arrivals,
    /// How long a reply may take before the operation counts as lost.
    pub deadline: Option<Duration>,
    /// How long nothing may end before the run is given up.
    pub no_progress: Option<Duration>,
    /// The most records of an operation: the size of a batch.
    pub batch: u64,
    /// What the schedules are drawn from.
    pub seed: u64,
    /// Whether each latency is handed out by itself, beside the histograms.
    pub points: bool,
}

/// What all loops of a run share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) budget: Budget,
    /// The run shall end.
    pub(super) stop: AtomicBool,
    /// Why, where a loop found out.
    pub(super) stopped_by: Mutex<Option<String>>,
    /// When it begins to be measured.
    pub(super) warm_ns: u64,
    /// When no operation begins any more.
    pub(super) end_ns: Option<u64>,
    /// How long a reply may take.
    pub(super) deadline_ns: Option<u64>,
    /// The most records of an operation.
    pub(super) batch: u64,
    /// Operations under way on a connection.
    pub(super) depth: usize,
    /// Whether each latency is kept by itself.
    pub(super) points: bool,
}

impl Shared {
    pub(super) fn new(plan: &Plan) -> Arc<Shared> {
        let warm_ns = nanos(plan.warmup);
        Arc::new(Shared {
            clock: Clock::start(),
            budget: Budget::new(plan.operations),
            stop: AtomicBool::new(false),
            stopped_by: Mutex::new(None),
            warm_ns,
            end_ns: plan.time.map(|time| warm_ns.saturating_add(nanos(time))),
            deadline_ns: plan.deadline.map(nanos),
            batch: plan.batch.max(1),
            depth: plan.depth.max(1),
            points: plan.points,
        })
    }

    /// The second of a time, counted from when measuring begins.
    pub(super) fn second_of(&self, now_ns: u64) -> i64 {
        let since = i128::from(now_ns) - i128::from(self.warm_ns);
        i64::try_from(since.div_euclid(i128::from(SECOND_NS))).unwrap_or(i64::MAX)
    }

    /// Whether no operation begins any more.
    pub(super) fn is_over(&self, now_ns: u64) -> bool {
        self.end_ns.is_some_and(|end| now_ns >= end) || self.stop.load(Ordering::Relaxed)
    }

    /// Stops the whole run; the first reason counts.
    pub(super) fn stop_because(&self, why: &str) {
        self.stopped_by.lock().get_or_insert_with(|| why.to_owned());
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The operations that are left; without an end if there is none.
#[derive(Debug)]
pub(super) struct Budget(Option<AtomicU64>);

impl Budget {
    pub(super) fn new(operations: Option<u64>) -> Budget {
        Budget(operations.map(AtomicU64::new))
    }

    /// Takes up to so many; 0 when none is left.
    pub(super) fn claim(&self, wanted: u64) -> u64 {
        let Some(left) = &self.0 else { return wanted };
        let mut taken = 0;
        let claim = |left: u64| {
            taken = left.min(wanted);
            (taken > 0).then(|| left - taken)
        };
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim) {
            Ok(_) => taken,
            Err(_) => 0,
        }
    }

    /// Gives back what was claimed and not used.
    pub(super) fn give_back(&self, count: u64) {
        if let Some(left) = self.0.as_ref().filter(|_| count > 0) {
            left.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// The clock; copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(super) fn now_ns(self) -> u64 {
        nanos(self.0.elapsed())
    }
}

/// A duration in nanoseconds; 584 years at most.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How long this thread was on a processor, in nanoseconds.
pub(super) fn thread_cpu_ns() -> u64 {
    cpu_ns(ClockId::ThreadCPUTime)
}

/// How long all threads of this process were, in nanoseconds.
#[cfg(feature = "official-driver")]
pub(super) fn process_cpu_ns() -> u64 {
    cpu_ns(ClockId::ProcessCPUTime)
}

fn cpu_ns(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_used_up_and_no_more() {
        let budget = Budget::new(Some(5));
        assert_eq!((budget.claim(3), budget.claim(3), budget.claim(3)), (3, 2, 0));
        budget.give_back(1);
        assert_eq!((budget.claim(9), budget.claim(1)), (1, 0));
        assert_eq!(Budget::new(None).claim(7), 7);
    }
}
