//! The thread that paces the driver's tasks: announces when operations are due, passes on each second, ends operations that take too long.
//!
//! A runtime's timers have a resolution of a millisecond, which is too coarse for a schedule. So a separate thread watches
//! the time, and tasks wait for its signal.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::super::arrivals::ArrivalTimes;
use super::super::event_loop::{GRACE_NS, TICK_NS};
use super::super::plan::LoopsState;
use super::super::recorder::{LoopGauge, LoopMessage, LoopSecond};
use crate::driving::plan::{process_cpu_ns, thread_cpu_ns};

/// The place for the tasks' measurements: one for each thread, so that few tasks wait for each other.
#[derive(Debug, Default)]
pub(super) struct TaskLane {
    pub(super) piece: Mutex<LoopSecond>,
    pub(super) gauge: Arc<LoopGauge>,
}

/// The operations that are due, over all tasks of a run.
#[derive(Debug)]
pub(super) struct TaskPace {
    due: Semaphore,
    schedule: Mutex<ArrivalTimes>,
}

impl TaskPace {
    pub(super) fn new(schedule: ArrivalTimes) -> TaskPace {
        TaskPace { due: Semaphore::new(0), schedule: Mutex::new(schedule) }
    }

    /// Waits until the next operation is due. Returns the time at which it was due; `None` if the run is over.
    pub(super) async fn next(&self) -> Option<u64> {
        self.due.acquire().await.ok()?.forget();
        let mut schedule = self.schedule.lock();
        let due_ns = schedule.due_ns();
        schedule.advance();
        Some(due_ns)
    }

    /// Adds operations that are due.
    pub(super) fn add(&self, operations: usize) {
        // No client could catch up with more operations than the semaphore holds.
        self.due.add_permits(operations.min(Semaphore::MAX_PERMITS - self.due.available_permits()));
    }

    /// Whether an operation is due that no task has taken.
    pub(super) fn is_behind(&self) -> bool {
        self.due.available_permits() > 0
    }

    /// Ends the schedule: no operation begins any more.
    pub(super) fn close(&self) {
        self.due.close();
    }
}

pub(super) struct Pacer {
    pub(super) shared: Arc<LoopsState>,
    pub(super) lanes: Vec<Arc<TaskLane>>,
    pub(super) words: Sender<LoopMessage>,
    /// The same times as the pace's, announced from here.
    pub(super) schedule: Option<ArrivalTimes>,
    pub(super) pace: Option<Arc<TaskPace>>,
    /// Tasks that have not ended.
    pub(super) running: Arc<AtomicUsize>,
    /// Processor time of the thread that collects.
    pub(super) collecting_ns: Arc<AtomicU64>,
}

impl Pacer {
    /// Runs until all tasks have ended, or the run is over and the grace time of the remaining tasks has passed.
    pub(super) fn run(mut self) {
        // As in an event loop: a timer that is rounded would show in the latencies.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let clock = self.shared.clock;
        let mut spent_ns = self.spent_ns();
        let mut second = self.shared.second_of(clock.now_ns());
        let mut over_ns = None;
        while self.running.load(Ordering::Acquire) > 0 {
            let now_ns = clock.now_ns();
            if self.shared.is_over(now_ns) {
                let since_ns = *over_ns.get_or_insert(now_ns);
                self.pace.iter().for_each(|pace| pace.close());
                if now_ns > since_ns.saturating_add(GRACE_NS) {
                    break;
                }
            }
            let now_second = self.shared.second_of(now_ns);
            if now_second != second {
                spent_ns = self.tell(second, spent_ns);
                second = now_second;
            }
            let mut until_ns = now_ns - now_ns % TICK_NS + TICK_NS;
            if over_ns.is_none() {
                until_ns = until_ns.min(self.announce(now_ns));
            }
            thread::park_timeout(Duration::from_nanos(until_ns.saturating_sub(clock.now_ns())));
        }
        self.tell(second, spent_ns);
        for lane in &self.lanes {
            // A collector that has ended needs nothing.
            let _ = self.words.send(LoopMessage::Ended(lane.gauge.in_flight.load(Ordering::Relaxed)));
        }
    }

    /// Announces what is due; returns when the next operation is.
    fn announce(&mut self, now_ns: u64) -> u64 {
        let (Some(schedule), Some(pace)) = (&mut self.schedule, &self.pace) else { return u64::MAX };
        let mut due = 0;
        while schedule.due_ns() <= now_ns {
            schedule.advance();
            due += 1;
        }
        if due > 0 {
            pace.add(due);
        }
        if let Some(lane) = self.lanes.first() {
            lane.gauge.overdue.store(pace.is_behind(), Ordering::Relaxed);
        }
        schedule.due_ns()
    }

    /// Processor time of all but the collecting and this thread.
    fn spent_ns(&self) -> u64 {
        process_cpu_ns().saturating_sub(thread_cpu_ns() + self.collecting_ns.load(Ordering::Relaxed))
    }

    /// Sends the measurements since the end of the last second; returns the processor time until now.
    fn tell(&self, second: i64, before_ns: u64) -> u64 {
        let spent_ns = self.spent_ns();
        let share_ns = spent_ns.saturating_sub(before_ns) / self.lanes.len().max(1) as u64;
        for lane in &self.lanes {
            let mut piece = std::mem::take(&mut *lane.piece.lock());
            piece.cpu_ns = share_ns;
            let _ = self.words.send(LoopMessage::LoopSecond(second, Box::new(piece)));
        }
        spent_ns
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use fathom_stats::SeededRandom;

    use super::*;
    use crate::driving::{Arrivals, DrivingPlan};

    const MS: u64 = 1_000_000;

    fn pacer(arrivals: Arrivals) -> (Pacer, Arc<TaskPace>) {
        let plan = DrivingPlan {
            connections: 4,
            loops: 1,
            depth: 1,
            operations: None,
            time: None,
            warmup: Duration::ZERO,
            arrivals,
            deadline: None,
            no_progress: None,
            batch: 1,
            seed: 5,
            points: false,
        };
        let schedule = arrivals.schedule(1.0, 0.0, SeededRandom::from_seed(5)).unwrap();
        let pace = Arc::new(TaskPace::new(schedule.clone()));
        let pacer = Pacer {
            shared: LoopsState::new(&plan),
            lanes: vec![Arc::default()],
            words: mpsc::channel().0,
            schedule: Some(schedule),
            pace: Some(Arc::clone(&pace)),
            running: Arc::default(),
            collecting_ns: Arc::default(),
        };
        (pacer, pace)
    }

    /// The due times of the operations that tasks can begin.
    fn take(pace: &TaskPace) -> Vec<u64> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let count = pace.due.available_permits();
        (0..count).map(|_| runtime.block_on(pace.next()).unwrap()).collect()
    }

    #[test]
    fn operations_are_announced_when_they_are_due_and_keep_their_due_times() {
        let (mut pacer, pace) = pacer(Arrivals::Uniform(200.0));
        assert_eq!((pacer.announce(0), take(&pace)), (5 * MS, vec![0]));
        assert_eq!((pacer.announce(5 * MS - 1), take(&pace)), (5 * MS, vec![]));
        assert_eq!((pacer.announce(5 * MS), take(&pace)), (10 * MS, vec![5 * MS]));
        assert!(!pace.is_behind());
        // After a pause of 400 ms the thread announces at once all operations that were due meanwhile.
        assert_eq!(pacer.announce(405 * MS), 410 * MS);
        assert!(pacer.lanes[0].gauge.overdue.load(Ordering::Relaxed));
        assert_eq!(take(&pace), (2..=81).map(|number| number * 5 * MS).collect::<Vec<_>>());
    }

    #[test]
    fn random_arrivals_have_their_rate() {
        let (mut pacer, pace) = pacer(Arrivals::Poisson(200.0));
        pacer.announce(100_000 * MS);
        let due_ns = take(&pace);
        assert!((19_500..20_500).contains(&due_ns.len()), "{}", due_ns.len());
        assert!(due_ns.is_sorted() && due_ns.last().is_some_and(|last| *last <= 100_000 * MS));
    }
}
