//! Runs samplers at their periods on a few threads, until it is told to stop.
//!
//! What is read many times a second shares a thread, what is read each second shares another, and each server has one of its
//! own, so that one that hangs stalls nobody. A thread that still waits for its source when watching ends is left behind, and
//! said to be; what it may yet read goes nowhere.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::cost::{Cost, SamplerCost};
use crate::lane::LaneRun;
use crate::table::Lane;
use crate::watcher::Watcher;
use crate::{Batch, Clock, Scheduled};

/// How long a stop waits for samples that are being taken.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the threads share.
pub(crate) struct Shared {
    stopped: Mutex<bool>,
    wake: Condvar,
    /// Taken away at the end, so that a thread left behind does not keep the receiver waiting.
    sink: Mutex<Option<Sender<Batch>>>,
    /// Kernel ids of the samplers' threads.
    threads: Mutex<Vec<i32>>,
}

/// A lock whose holder panicked guards plain values that are whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Waits until `deadline_ns` on the clock; `false` when it is time to stop.
    pub(crate) fn wait_until(&self, clock: Clock, deadline_ns: u64) -> bool {
        let mut stopped = lock(&self.stopped);
        loop {
            let left_ns = deadline_ns.saturating_sub(clock.now_ns());
            if *stopped || left_ns == 0 {
                return !*stopped;
            }
            let waited = self.wake.wait_timeout(stopped, Duration::from_nanos(left_ns));
            stopped = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Hands a batch over; `false` when nobody takes it any more.
    pub(crate) fn send(&self, batch: Batch) -> bool {
        lock(&self.sink).as_ref().is_some_and(|sink| sink.send(batch).is_ok())
    }

    /// The kernel ids of the samplers' threads.
    pub(crate) fn threads(&self) -> Vec<i32> {
        lock(&self.threads).clone()
    }

    /// Adds the calling thread to them.
    pub(crate) fn register_thread(&self) {
        lock(&self.threads).push(rustix::thread::gettid().as_raw_nonzero().get());
    }

    fn stop(&self) {
        *lock(&self.stopped) = true;
        self.wake.notify_all();
    }
}

/// What a thread tells at its end.
pub(crate) struct LaneEnd {
    pub(crate) lane: usize,
    pub(crate) samplers: Vec<SamplerCost>,
}

struct Running {
    samplers: Vec<String>,
    /// Processor time of the thread, up to its last second.
    cpu_ns: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

/// Samplers that run.
pub struct Monitor {
    clock: Clock,
    started: Instant,
    shared: Arc<Shared>,
    lanes: Vec<Running>,
    ends: Receiver<LaneEnd>,
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Monitor of {} threads", self.lanes.len())
    }
}

impl Monitor {
    /// Starts them. Readings go to `sink` at least each second; a thread that cannot be started is a note there.
    pub fn start(samplers: Vec<Scheduled>, clock: Clock, sink: Sender<Batch>) -> Monitor {
        let shared = Arc::new(Shared {
            stopped: Mutex::new(false),
            wake: Condvar::new(),
            sink: Mutex::new(Some(sink)),
            threads: Mutex::default(),
        });
        let (end, ends) = channel();
        let mut lanes = Vec::new();
        let watcher = Scheduled::new(Box::new(Watcher::new(&shared)));
        for (index, samplers) in by_lane(samplers.into_iter().chain([watcher])).into_iter().enumerate() {
            let names: Vec<String> = samplers.iter().map(|one| one.sampler.name()).collect();
            let cpu_ns = Arc::new(AtomicU64::new(0));
            let run = LaneRun::new(index, samplers, clock, &shared, &cpu_ns);
            let end = end.clone();
            match Builder::new().name("watch".into()).spawn(move || run.run(&end)) {
                Ok(thread) => lanes.push(Running { samplers: names, cpu_ns, thread }),
                Err(error) => {
                    let what = format!("{} cannot be watched: no thread for it ({error}).", names.join(", "));
                    note(&shared, clock, what);
                }
            }
        }
        Monitor { clock, started: Instant::now(), shared, lanes, ends }
    }

    /// Ends watching: what was read is handed over and the sink is let go within a tenth of a second.
    pub fn stop(mut self) -> Cost {
        let elapsed = self.started.elapsed();
        self.shared.stop();
        let deadline = Instant::now() + PATIENCE;
        let mut samplers = BTreeMap::new();
        while samplers.len() < self.lanes.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(end) = self.ends.recv_timeout(left) else { break };
            samplers.insert(end.lane, end.samplers);
        }
        let mut cost = Cost { elapsed, ..Cost::default() };
        for (index, lane) in std::mem::take(&mut self.lanes).into_iter().enumerate() {
            // One that has told its end only lets go of its sources, and may take its time for that.
            if samplers.contains_key(&index) || lane.thread.is_finished() {
                if lane.thread.is_finished() && lane.thread.join().is_err() {
                    let what =
                        format!("Watching {} ended early: its thread failed.", lane.samplers.join(", "));
                    note(&self.shared, self.clock, what);
                }
            } else {
                let names = lane.samplers.join(", ");
                let what = format!("{names} did not answer at the end; its last samples are missing.");
                note(&self.shared, self.clock, what);
                cost.left_behind.extend(lane.samplers);
            }
            cost.cpu += Duration::from_nanos(lane.cpu_ns.load(Ordering::Relaxed));
        }
        cost.samplers = samplers.into_values().flatten().collect();
        drop(lock(&self.shared.sink).take());
        cost
    }
}

impl Drop for Monitor {
    /// One that goes without [`Monitor::stop`] tells its threads to end, and does not wait for them.
    fn drop(&mut self) {
        self.shared.stop();
        drop(lock(&self.shared.sink).take());
    }
}

fn note(shared: &Shared, clock: Clock, what: String) {
    let mut batch = Batch::new(clock);
    batch.notes.push(what);
    shared.send(batch);
}

/// Samplers by the thread that they share.
fn by_lane(samplers: impl Iterator<Item = Scheduled>) -> Vec<Vec<Scheduled>> {
    let (mut fast, mut second, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
    for one in samplers {
        match one.lane {
            Lane::Fast => fast.push(one),
            Lane::Second => second.push(one),
            Lane::Own => lanes.push(vec![one]),
        }
    }
    lanes.extend([fast, second].into_iter().filter(|lane| !lane.is_empty()));
    lanes
}
