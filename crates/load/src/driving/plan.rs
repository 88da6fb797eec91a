//! The plan of a run, and the state that its loops share: the remaining operations, and a clock of
//! nanoseconds since the run began.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::time::ClockId;

use super::arrivals::Arrivals;

const SECOND_NS: u64 = 1_000_000_000;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct DrivingPlan {
    /// Connections over all loops.
    pub connections: usize,
    /// Event loops, one thread each; no more than connections.
    pub loops: usize,
    /// Operations under way on each connection.
    pub depth: usize,
    /// The number of operations to do; `None` means without end.
    pub operations: Option<u64>,
    /// The time to run after the warm-up; `None` means without end.
    pub time: Option<Duration>,
    /// The time at the start that is not measured.
    pub warmup: Duration,
    /// The schedule of operations.
    pub arrivals: Arrivals,
    /// The time after which an operation without a reply counts as lost.
    pub deadline: Option<Duration>,
    /// The time without any finished operation after which the run is given up.
    pub no_progress: Option<Duration>,
    /// The most records of an operation: the size of a batch.
    pub batch: u64,
    /// The seed of the schedules.
    pub seed: u64,
    /// Whether individual latencies are passed on, in addition to the histograms.
    pub points: bool,
}

/// The state that all loops of a run share.
#[derive(Debug)]
pub(super) struct LoopsState {
    pub(super) clock: LoadClock,
    pub(super) budget: OperationBudget,
    /// Whether the run is to stop.
    pub(super) stop: AtomicBool,
    /// The reason of the stop, if a loop caused it.
    pub(super) stopped_by: Mutex<Option<String>>,
    /// The time when measuring begins.
    pub(super) warm_ns: u64,
    /// The time after which no operation begins.
    pub(super) end_ns: Option<u64>,
    /// The time limit for a reply.
    pub(super) deadline_ns: Option<u64>,
    /// The most records of an operation.
    pub(super) batch: u64,
    /// Operations under way on a connection.
    pub(super) depth: usize,
    /// Whether individual latencies are kept.
    pub(super) points: bool,
}

impl LoopsState {
    pub(super) fn new(plan: &DrivingPlan) -> Arc<LoopsState> {
        LoopsState::with_clock(plan, LoadClock::start())
    }

    pub(super) fn with_clock(plan: &DrivingPlan, clock: LoadClock) -> Arc<LoopsState> {
        let warm_ns = nanos(plan.warmup);
        Arc::new(LoopsState {
            clock,
            budget: OperationBudget::new(plan.operations),
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

    /// The number of the second of a time, counted from when measuring begins.
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

/// The remaining operations, possibly without end.
#[derive(Debug)]
pub(super) struct OperationBudget(Option<AtomicU64>);

impl OperationBudget {
    pub(super) fn new(operations: Option<u64>) -> OperationBudget {
        OperationBudget(operations.map(AtomicU64::new))
    }

    /// Claims up to `wanted` operations; 0 when none is left.
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
pub(super) enum LoadClock {
    /// The time since then.
    Real(Instant),
    /// Nanoseconds that a test sets.
    #[cfg(test)]
    Manual(&'static AtomicU64),
}

impl LoadClock {
    pub(super) fn start() -> LoadClock {
        LoadClock::Real(Instant::now())
    }

    pub(super) fn now_ns(self) -> u64 {
        match self {
            LoadClock::Real(zero) => nanos(zero.elapsed()),
            #[cfg(test)]
            LoadClock::Manual(now_ns) => now_ns.load(Ordering::Relaxed),
        }
    }
}

/// A peer in simulated time, which runs while a loop waits.
#[cfg(test)]
pub(super) trait SimulatedPeer: Send {
    /// Moves the manual clock on by `left_ns` at most, to the time at which it sends something.
    fn wait(&mut self, left_ns: u64);
}

/// A duration in nanoseconds; 584 years at most.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The processor time of this thread, in nanoseconds.
pub(super) fn thread_cpu_ns() -> u64 {
    cpu_ns(ClockId::ThreadCPUTime)
}

/// The processor time of all threads of this process, in nanoseconds.
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
        let budget = OperationBudget::new(Some(5));
        assert_eq!((budget.claim(3), budget.claim(3), budget.claim(3)), (3, 2, 0));
        budget.give_back(1);
        assert_eq!((budget.claim(9), budget.claim(1)), (1, 0));
        assert_eq!(OperationBudget::new(None).claim(7), 7);
    }
}
