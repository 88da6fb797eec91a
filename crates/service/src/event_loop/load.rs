//! Measures the share of a processor that a loop takes. While one loop has room the others stay idle, since each active loop is
//! one more thread to wake.
//!
//! A loop on a processor that others use too never looks full, which is right: a second one would only take turns with it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

/// The time between two measurements.
const INTERVAL: Duration = Duration::from_millis(100);
/// An older measurement describes a time before the loop went to sleep.
const MAX_MEASUREMENT_AGE: Duration = Duration::from_secs(1);
/// The percentage of a processor up to which a loop takes more connections.
const MAX_ROOMY_PERCENT: u64 = 75;
/// The percentage above which a loop gives some up.
const MAX_LOOP_PERCENT: u64 = 90;
/// The percentage up to which the load of a loop and the one before it together is left to the latter.
const MAX_JOINED_PERCENT: u64 = 60;

/// A loop's last measurement, readable by all threads.
#[derive(Debug)]
pub struct LoopLoad {
    /// The time of the measurement, and the percentage of a processor.
    noted: Mutex<(Instant, u64)>,
}

impl LoopLoad {
    pub(super) fn new() -> LoopLoad {
        LoopLoad { noted: Mutex::new((Instant::now(), 0)) }
    }

    /// The percentage of a processor; 0 for a loop that sleeps.
    pub fn percent(&self) -> u64 {
        let (at, percent) = *self.noted.lock();
        if at.elapsed() <= MAX_MEASUREMENT_AGE { percent } else { 0 }
    }

    /// Whether the loop takes more connections.
    pub fn has_room(&self) -> bool {
        self.percent() < MAX_ROOMY_PERCENT
    }

    pub fn note(&self, percent: u64) {
        self.note_at(Instant::now(), percent);
    }

    pub(super) fn note_at(&self, at: Instant, percent: u64) {
        *self.noted.lock() = (at, percent);
    }
}

/// Measures the loop on whose thread it is.
#[derive(Debug)]
pub struct Meter {
    begun: Instant,
    /// The thread's processor time at that moment.
    spent: Duration,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter::new()
    }
}

impl Meter {
    /// Starts to measure the calling thread.
    pub fn new() -> Meter {
        Meter { begun: Instant::now(), spent: processor_time() }
    }

    /// Records the loop's load if that is due; then returns the percentage of a processor.
    pub fn measure(&mut self, load: &LoopLoad) -> Option<u64> {
        if self.begun.elapsed() < INTERVAL {
            return None;
        }
        Some(self.measure_at(Meter::new(), load))
    }

    /// Records the load up to another reading of both clocks, from which the next measurement begins.
    fn measure_at(&mut self, now: Meter, load: &LoopLoad) -> u64 {
        let wall = now.begun.saturating_duration_since(self.begun);
        let spent = now.spent.saturating_sub(self.spent);
        *self = now;
        let percent = u64::try_from(100 * spent.as_nanos() / wall.as_nanos().max(1)).unwrap_or(100);
        load.note(percent);
        percent
    }
}

/// Processor time of the calling thread.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// The number of connections that a loop gives up: a quarter when it is full, all when the loop before it has room for both.
pub fn excess(percent: u64, before: Option<u64>, connections: usize) -> usize {
    match before {
        _ if percent > MAX_LOOP_PERCENT => connections.div_ceil(4),
        Some(before) if before + percent < MAX_JOINED_PERCENT => connections,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_as_busy_as_its_thread() {
        let (load, begun) = (LoopLoad::new(), Instant::now());
        let at = |wall_ms, spent_ms| Meter {
            begun: begun + Duration::from_millis(wall_ms),
            spent: Duration::from_millis(spent_ms),
        };
        let mut meter = at(0, 500);
        assert_eq!(meter.measure_at(at(200, 520), &load), 10);
        assert!(load.has_room());
        // Each measurement begins where the last one ended.
        assert_eq!(meter.measure_at(at(300, 595), &load), 75);
        assert_eq!(load.noted.lock().1, 75);
        assert_eq!(meter.measure_at(at(400, 695), &load), 100);
        // A loop on a processor that others use too is not full.
        assert_eq!(meter.measure_at(at(800, 795), &load), 25);
    }

    #[test]
    fn a_load_is_measured_once_an_interval() {
        let (load, mut meter) = (LoopLoad::new(), Meter::new());
        meter.begun += Duration::from_secs(3600);
        assert_eq!(meter.measure(&load), None);
        std::thread::scope(|scope| {
            let slept = scope.spawn(|| {
                let mut meter = Meter::new();
                std::thread::sleep(INTERVAL);
                meter.measure(&LoopLoad::new())
            });
            assert!(slept.join().unwrap().is_some());
        });
    }

    #[test]
    fn what_was_measured_before_a_sleep_counts_no_more() {
        let load = LoopLoad::new();
        // A time to come never gets stale.
        load.note_at(Instant::now() + Duration::from_secs(3600), 95);
        assert!(load.percent() == 95 && !load.has_room());
        load.note_at(Instant::now().checked_sub(2 * MAX_MEASUREMENT_AGE).unwrap(), 95);
        assert!(load.percent() == 0 && load.has_room());
    }

    #[test]
    fn a_full_loop_gives_some_up_and_an_idle_one_all() {
        assert_eq!(excess(95, None, 16), 4);
        assert_eq!(excess(95, Some(10), 1), 1);
        assert_eq!(excess(80, Some(80), 16), 0);
        assert_eq!(excess(5, None, 16), 0);
        assert_eq!(excess(20, Some(30), 16), 16);
        assert_eq!(excess(20, Some(50), 16), 0);
    }
}
