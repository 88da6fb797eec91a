//! How much of a processor a loop takes: while one has room the others stay idle, since each that is awake is one more to wake.
//!
//! A loop on a processor that others use too never looks full, and rightly: a second one would only take turns with it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Between two measurements.
const INTERVAL: Duration = Duration::from_millis(100);
/// After that a measurement is of a time before the loop went to sleep.
const STALE_MS: u64 = 1000;
/// Percent of a processor up to which a loop takes more connections.
const ROOMY: u64 = 75;
/// Above this it gives some up.
const FULL: u64 = 90;
/// Up to which a loop and the one before it together are left to the latter.
const SPARE: u64 = 60;

/// What is noted of a loop that has ended: it has no room, and never again.
const ENDED: u64 = u64::MAX;

/// A loop's last measurement, for everybody.
#[derive(Debug)]
pub(super) struct Load {
    created: Instant,
    /// Milliseconds since then, and in the lowest eight bits percent of a processor.
    noted: AtomicU64,
}

impl Load {
    pub(super) fn new() -> Load {
        Load { created: Instant::now(), noted: AtomicU64::new(0) }
    }

    /// Percent of a processor; none for a loop that sleeps.
    pub(super) fn percent(&self) -> u64 {
        let noted = self.noted.load(Ordering::Relaxed);
        let fresh = self.now_ms().saturating_sub(noted >> 8) <= STALE_MS;
        if fresh { noted & 0xff } else { 0 }
    }

    /// Whether the loop takes more connections.
    pub(super) fn has_room(&self) -> bool {
        self.percent() < ROOMY
    }

    /// The loop has ended.
    pub(super) fn end(&self) {
        self.noted.store(ENDED, Ordering::Relaxed);
    }

    /// Notes a measurement.
    pub(super) fn note(&self, percent: u64) {
        self.noted.store(self.now_ms() << 8 | percent.min(100), Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Measures the loop whose thread has it.
#[derive(Debug)]
pub(super) struct Meter {
    begun: Instant,
    /// Processor time of the thread then.
    spent: Duration,
}

impl Meter {
    pub(super) fn new() -> Meter {
        Meter { begun: Instant::now(), spent: processor_time() }
    }

    /// Notes the loop's load if that is due; then percent of a processor.
    pub(super) fn measure(&mut self, load: &Load) -> Option<u64> {
        let wall = self.begun.elapsed();
        if wall < INTERVAL {
            return None;
        }
        let now = Meter::new();
        let spent = now.spent.saturating_sub(self.spent);
        *self = now;
        let percent = u64::try_from(100 * spent.as_nanos() / wall.as_nanos().max(1)).unwrap_or(100);
        load.note(percent);
        Some(percent)
    }
}

/// Of this thread.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// How many of its connections a loop gives up: a quarter when it is full, all when the loop before it has room for both.
pub(super) fn excess(percent: u64, before: Option<u64>, connections: usize) -> usize {
    match before {
        _ if percent > FULL => connections.div_ceil(4),
        Some(before) if before + percent < SPARE => connections,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_as_busy_as_its_thread() {
        let (load, mut meter) = (Load::new(), Meter::new());
        assert_eq!(meter.measure(&load), None);
        std::thread::sleep(2 * INTERVAL);
        assert!(meter.measure(&load).is_some_and(|percent| percent < 20) && load.has_room());
        // On a machine where it gets a processor at all.
        let begun = Instant::now();
        while processor_time().saturating_sub(meter.spent) < INTERVAL {
            std::hint::black_box(begun.elapsed());
        }
        let (wall, percent) = (meter.begun.elapsed(), meter.measure(&load).unwrap());
        let expected = u64::try_from(100 * INTERVAL.as_nanos() / wall.as_nanos()).unwrap();
        assert!(percent.abs_diff(expected) < 20, "{percent} beside {expected}");
        assert_eq!(load.percent(), percent);
    }

    #[test]
    fn what_was_measured_before_a_sleep_counts_no_more() {
        let load = Load { created: Instant::now() - Duration::from_secs(5), noted: AtomicU64::new(0) };
        load.note(95);
        assert!(!load.has_room());
        load.noted.store(3_500 << 8 | 95, Ordering::Relaxed);
        assert_eq!(load.percent(), 0);
        load.end();
        assert!(!load.has_room());
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
