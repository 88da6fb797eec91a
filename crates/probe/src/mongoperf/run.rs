//! Runs one test: lays the file out, increases the number of threads step by step, and reports each second.
//!
//! Threads are only ever added; those of earlier steps continue, so there is no gap between steps. Ticks are counted from the start
//! of the run, so that they do not drift, and each second is divided by its measured length.

use std::sync::atomic::Ordering;
use std::thread::{Builder, Scope};

use fathom_errors::{Error, Kind, Result};
use fathom_host::sched;
use fathom_process::Signals;
use fathom_record::disk::Layout;
use fathom_stats::SeededRandom;
use fathom_units::Bytes;

use super::config::MongoperfPlan;
use super::lines::{MongoperfEvent, MongoperfStep, Second, Sync, figures, seconds};
use super::worker::{self, RecordAccess, WorkerState};
use crate::clock::MonotonicClock;
use crate::engine::mapping::Mapping;
use crate::layout::{self, LayoutPlan};
use crate::stamp::Stamper;
use crate::target::{FileAccess, ProbeTarget};
use crate::tracks::{Tracks, lock};

/// A thread needs only a small stack: its buffer is mapped separately.
const STACK_BYTES: usize = 128 << 10;

/// The result of a run.
#[derive(Debug, Default)]
pub struct MongoperfRun {
    /// The layout pass; absent if a kept file was used.
    pub layout: Option<Layout>,
    /// Each number of threads.
    pub steps: Vec<MongoperfStep>,
    /// Whether a signal ended it.
    pub interrupted: bool,
    /// The first operation that failed; the run ended there.
    pub error: Option<Error>,
}

/// Runs `plan` on `target` and passes each event to `tell`; an error from it ends the run.
///
/// # Errors
/// When the run could not begin or continue. A failed operation is in [`MongoperfRun::error`].
pub fn run(
    target: &mut ProbeTarget,
    plan: &MongoperfPlan,
    signals: &Signals,
    tell: &mut dyn FnMut(&MongoperfEvent<'_>) -> Result<()>,
) -> Result<MongoperfRun> {
    let stamper = Stamper::new(plan.seed, false);
    let mut run = MongoperfRun::default();
    if !target.is_reused() {
        let plan = LayoutPlan { budget_ns: None, second_pass: Bytes(0) };
        run.layout = Some(layout::lay_out(target, &stamper, None, &plan, |done_bytes, total_bytes| {
            tell(&MongoperfEvent::Layout { done_bytes, total_bytes })?;
            Ok(!signals.stopped())
        })?);
    }
    run.interrupted = signals.stopped();
    if run.interrupted {
        return Ok(run);
    }
    tell(&MongoperfEvent::Testing)?;
    let options = &plan.options;
    let direct = target.is_direct() && !options.mapped;
    let file = target.reopen(FileAccess { direct, dsync: false, read_only: false })?;
    let size = options.file_bytes.get();
    let mapping = options.mapped.then(|| Mapping::new(&file, size, options.writes)).transpose()?;
    let medium = mapping.as_ref().map_or(RecordAccess::Direct(&file), RecordAccess::Mapped);
    let shared =
        WorkerState::new(&MonotonicClock, options, medium, target.path(), &stamper, target.alignment());
    let mut ramp = Ramp::new(&shared, plan, signals, tell);
    let seed = SeededRandom::from_seed(plan.seed);
    let climbed = std::thread::scope(|scope| {
        let syncs = options.mapped && options.sync_delay_s > 0;
        let syncer = if syncs { spawn(scope, &shared, || worker::sync(&shared, &file)) } else { Ok(()) };
        let shared = &shared;
        let start = |index| {
            let random = seed.split(u64::from(index));
            spawn(scope, shared, move || worker::work(shared, index, random))
        };
        let climbed = syncer.and_then(|()| ramp.climb(start));
        shared.stop();
        climbed
    });
    climbed?;
    ramp.tell_syncs()?;
    run.steps = ramp.steps;
    run.interrupted = signals.stopped();
    run.error = shared.take_error();
    Ok(run)
}

fn spawn<'s>(
    scope: &'s Scope<'s, '_>,
    shared: &'s WorkerState<'s>,
    work: impl FnOnce() -> Result<()> + Send + 's,
) -> Result<()> {
    let work = move || work().unwrap_or_else(|error| shared.fail(error));
    let spawned = Builder::new().name("mongoperf".into()).stack_size(STACK_BYTES).spawn_scoped(scope, work);
    spawned.map(drop).map_err(|e| {
        Error::new(Kind::Unsupported, "cannot start another thread")
            .because(e)
            .advise("raise 'ulimit -u' and the cgroup's pids.max, or set a smaller nThreads")
    })
}

const SECOND_NS: u64 = 1_000_000_000;
/// The interval at which the watching thread checks for signals, errors and syncs.
const CHECK_INTERVAL_NS: u64 = 20_000_000;

/// The state of the thread that starts the others, step by step, and reports each second.
pub(super) struct Ramp<'a> {
    pub(super) shared: &'a WorkerState<'a>,
    pub(super) plan: &'a MongoperfPlan,
    pub(super) signals: &'a Signals,
    pub(super) tell: &'a mut dyn FnMut(&MongoperfEvent<'_>) -> Result<()>,
    pub(super) steps: Vec<MongoperfStep>,
    began_ns: u64,
    last_ns: u64,
    step_began_ns: u64,
    step_waited_ns: Option<u64>,
    step: Tracks,
    spare: Tracks,
}

impl<'a> Ramp<'a> {
    pub(super) fn new(
        shared: &'a WorkerState<'a>,
        plan: &'a MongoperfPlan,
        signals: &'a Signals,
        tell: &'a mut dyn FnMut(&MongoperfEvent<'_>) -> Result<()>,
    ) -> Self {
        let now = shared.clock.now_ns();
        Ramp {
            shared,
            plan,
            signals,
            tell,
            steps: Vec::new(),
            began_ns: now,
            last_ns: now,
            step_began_ns: now,
            step_waited_ns: None,
            step: Tracks::default(),
            spare: Tracks::default(),
        }
    }

    /// Adds threads step by step until the time is over, a signal arrives or an operation fails. `start` starts thread number N.
    pub(super) fn climb(&mut self, mut start: impl FnMut(u32) -> Result<()>) -> Result<()> {
        self.began_ns = self.now_ns();
        (self.last_ns, self.step_began_ns) = (self.began_ns, self.began_ns);
        self.grow(1, &mut start)?;
        let mut ticks: u32 = 0;
        while self.pass_second()? {
            self.tick()?;
            ticks = ticks.saturating_add(1);
            if self.plan.seconds.is_some_and(|length| self.now_ns() - self.began_ns >= length.get()) {
                break;
            }
            let (running, most) = (self.running(), self.plan.options.threads);
            if ticks.is_multiple_of(self.plan.step_ticks.max(1)) && running < most {
                self.end_step();
                self.grow(running.saturating_mul(2).min(most), &mut start)?;
            }
        }
        self.drain();
        self.end_step();
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.shared.clock.now_ns()
    }

    fn running(&self) -> u32 {
        self.shared.running.load(Ordering::Relaxed)
    }

    /// Starts threads until `wanted` are running.
    fn grow(&mut self, wanted: u32, start: &mut impl FnMut(u32) -> Result<()>) -> Result<()> {
        for index in self.running()..wanted {
            start(index)?;
            self.shared.running.store(index + 1, Ordering::Relaxed);
        }
        self.step_waited_ns = waited_ns();
        (self.tell)(&MongoperfEvent::Threads(wanted))
    }

    /// Waits for the next tick; returns false if the run is over before it.
    fn pass_second(&mut self) -> Result<bool> {
        let passed = (self.now_ns() - self.began_ns) / SECOND_NS;
        let tick_ns = self.began_ns + (passed + 1) * SECOND_NS;
        loop {
            self.tell_syncs()?;
            let now = self.now_ns();
            if self.signals.stopped() || self.shared.stopping() {
                return Ok(false);
            }
            if now >= tick_ns {
                return Ok(true);
            }
            self.shared.clock.sleep_until(tick_ns.min(now + CHECK_INTERVAL_NS));
        }
    }

    fn tick(&mut self) -> Result<()> {
        let (tracks, length_ns) = self.drain();
        let record = self.plan.options.record_bytes;
        let (ops_per_s, mib_per_s, operations) = figures(&tracks, record, length_ns);
        let second = Second {
            end_s: seconds(self.last_ns - self.began_ns),
            length_s: seconds(length_ns),
            threads: self.running(),
            ops_per_s,
            mib_per_s,
            operations,
        };
        (self.tell)(&MongoperfEvent::Second(&second))
    }

    /// Takes the operations that ended since the last call, and the elapsed time.
    fn drain(&mut self) -> (Tracks, u64) {
        let mut tracks = Tracks::default();
        self.shared.shards.drain(&mut tracks, &mut self.spare);
        self.step.merge(&tracks);
        let now = self.now_ns();
        let length_ns = now - self.last_ns;
        self.last_ns = now;
        (tracks, length_ns)
    }

    fn end_step(&mut self) {
        let length_ns = self.last_ns - self.step_began_ns;
        let record = self.plan.options.record_bytes;
        let (ops_per_s, mib_per_s, operations) = figures(&self.step, record, length_ns);
        let threads = self.running();
        let waited = waited_ns().zip(self.step_waited_ns).map(|(end, begin)| end.saturating_sub(begin));
        let all_ns = length_ns as f64 * f64::from(threads);
        self.steps.push(MongoperfStep {
            threads,
            begin_s: seconds(self.step_began_ns - self.began_ns),
            length_s: seconds(length_ns),
            ops_per_s,
            mib_per_s,
            run_queue_wait_pct: waited.filter(|_| all_ns > 0.0).map(|waited| 100.0 * waited as f64 / all_ns),
            operations,
        });
        self.step.clear();
        self.step_began_ns = self.last_ns;
    }

    /// Reports the syncs that ended since the last call.
    pub(super) fn tell_syncs(&mut self) -> Result<()> {
        for (begin_ns, took_ns) in std::mem::take(&mut *lock(&self.shared.syncs)) {
            let begin_s = seconds(begin_ns.saturating_sub(self.began_ns));
            (self.tell)(&MongoperfEvent::Sync(Sync { begin_s, took_ms: took_ns as f64 / 1e6 }))?;
        }
        Ok(())
    }
}

/// The time that our threads were runnable without a CPU; the watching thread's own share is negligible.
fn waited_ns() -> Option<u64> {
    sched::process_wait().map(|stat| stat.waited_ns)
}
