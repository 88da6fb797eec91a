//! One thread of samplers, the state that it shares with the others, deadlines that do not drift, and the cost of each sample.
//!
//! Deadlines are multiples of the period on the run's clock, so that windows of different samplers end together. A missed
//! tick is skipped and counted, never made up for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Batch, Clock, Sampler, SamplerPlan};

/// The period at which readings are handed over and the cost is counted.
const SECOND_NS: u64 = 1_000_000_000;

/// The data that the threads share: the stop flag, the channel of batches, and the list of threads.
pub(crate) struct LaneState {
    stopped: Mutex<bool>,
    wake: Condvar,
    /// Removed at the end, so that a thread left behind does not keep the receiver waiting.
    sink: Mutex<Option<Sender<Batch>>>,
    /// Kernel ids of the samplers' threads.
    threads: Mutex<Vec<i32>>,
}

/// Locks a mutex, also one whose holder panicked: it guards plain values that are complete at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LaneState {
    /// Makes a state that is not stopped and sends batches to `sink`.
    pub(crate) fn new(sink: Sender<Batch>) -> LaneState {
        LaneState {
            stopped: Mutex::new(false),
            wake: Condvar::new(),
            sink: Mutex::new(Some(sink)),
            threads: Mutex::default(),
        }
    }

    /// Waits until `deadline_ns` on the clock; returns `false` when it is time to stop.
    pub(crate) fn wait_until(&self, clock: Clock, deadline_ns: u64) -> bool {
        let mut stopped = lock(&self.stopped);
        loop {
            let left_ns = deadline_ns.saturating_sub(clock.now_ns());
            if *stopped || left_ns == 0 {
                return !*stopped;
            }
            stopped = clock.wait(&self.wake, stopped, left_ns);
        }
    }

    /// Hands a batch over; returns `false` when the receiver has ended.
    pub(crate) fn send(&self, batch: Batch) -> bool {
        lock(&self.sink).as_ref().is_some_and(|sink| sink.send(batch).is_ok())
    }

    /// The kernel ids of the samplers' threads.
    pub(crate) fn threads(&self) -> Vec<i32> {
        lock(&self.threads).clone()
    }

    /// Adds the calling thread to the list of threads.
    pub(crate) fn register_thread(&self) {
        lock(&self.threads).push(rustix::thread::gettid().as_raw_nonzero().get());
    }

    /// Hands over a note of one sentence.
    pub(crate) fn note(&self, clock: Clock, what: String) {
        let mut batch = Batch::new(clock);
        batch.notes.push(what);
        self.send(batch);
    }

    /// Asks all threads to stop.
    pub(crate) fn stop(&self) {
        *lock(&self.stopped) = true;
        self.wake.notify_all();
    }

    /// Drops the sender, so that the receiver of batches ends.
    pub(crate) fn close(&self) {
        drop(lock(&self.sink).take());
    }
}

/// The report of a thread at its end.
pub(crate) struct LaneEnd {
    pub(crate) lane: usize,
    pub(crate) samplers: Vec<SamplerCost>,
}

/// A sampler with its due time and its cost.
struct SamplerSlot {
    sampler: Box<dyn Sampler>,
    name: String,
    without: String,
    period_ns: u64,
    due_ns: u64,
    /// True if its failing has been noted.
    said: bool,
    total: SamplerCost,
    /// The total at the last time that the cost was recorded.
    written: SamplerCost,
    last_acquisition_ns: u64,
}

/// A thread's samplers, before and while it runs.
pub(crate) struct LaneRun {
    index: usize,
    slots: Vec<SamplerSlot>,
    /// Cost of samplers that were given up.
    ended: Vec<SamplerCost>,
    clock: Clock,
    shared: Arc<LaneState>,
    cpu_ns: Arc<AtomicU64>,
}

impl LaneRun {
    pub(crate) fn new(
        index: usize,
        samplers: Vec<SamplerPlan>,
        clock: Clock,
        shared: &Arc<LaneState>,
        cpu_ns: &Arc<AtomicU64>,
    ) -> LaneRun {
        let slot = |one: SamplerPlan| {
            let name = one.sampler.name();
            let period_ns = u64::try_from(one.period.as_nanos()).unwrap_or(u64::MAX).max(1_000_000);
            let total = SamplerCost { name: name.clone(), ..SamplerCost::default() };
            SamplerSlot {
                sampler: one.sampler,
                without: one.without,
                period_ns,
                due_ns: 0,
                said: false,
                written: total.clone(),
                total,
                last_acquisition_ns: 0,
                name,
            }
        };
        let slots = samplers.into_iter().map(slot).collect();
        let (shared, cpu_ns) = (Arc::clone(shared), Arc::clone(cpu_ns));
        LaneRun { index, slots, ended: Vec::new(), clock, shared, cpu_ns }
    }

    /// Samples until the stop flag is set, the receiver has ended, or no sampler is left; then reports the cost.
    pub(crate) fn run(mut self, end: &Sender<LaneEnd>) {
        self.shared.register_thread();
        let mut batch = Batch::new(self.clock);
        let mut written_ns = self.clock.now_ns();
        let mut write_ns = next_tick(written_ns, SECOND_NS);
        while let Some(due_ns) = self.slots.iter().map(|slot| slot.due_ns).min() {
            if !self.shared.wait_until(self.clock, due_ns.min(write_ns)) {
                break;
            }
            self.sample_what_is_due(&mut batch);
            let now_ns = self.clock.now_ns();
            if now_ns >= write_ns {
                self.write_cost(&mut batch, (written_ns, now_ns));
                (written_ns, write_ns) = (now_ns, next_tick(now_ns, SECOND_NS));
                let full = std::mem::replace(&mut batch, Batch::new(self.clock));
                if !self.shared.send(full) {
                    break;
                }
            }
        }
        self.write_cost(&mut batch, (written_ns, self.clock.now_ns()));
        if !batch.is_empty() {
            self.shared.send(batch);
        }
        let samplers = self.slots.iter().map(|slot| slot.total.clone()).chain(self.ended).collect();
        // Sent before the samplers are dropped: closing tracepoints takes the kernel a tenth of a second.
        let _ = end.send(LaneEnd { lane: self.index, samplers });
    }

    fn sample_what_is_due(&mut self, batch: &mut Batch) {
        let mut at = 0;
        while let Some(slot) = self.slots.get_mut(at) {
            let now_ns = self.clock.now_ns();
            if slot.due_ns > now_ns || slot.take(batch, now_ns) {
                at += 1;
            } else {
                let gone = self.slots.remove(at);
                self.ended.push(gone.total);
            }
        }
    }

    fn write_cost(&mut self, batch: &mut Batch, window_ns: (u64, u64)) {
        self.cpu_ns.store(self.clock.thread_cpu_ns(), Ordering::Relaxed);
        if window_ns.1 <= window_ns.0 {
            return;
        }
        for slot in &mut self.slots {
            let (total, before) = (&slot.total, &slot.written);
            let mut put = |what: &str, unit: &str, value: f64| {
                batch.put(format!("monitor.{}.{what}", slot.name), unit, window_ns, value);
            };
            put("cpu_us", "us", total.cpu.saturating_sub(before.cpu).as_nanos() as f64 / 1e3);
            put("samples", "1", (total.samples - before.samples) as f64);
            put("missed", "1", (total.missed - before.missed) as f64);
            put("acquisition_us", "us", slot.last_acquisition_ns as f64 / 1e3);
            slot.written = slot.total.clone();
        }
    }
}

impl SamplerSlot {
    /// Takes one sample; returns `false` when the sampler is broken and must not be called again.
    fn take(&mut self, batch: &mut Batch, now_ns: u64) -> bool {
        self.plan_next(now_ns);
        let clock = batch.clock;
        let cpu_before_ns = clock.thread_cpu_ns();
        let result = catch_unwind(AssertUnwindSafe(|| self.sampler.sample(batch)));
        let cpu_ns = clock.thread_cpu_ns().saturating_sub(cpu_before_ns);
        self.last_acquisition_ns = clock.now_ns().saturating_sub(now_ns);
        self.total.cpu += Duration::from_nanos(cpu_ns);
        self.total.samples += 1;
        self.total.slowest = self.total.slowest.max(Duration::from_nanos(self.last_acquisition_ns));
        match result {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                if !self.said {
                    self.said = true;
                    batch.notes.push(format!(
                        "{} could not be read: {error}; without it there is {}.",
                        self.name, self.without
                    ));
                }
                true
            }
            Err(_) => {
                batch.notes.push(format!(
                    "{} is no longer read, because of a fault in the program; without it there is {}.",
                    self.name, self.without
                ));
                false
            }
        }
    }

    /// Sets the next deadline to a multiple of the period; after the first sample, not to one so near that its window is too short.
    fn plan_next(&mut self, now_ns: u64) {
        let next_ns = next_tick(now_ns, self.period_ns);
        if self.total.samples == 0 {
            let near = next_ns - now_ns < self.period_ns / 2;
            self.due_ns = if near { next_ns.saturating_add(self.period_ns) } else { next_ns };
        } else {
            let skipped_ns = next_ns.saturating_sub(self.due_ns.saturating_add(self.period_ns));
            self.total.missed += skipped_ns / self.period_ns;
            self.due_ns = next_ns;
        }
    }
}

/// The first multiple of `period_ns` after `now_ns`.
fn next_tick(now_ns: u64, period_ns: u64) -> u64 {
    (now_ns / period_ns).saturating_add(1).saturating_mul(period_ns)
}

/// The cost of one sampler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplerCost {
    pub name: String,
    /// Processor time inside its samples.
    pub cpu: Duration,
    pub samples: u64,
    /// Samples it skipped because it was late.
    pub missed: u64,
    /// The longest sample, by the wall clock.
    pub slowest: Duration,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplingCost {
    /// The time that was watched.
    pub elapsed: Duration,
    /// Processor time of all samplers' threads, including waking and handing over.
    pub cpu: Duration,
    /// The cost of each sampler, without those left behind.
    pub samplers: Vec<SamplerCost>,
    /// Samplers that still waited for their source at the end; their threads end when it answers.
    pub left_behind: Vec<String>,
}

impl SamplingCost {
    /// Processor time as a share of one processor (0.003 = 0.3 %).
    pub fn cpu_share(&self) -> f64 {
        let elapsed = self.elapsed.as_secs_f64();
        if elapsed > 0.0 { self.cpu.as_secs_f64() / elapsed } else { 0.0 }
    }

    /// Returns the cost as a sentence.
    pub fn sentence(&self) -> String {
        let missed: u64 = self.samplers.iter().map(|one| one.missed).sum();
        let late = if missed > 0 {
            format!(" {missed} samples were skipped, because they were late.")
        } else {
            String::new()
        };
        format!("Watching took {} % of one processor.{late}", percent(100.0 * self.cpu_share()))
    }
}

/// Formats a percentage: two decimals below 0.1, one decimal from there on.
fn percent(value: f64) -> String {
    if value < 0.1 { format!("{value:.2}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// A sampler whose only purpose is its ticks.
    struct Ticks;

    impl Sampler for Ticks {
        fn name(&self) -> String {
            "ticks".to_owned()
        }

        fn sample(&mut self, _: &mut Batch) -> fathom_errors::Result<()> {
            Ok(())
        }
    }

    const MS: u64 = 1_000_000;

    /// The due times after samples at these times, in milliseconds, and the ticks that were missed.
    fn due_ms(period_ms: u64, samples_ms: &[u64]) -> (Vec<u64>, u64) {
        let clock = Clock::simulated(&[]);
        let shared = Arc::new(LaneState::new(channel().0));
        let plan = SamplerPlan {
            sampler: Box::new(Ticks),
            period: Duration::from_millis(period_ms),
            lane: crate::table::Lane::Fast,
            without: String::new(),
        };
        let mut lane = LaneRun::new(0, vec![plan], clock, &shared, &Arc::default());
        let slot = lane.slots.first_mut().unwrap();
        let mut batch = Batch::new(clock);
        let due = |at_ms: &u64| {
            slot.take(&mut batch, at_ms * MS);
            slot.due_ns / MS
        };
        let due: Vec<u64> = samples_ms.iter().map(due).collect();
        (due, slot.total.missed)
    }

    #[test]
    fn deadlines_are_multiples_of_the_period_and_do_not_drift() {
        // Each sample is 3 to 24 ms late.
        let late: Vec<u64> = (1..=100).map(|tick| tick * 50 + 3 + tick * 7 % 22).collect();
        let (due, missed) = due_ms(50, &[&[4], late.as_slice()].concat());
        assert_eq!((due, missed), ((1..=101).map(|tick| tick * 50).collect(), 0));
        assert_eq!(due_ms(50, &[26]).0, [100], "the first window would be too short");
    }

    #[test]
    fn missed_ticks_are_counted_and_not_made_up_for() {
        let (due, missed) = due_ms(10, &[0, 10, 66, 122, 130]);
        assert_eq!(due, [10, 20, 70, 130, 140]);
        // Those of 20 to 60 but one, and of 70 to 120 but one.
        assert_eq!(missed, 4 + 5);
    }

    #[test]
    fn the_sentence_says_share_and_gaps() {
        let mut cost = SamplingCost {
            elapsed: Duration::from_secs(10),
            cpu: Duration::from_millis(31),
            ..SamplingCost::default()
        };
        assert_eq!(cost.sentence(), "Watching took 0.3 % of one processor.");
        cost.cpu = Duration::from_millis(4);
        cost.samplers.push(SamplerCost { missed: 2, ..SamplerCost::default() });
        assert_eq!(
            cost.sentence(),
            "Watching took 0.04 % of one processor. 2 samples were skipped, because they were late."
        );
        assert_eq!(SamplingCost::default().cpu_share(), 0.0);
    }
}
