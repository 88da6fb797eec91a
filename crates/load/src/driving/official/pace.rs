//! Operations that are due, and the tasks that wait for them.
//!
//! A runtime's timers go by the millisecond, which is too coarse for a schedule: a thread that has nothing else to do watches
//! the time, and tasks wait for its word.

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::super::arrivals::Schedule;

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
