//! Detects disturbed measurements: a virtual machine is paused, a host is overcommitted, or another program keeps the
//! processors busy.
//!
//! The decision rests on figures of the machine during the work: the time that the hypervisor stole, the time in which a
//! runnable task waited for a processor, and the time by which a sleeping thread overslept. The work measures none of these, so
//! a measurement cannot excuse itself.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::skip::{note_in, test_name};

const MAX_ATTEMPTS: usize = 2;
const SLEEP: Duration = Duration::from_millis(5);
/// A virtual machine on a host that is not overcommitted loses well below a hundredth.
const MAX_STEAL_SHARE: f64 = 0.05;

/// The measured disturbance of the machine during the work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disturbance {
    /// The longest time by which a sleeping thread overslept.
    pub standstill: Duration,
    /// The share of all processor time that the hypervisor stole.
    pub steal_share: f64,
    /// The share of the time in which at least one task waited for a processor (`/proc/pressure/cpu`); 0 if the kernel
    /// does not show it.
    pub wait_share: f64,
}

/// The limits within which a measurement counts.
#[derive(Clone, Copy, Debug)]
pub struct DisturbanceLimit {
    /// The limit of [`Disturbance::standstill`].
    pub standstill: Duration,
    /// The limit of [`Disturbance::wait_share`]; 1 for work that keeps all processors busy by itself.
    pub wait_share: f64,
}

impl Disturbance {
    /// The worse of each.
    #[must_use]
    pub fn max(self, other: Disturbance) -> Disturbance {
        Disturbance {
            standstill: self.standstill.max(other.standstill),
            steal_share: self.steal_share.max(other.steal_share),
            wait_share: self.wait_share.max(other.wait_share),
        }
    }

    /// Returns whether the measurement is invalid.
    pub fn exceeds(&self, limit: DisturbanceLimit) -> bool {
        self.standstill > limit.standstill
            || self.steal_share > MAX_STEAL_SHARE
            || self.wait_share > limit.wait_share
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Disturbance { standstill, steal_share, wait_share } = self;
        let [steal, wait] = [steal_share, wait_share].map(|share| share * 100.0);
        write!(
            f,
            "a sleeping thread overslept by {standstill:?}, {steal:.1} % of the processors was stolen, "
        )?;
        write!(f, "a task waited for a processor {wait:.0} % of the time")
    }
}

/// Runs `work`, and returns its result with the disturbance of the machine meanwhile.
pub fn with_disturbance<T>(work: impl FnOnce() -> T) -> (T, Disturbance) {
    let (begun, before, sleeper) = (Instant::now(), ProcessorTimes::now(), Sleeper::start());
    let done = work();
    let standstill = sleeper.wake();
    (done, ProcessorTimes::now().since(&before, begun.elapsed(), standstill))
}

/// Returns the result of `work`, which reports the disturbance meanwhile; beyond `limit` it runs once more.
///
/// # Panics With a message that begins with "disturbed", if the machine was disturbed each time, regardless of the results. The
/// test is then noted in the file that `FATHOM_DISTURBED` names.
#[track_caller]
pub fn undisturbed<T>(limit: DisturbanceLimit, mut work: impl FnMut() -> (T, Disturbance)) -> T {
    for attempt in 1..=MAX_ATTEMPTS {
        let (done, disturbance) = work();
        if !disturbance.exceeds(limit) {
            note(&format!("attempt {attempt} of {MAX_ATTEMPTS} counts: {disturbance}"));
            return done;
        }
        note(&format!("disturbed, attempt {attempt} of {MAX_ATTEMPTS}: {disturbance}"));
    }
    note_in("FATHOM_DISTURBED", &format!("{}\n", test_name()));
    panic!("disturbed: this machine was not at rest in any attempt");
}

#[expect(clippy::print_stderr, reason = "a test tells its reader what it repeated")]
fn note(text: &str) {
    eprintln!("{text}");
}

/// Counters of the kernel since the boot.
#[derive(Debug, Default)]
struct ProcessorTimes {
    all_ticks: f64,
    stolen_ticks: f64,
    waited_us: f64,
}

impl ProcessorTimes {
    fn now() -> ProcessorTimes {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        ProcessorTimes::parse(&read("/proc/stat"), &read("/proc/pressure/cpu"))
    }

    /// Of `/proc/stat` the first line, whose eighth number is steal (proc_stat(5)); of `/proc/pressure/cpu` the `total=` of the
    /// line `some`.
    fn parse(stat: &str, pressure: &str) -> ProcessorTimes {
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        let some = pressure.lines().find(|line| line.starts_with("some ")).unwrap_or_default();
        let total = some.split_whitespace().find_map(|word| word.strip_prefix("total="));
        ProcessorTimes {
            // The ninth and tenth are part of the first two.
            all_ticks: ticks.iter().take(8).sum(),
            stolen_ticks: ticks.get(7).copied().unwrap_or_default(),
            waited_us: total.and_then(|total| total.parse().ok()).unwrap_or_default(),
        }
    }

    fn since(&self, before: &ProcessorTimes, elapsed: Duration, standstill: Duration) -> Disturbance {
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        Disturbance {
            standstill,
            steal_share: share(self.stolen_ticks - before.stolen_ticks, self.all_ticks - before.all_ticks),
            wait_share: share(self.waited_us - before.waited_us, elapsed.as_secs_f64() * 1e6),
        }
    }
}

/// A thread that sleeps repeatedly, and records the longest time by which it overslept.
struct Sleeper {
    woken: Arc<AtomicBool>,
    thread: Option<JoinHandle<Duration>>,
}

impl Sleeper {
    fn start() -> Sleeper {
        let woken = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&woken);
        let thread = thread::spawn(move || {
            let mut worst = Duration::ZERO;
            while !seen.load(Ordering::Relaxed) {
                worst = worst.max(oversleep(Instant::now, thread::sleep));
            }
            worst
        });
        Sleeper { woken, thread: Some(thread) }
    }

    fn wake(mut self) -> Duration {
        self.woken.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

/// Sleeps for a nap, and returns by how much `clock` passed its end.
fn oversleep(clock: impl Fn() -> Instant, sleep: impl Fn(Duration)) -> Duration {
    let begun = clock();
    sleep(SLEEP);
    clock().saturating_duration_since(begun).saturating_sub(SLEEP)
}

/// Ends the thread, also if the work panics.
impl Drop for Sleeper {
    fn drop(&mut self) {
        self.woken.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const LIMIT: DisturbanceLimit =
        DisturbanceLimit { standstill: Duration::from_millis(200), wait_share: 0.6 };

    #[test]
    fn steal_and_waiting_are_shares_of_the_time_between_two_readings() {
        let pressure = |us: u64| format!("some avg10=1.00 avg60=1.00 avg300=1.00 total={us}\nfull total=9\n");
        let before = ProcessorTimes::parse("cpu  100 0 50 800 0 0 0 50 7 0\ncpu0 1\n", &pressure(1_000_000));
        let after = ProcessorTimes::parse("cpu  150 0 60 880 0 0 0 110 9 0\n", &pressure(1_500_000));
        let seen = after.since(&before, Duration::from_secs(2), Duration::ZERO);
        assert_eq!((seen.steal_share, seen.wait_share), (0.3, 0.25));
        let limit = |wait_share| DisturbanceLimit { standstill: Duration::ZERO, wait_share };
        assert!(seen.exceeds(limit(1.0)), "stolen");
        let waited = Disturbance { steal_share: 0.0, ..seen };
        assert!(waited.exceeds(limit(0.2)) && !waited.exceeds(limit(0.3)));
    }

    #[test]
    fn what_the_kernel_does_not_say_disturbs_nothing() {
        let none = ProcessorTimes::parse("", "");
        let seen = none.since(&ProcessorTimes::default(), Duration::from_secs(1), Duration::ZERO);
        assert_eq!(seen, Disturbance::default());
    }

    #[test]
    fn a_nap_that_ends_late_is_a_standstill() {
        let now = Cell::new(Instant::now());
        for by in [Duration::ZERO, Duration::from_millis(400)] {
            let sleep = |nap: Duration| now.set(now.get() + nap + by);
            assert_eq!(oversleep(|| now.get(), sleep), by);
        }
    }

    /// The results of attempts with these disturbances, and the number of attempts; `None` if no attempt counted.
    fn attempts(disturbances: &[Disturbance]) -> (Option<usize>, usize) {
        let made = Cell::new(0);
        let work = || {
            let attempt = made.get();
            made.set(attempt + 1);
            (attempt, disturbances[attempt])
        };
        let done = catch_unwind(AssertUnwindSafe(|| undisturbed(LIMIT, work)));
        if let Err(panic) = &done {
            let said = panic.downcast_ref::<&str>().copied().unwrap_or_default();
            assert!(said.starts_with("disturbed"), "{said}");
        }
        (done.ok(), made.get())
    }

    #[test]
    fn work_on_a_disturbed_machine_is_done_once_more() {
        let rest = Disturbance::default();
        let stood_still = Disturbance { standstill: Duration::from_millis(201), ..rest };
        let stolen = Disturbance { steal_share: 0.06, ..rest };
        let waited = Disturbance { wait_share: 0.61, ..rest };
        assert_eq!(attempts(&[rest]), (Some(0), 1));
        for disturbed in [stood_still, stolen, waited] {
            assert_eq!(attempts(&[disturbed, rest]), (Some(1), 2), "{disturbed}");
            assert_eq!(attempts(&[disturbed, disturbed]), (None, 2), "{disturbed}");
        }
    }
}
