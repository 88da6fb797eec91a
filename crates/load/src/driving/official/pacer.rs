//! The one thread beside the driver's: it says when operations are due, hands out each second, and ends what takes too long.
//!
//! A runtime's timers go by the millisecond, which is too coarse for a schedule: a thread that has nothing else to do watches
//! the time, and tasks wait for its word.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::super::arrivals::Schedule;
use super::super::event_loop::{GRACE_NS, TICK_NS};
use super::super::plan::Shared;
use super::super::recorder::{Gauge, Piece, Word};
use crate::driving::plan::{process_cpu_ns, thread_cpu_ns};

/// Where tasks put what they measure: as many as threads, so that few wait for each other.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) piece: Mutex<Piece>,
    pub(super) gauge: Arc<Gauge>,
}

/// What is due, over all tasks of a run.
#[derive(Debug)]
pub(super) struct Pace {
    due: Semaphore,
    schedule: Mutex<Schedule>,
}

impl Pace {
    pub(super) fn new(schedule: Schedule) -> Pace {
        Pace { due: Semaphore::new(0), schedule: Mutex::new(schedule) }
    }

    /// When the next operation was due; none if the run is over. Waits until it is.
    pub(super) async fn next(&self) -> Option<u64> {
        self.due.acquire().await.ok()?.forget();
        let mut schedule = self.schedule.lock();
        let due_ns = schedule.due_ns();
        schedule.advance();
        Some(due_ns)
    }

    /// So many more are due.
    pub(super) fn add(&self, operations: usize) {
        // Beyond what it holds nobody could catch up.
        self.due.add_permits(operations.min(Semaphore::MAX_PERMITS - self.due.available_permits()));
    }

    /// Whether something is due that no task has taken.
    pub(super) fn is_behind(&self) -> bool {
        self.due.available_permits() > 0
    }

    /// Nothing is begun any more.
    pub(super) fn close(&self) {
        self.due.close();
    }
}

pub(super) struct Pacer {
    pub(super) shared: Arc<Shared>,
    pub(super) lanes: Vec<Arc<Lane>>,
    pub(super) words: Sender<Word>,
    /// The same times as the pace's, told from here.
    pub(super) schedule: Option<Schedule>,
    pub(super) pace: Option<Arc<Pace>>,
    /// Tasks that have not ended.
    pub(super) running: Arc<AtomicUsize>,
    /// Processor time of the thread that collects.
    pub(super) collecting_ns: Arc<AtomicU64>,
}

impl Pacer {
    /// Goes on until all tasks have ended, or the run is over and those that are left had their grace.
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
            // A collector that is gone needs nothing.
            let _ = self.words.send(Word::Ended(lane.gauge.in_flight.load(Ordering::Relaxed)));
        }
    }

    /// Says what is due; when the next is.
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

    /// Hands out what was measured since the last second ended; the processor time until now.
    fn tell(&self, second: i64, before_ns: u64) -> u64 {
        let spent_ns = self.spent_ns();
        let share_ns = spent_ns.saturating_sub(before_ns) / self.lanes.len().max(1) as u64;
        for lane in &self.lanes {
            let mut piece = std::mem::take(&mut *lane.piece.lock());
            piece.cpu_ns = share_ns;
            let _ = self.words.send(Word::Piece(second, Box::new(piece)));
        }
        spent_ns
    }
}
