//! Opens the way to the loops, and sees when their operations wait.
//!
//! Three signs: the process reads from its devices, as it does when data are not in memory; an operation does not end while its thread
//! sleeps; a loop's thread goes to sleep more often than for want of work. Then all connections get threads of their own; so they do where
//! tickets are fewer than usual, since who made them fewer wants to see operations wait for them. While the loops rest and
//! nobody asks for them, the watch rests too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::doc;
use fathom_host::View;
use fathom_host::process::ProcessIo;
use fathom_host::sched::ThreadStatus;
use parking_lot::{Condvar, Mutex};

use super::Stage;
use crate::instance::Instance;

/// Between two looks. An operation that sleeps is found after one to two of them.
const TICK: Duration = Duration::from_millis(10);
/// Looks between two counts of sleeps and of what was read.
const COUNT_TICKS: u32 = 10;
/// Sleeps that operations may have between two counts: locks are waited for now and then.
const SLEEPS: u64 = 10;
/// Bytes that the process may read from devices between two counts: less than ten pages of 16 KB.
const READ_BYTES: u64 = 128 << 10;
/// Looks after which an operation is too long although it does not sleep.
const LONG_TICKS: u32 = 3;
/// Looks without work after which the watch rests.
const IDLE_TICKS: u32 = 20;

/// Wakes the watch.
#[derive(Debug, Default)]
pub(super) struct WatchBell {
    asleep: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl WatchBell {
    /// Wakes it if it sleeps: there is work.
    pub(super) fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    /// Wakes it.
    pub(super) fn ring(&self) {
        let _held = self.lock.lock();
        self.asleep.store(false, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Sleeps until it is woken, unless `has_work` says, once everybody can see that it sleeps, that it must not.
    fn sleep(&self, has_work: impl FnOnce() -> bool) {
        let mut held = self.lock.lock();
        self.asleep.store(true, Ordering::SeqCst);
        if !has_work() {
            while self.asleep.load(Ordering::SeqCst) {
                self.changed.wait(&mut held);
            }
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

/// What was seen of a loop.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    step: u64,
    /// Looks at which it stood at the same operation.
    stood: u32,
    /// Its thread's sleeps that were not for want of work.
    sleeps: Option<u64>,
}

impl Seen {
    /// Whether a loop has done anything since it was last looked at, or does.
    fn works(&self, stage: &Stage) -> bool {
        let step = stage.progress.step();
        step != self.step || step % 2 == 1
    }

    /// Looks at a loop. Whether its operations wait.
    fn look(&mut self, stage: &Stage, counts: bool) -> bool {
        let progress = &stage.progress;
        let step = progress.step();
        let works = step % 2 == 1;
        self.stood = if works && step == self.step { self.stood + 1 } else { 0 };
        self.step = step;
        if self.stood == 0 && !counts {
            return false;
        }
        let rests = progress.rests();
        let Some(status) = progress.thread().and_then(ThreadStatus::read) else { return false };
        let stands =
            self.stood > 0 && (status.state != 'R' || self.stood >= LONG_TICKS) && progress.step() == step;
        stands || (counts && self.count(status.voluntary_switches.saturating_sub(rests)))
    }

    /// Whether operations slept often since the last count.
    fn count(&mut self, sleeps: u64) -> bool {
        let before = self.sleeps.replace(sleeps);
        before.is_some_and(|before| sleeps.saturating_sub(before) > SLEEPS)
    }
}

/// What the process reads from its devices.
#[derive(Debug, Default)]
struct Reads(Option<u64>);

impl Reads {
    /// Whether it has read next to nothing since the last count; none at the first. Where the kernel does not say, the other signs
    /// have to do.
    fn are_few(&mut self) -> Option<bool> {
        let now = ProcessIo::read(&View::live(), std::process::id()).map_or(0, |io| io.read_bytes);
        let before = self.0.replace(now)?;
        Some(now.saturating_sub(before) <= READ_BYTES)
    }
}

/// Watches until the server stops.
pub(super) fn watch(instance: &Arc<Instance>) {
    let mut watch = Watch::new(instance);
    while !instance.is_stopping() {
        std::thread::sleep(TICK);
        if let Some(why) = watch.look() {
            let connections = instance.executor.dissolve();
            if connections > 0 {
                let count = i64::try_from(connections).unwrap_or(i64::MAX);
                let attributes = || doc! { "why": why, "connections": count };
                let what = "Event loops give their connections threads";
                instance.log.debug(1, "NETWORK", 4_615_640, "EventLoopWatch", what, attributes);
            }
        }
        if watch.idle > IDLE_TICKS {
            watch.rest(|| instance.is_stopping());
        }
    }
}

struct Watch<'i> {
    instance: &'i Instance,
    seen: Vec<Seen>,
    reads: Reads,
    ticks: u32,
    /// Looks at which nothing was going on, up to now.
    idle: u32,
}

impl Watch<'_> {
    fn new(instance: &Instance) -> Watch<'_> {
        let seen = vec![Seen::default(); instance.executor.stages.len()];
        Watch { instance, seen, reads: Reads::default(), ticks: 0, idle: 0 }
    }

    /// Looks at everything, and opens the gate if it may be. Says why the loops are to be dissolved, if they are.
    fn look(&mut self) -> Option<&'static str> {
        self.ticks += 1;
        let counts = self.ticks.is_multiple_of(COUNT_TICKS);
        let executor = &self.instance.executor;
        let (mut waits, mut works) = (false, executor.gate.is_asked());
        for (seen, stage) in self.seen.iter_mut().zip(&executor.stages) {
            works |= seen.works(stage);
            waits |= seen.look(stage, counts);
        }
        self.idle = if works { 0 } else { self.idle + 1 };
        let few_reads = if counts { self.reads.are_few() } else { None };
        match few_reads {
            _ if waits => return Some("operations wait"),
            Some(false) => return Some("devices are read"),
            Some(true) if self.instance.parameters.tickets_are_scarce() => return Some("tickets are scarce"),
            Some(true) if executor.gate.was_asked_by_many() => executor.gate.open(),
            _ => {}
        }
        None
    }

    /// Sleeps until there is something to watch. What was counted before says nothing after it, so the gate is shut.
    fn rest(&mut self, is_over: impl Fn() -> bool) {
        let executor = &self.instance.executor;
        executor.gate.shut();
        let works = || {
            let mut loops = self.seen.iter().zip(&executor.stages);
            executor.gate.is_asked() || loops.any(|(seen, stage)| seen.works(stage))
        };
        executor.bell.sleep(|| is_over() || works());
        *self = Watch::new(self.instance);
    }
}
