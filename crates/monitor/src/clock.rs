//! The clock of a run, by which its samplers wait, and simulated time for tests.

use std::sync::mpsc::Receiver;
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the run's start, monotonic. All samplers of a run share it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: Instant,
    #[cfg(test)]
    simulation: Option<&'static simulation::SimulatedTime>,
}

impl Clock {
    /// The clock of the run that started at `zero` (`RunWriter::started`).
    pub fn since(zero: Instant) -> Clock {
        Clock {
            zero,
            #[cfg(test)]
            simulation: None,
        }
    }

    /// Nanoseconds since the run's start.
    pub fn now_ns(&self) -> u64 {
        #[cfg(test)]
        if let Some(time) = self.simulation {
            return time.now_ns();
        }
        u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Processor time of the calling thread.
    pub(crate) fn thread_cpu_ns(self) -> u64 {
        #[cfg(test)]
        if let Some(time) = self.simulation {
            return time.cpu_ns();
        }
        let time = clock_gettime(ClockId::ThreadCPUTime);
        u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000)
            + u64::try_from(time.tv_nsec).unwrap_or(0)
    }

    /// Waits for a notification for `left_ns` at most.
    pub(crate) fn wait<'g, T>(
        self,
        wake: &Condvar,
        guard: MutexGuard<'g, T>,
        left_ns: u64,
    ) -> MutexGuard<'g, T> {
        #[cfg(test)]
        if let Some(time) = self.simulation {
            time.wait(left_ns);
            return guard;
        }
        let waited = wake.wait_timeout(guard, Duration::from_nanos(left_ns));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits for a message for `left_ns` at most.
    pub(crate) fn receive<T>(self, messages: &Receiver<T>, left_ns: u64) -> Option<T> {
        #[cfg(test)]
        if let Some(time) = self.simulation {
            let message = messages.try_recv().ok();
            if message.is_none() {
                time.wait(left_ns);
            }
            return message;
        }
        messages.recv_timeout(Duration::from_nanos(left_ns)).ok()
    }
}

#[cfg(test)]
mod simulation {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use super::Clock;

    /// Time that passes in waits, each of which ends as late as its turn of `late_ns` says, and where a test lets it pass.
    #[derive(Debug, Default)]
    pub(super) struct SimulatedTime {
        now_ns: AtomicU64,
        cpu_ns: AtomicU64,
        waits: AtomicUsize,
        late_ns: Vec<u64>,
    }

    impl SimulatedTime {
        pub(super) fn now_ns(&self) -> u64 {
            self.now_ns.load(Ordering::Relaxed)
        }

        pub(super) fn cpu_ns(&self) -> u64 {
            self.cpu_ns.load(Ordering::Relaxed)
        }

        pub(super) fn wait(&self, left_ns: u64) {
            let turn = self.waits.fetch_add(1, Ordering::Relaxed) % self.late_ns.len().max(1);
            let late_ns = self.late_ns.get(turn).copied().unwrap_or(0);
            self.now_ns.fetch_add(left_ns + late_ns, Ordering::Relaxed);
        }
    }

    impl Clock {
        /// A clock of simulated time at zero, whose waits end these nanoseconds late, in turn. It is kept until the process ends.
        pub(crate) fn simulated(late_ns: &[u64]) -> Clock {
            let time = SimulatedTime { late_ns: late_ns.to_vec(), ..SimulatedTime::default() };
            Clock { zero: Instant::now(), simulation: Some(Box::leak(Box::new(time))) }
        }

        fn time(self) -> &'static SimulatedTime {
            self.simulation.unwrap()
        }

        /// Moves the simulated time on.
        pub(crate) fn pass(self, time: Duration) {
            let ns = u64::try_from(time.as_nanos()).unwrap();
            self.time().now_ns.fetch_add(ns, Ordering::Relaxed);
        }

        /// Lets time pass on the processor.
        pub(crate) fn work(self, time: Duration) {
            self.pass(time);
            let ns = u64::try_from(time.as_nanos()).unwrap();
            self.time().cpu_ns.fetch_add(ns, Ordering::Relaxed);
        }

        /// The number of waits so far.
        pub(crate) fn waits(self) -> usize {
            self.time().waits.load(Ordering::Relaxed)
        }
    }
}
