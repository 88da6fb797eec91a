//! One thread of samplers: deadlines that do not drift, and the price of each sample.
//!
//! Deadlines are multiples of the period on the run's clock, so that windows of different samplers end together. A tick that
//! was missed is skipped and counted, never made up for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::cost::SamplerCost;
use crate::runner::{LaneEnd, Shared};
use crate::{Batch, Clock, Sampler, Scheduled};

/// How often readings are handed over and the cost is counted.
const SECOND_NS: u64 = 1_000_000_000;

/// A sampler, when it is due, and what it cost.
struct Slot {
    sampler: Box<dyn Sampler>,
    name: String,
    without: String,
    period_ns: u64,
    due_ns: u64,
    /// Whether its failing has been noted.
    said: bool,
    total: SamplerCost,
    /// What the total was when the cost was last written down.
    written: SamplerCost,
    last_acquisition_ns: u64,
}

/// A thread's samplers, before and while it runs.
pub(crate) struct LaneRun {
    index: usize,
    slots: Vec<Slot>,
    /// Cost of samplers that were given up.
    ended: Vec<SamplerCost>,
    clock: Clock,
    shared: Arc<Shared>,
    cpu_ns: Arc<AtomicU64>,
}

impl LaneRun {
    pub(crate) fn new(
        index: usize,
        samplers: Vec<Scheduled>,
        clock: Clock,
        shared: &Arc<Shared>,
        cpu_ns: &Arc<AtomicU64>,
    ) -> LaneRun {
        let slot = |one: Scheduled| {
            let name = one.sampler.name();
            let period_ns = u64::try_from(one.period.as_nanos()).unwrap_or(u64::MAX).max(1_000_000);
            let total = SamplerCost { name: name.clone(), ..SamplerCost::default() };
            Slot {
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

    /// Samples until it is time to stop, or nobody listens, or no sampler is left; then tells the cost.
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
        // Told before the samplers go: closing tracepoints takes the kernel a tenth of a second.
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
        self.cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
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

impl Slot {
    /// Takes one sample; `false` when the sampler is broken and must not be asked again.
    fn take(&mut self, batch: &mut Batch, now_ns: u64) -> bool {
        self.plan_next(now_ns);
        let cpu_before = thread_cpu_ns();
        let result = catch_unwind(AssertUnwindSafe(|| self.sampler.sample(batch)));
        let cpu_ns = thread_cpu_ns().saturating_sub(cpu_before);
        self.last_acquisition_ns = batch.clock.now_ns().saturating_sub(now_ns);
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

    /// The next multiple of the period; after the first sample not one so near that its window would say nothing.
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

/// Processor time of the calling thread.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(SECOND_NS)
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}
