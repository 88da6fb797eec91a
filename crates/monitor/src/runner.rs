//! Runs samplers at their periods on a few threads until asked to stop.
//!
//! Samplers that read many times a second share a thread, those that read each second share another, and each server has its own, so
//! that a server that hangs delays no other. A thread that still waits for its source when monitoring ends is left behind, with a note;
//! its later readings are lost.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use fathom_errors::Result;
use fathom_host::cgroup::Cgroups;
use fathom_host::sched::{SchedStat, thread_wait};
use fathom_host::{MachineSize, View};

use crate::lane::{LaneEnd, LaneRun, LaneState, SamplingCost};
use crate::sampler::{Notes, Sums};
use crate::table::Lane;
use crate::{Batch, Clock, Sampler, SamplerPlan};

/// The time that a stop waits for samples that are being taken.
const STOP_TIMEOUT: Duration = Duration::from_millis(100);

struct SamplerThread {
    samplers: Vec<String>,
    /// Processor time of the thread, up to its last second.
    cpu_ns: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

pub struct Monitor {
    clock: Clock,
    started_ns: u64,
    shared: Arc<LaneState>,
    lanes: Vec<SamplerThread>,
    ends: Receiver<LaneEnd>,
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Monitor of {} threads", self.lanes.len())
    }
}

impl Monitor {
    /// Starts the samplers. Readings are sent to `sink` at least each second; a thread that cannot be started becomes a note there.
    pub fn start(samplers: Vec<SamplerPlan>, clock: Clock, sink: Sender<Batch>) -> Monitor {
        let shared = Arc::new(LaneState::new(sink));
        let (end, ends) = channel();
        let mut lanes = Vec::new();
        let watcher = SamplerPlan::new(Box::new(Watcher::new(&shared)));
        for (index, samplers) in by_lane(samplers.into_iter().chain([watcher])).into_iter().enumerate() {
            let names: Vec<String> = samplers.iter().map(|one| one.sampler.name()).collect();
            let cpu_ns = Arc::new(AtomicU64::new(0));
            let run = LaneRun::new(index, samplers, clock, &shared, &cpu_ns);
            let end = end.clone();
            match Builder::new().name("watch".into()).spawn(move || run.run(&end)) {
                Ok(thread) => lanes.push(SamplerThread { samplers: names, cpu_ns, thread }),
                Err(error) => {
                    let what = format!("{} cannot be watched: no thread for it ({error}).", names.join(", "));
                    shared.note(clock, what);
                }
            }
        }
        Monitor { clock, started_ns: clock.now_ns(), shared, lanes, ends }
    }

    /// Ends watching: readings are handed over and the sink is dropped within a tenth of a second.
    pub fn stop(self) -> SamplingCost {
        self.stop_within(STOP_TIMEOUT)
    }

    /// The same with another limit of the wait for samples that are being taken.
    pub fn stop_within(mut self, timeout: Duration) -> SamplingCost {
        let stopped_ns = self.clock.now_ns();
        let elapsed = Duration::from_nanos(stopped_ns.saturating_sub(self.started_ns));
        self.shared.stop();
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline_ns = stopped_ns.saturating_add(timeout_ns);
        let mut samplers = BTreeMap::new();
        while samplers.len() < self.lanes.len() {
            let left_ns = deadline_ns.saturating_sub(self.clock.now_ns());
            let Some(end) = self.clock.receive(&self.ends, left_ns) else { break };
            samplers.insert(end.lane, end.samplers);
        }
        let mut cost = SamplingCost { elapsed, ..SamplingCost::default() };
        for (index, lane) in std::mem::take(&mut self.lanes).into_iter().enumerate() {
            // A thread that has reported its end only closes its sources, which may take some time.
            if samplers.contains_key(&index) || lane.thread.is_finished() {
                if lane.thread.is_finished() && lane.thread.join().is_err() {
                    let what =
                        format!("Watching {} ended early: its thread failed.", lane.samplers.join(", "));
                    self.shared.note(self.clock, what);
                }
            } else {
                let names = lane.samplers.join(", ");
                let what = format!("{names} did not answer at the end; its last samples are missing.");
                self.shared.note(self.clock, what);
                cost.left_behind.extend(lane.samplers);
            }
            cost.cpu += Duration::from_nanos(lane.cpu_ns.load(Ordering::Relaxed));
        }
        cost.samplers = samplers.into_values().flatten().collect();
        self.shared.close();
        cost
    }
}

impl Drop for Monitor {
    /// Without [`Monitor::stop`], drop asks the threads to end and does not wait for them.
    fn drop(&mut self) {
        self.shared.stop();
        self.shared.close();
    }
}

/// Groups samplers by the thread that they share.
fn by_lane(samplers: impl Iterator<Item = SamplerPlan>) -> Vec<Vec<SamplerPlan>> {
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

/// Reads the samplers' threads. It gives the share of the one that waited most, since one late thread is enough to mislead.
pub(crate) struct Watcher {
    /// Weak, because the shared state holds the sink.
    shared: Weak<LaneState>,
    last_ns: Option<u64>,
    last: HashMap<i32, SchedStat>,
    sums: Sums,
    notes: Notes,
}

impl Watcher {
    pub(crate) fn new(shared: &Arc<LaneState>) -> Watcher {
        Watcher {
            shared: Arc::downgrade(shared),
            last_ns: None,
            last: HashMap::new(),
            sums: Sums::default(),
            notes: Notes::default(),
        }
    }
}

impl Sampler for Watcher {
    fn name(&self) -> String {
        "watcher".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let Some(shared) = self.shared.upgrade() else { return Ok(()) };
        let at_ns = batch.clock.now_ns();
        let window_ns = self.last_ns.filter(|begin_ns| *begin_ns < at_ns).map(|begin_ns| (begin_ns, at_ns));
        let now: HashMap<i32, SchedStat> = shared
            .threads()
            .into_iter()
            .filter_map(|thread| Some((thread, thread_wait(Some(thread))?)))
            .collect();
        if now.is_empty() {
            self.notes.once(batch, "This kernel does not say how long threads wait for a processor; without it there is no guard against samples that were taken late.");
        }
        let waits =
            now.iter().filter_map(|(thread, stat)| Some(stat.since(*self.last.get(thread)?).waited_ns));
        if let Some((most_ns, window_ns)) = waits.max().zip(window_ns) {
            let share = 100.0 * most_ns as f64 / (window_ns.1 - window_ns.0) as f64;
            batch.put("monitor.run_wait_pct", "%", window_ns, share.min(100.0));
        }
        (self.last, self.last_ns) = (now, Some(at_ns));
        let view = View::live();
        let groups = Cgroups::read(&view, None);
        if let Some(throttled_us) = groups.cpu_throttled_us() {
            self.sums.put(batch, "monitor.throttled_us", "us", at_ns, throttled_us as f64);
        }
        let size = MachineSize::read(&view).filter(|size| size.processors < size.online);
        if let Some((size, window_ns)) = size.zip(window_ns) {
            batch.put("monitor.processors", "1", window_ns, size.processors);
        }
        if let Some(quota) = groups.cpu_quota() {
            let mut put = |what: &str, unit: &str, value: u64| {
                self.sums.put(batch, &format!("monitor.quota.{what}"), unit, at_ns, value as f64);
            };
            if let Some(used_us) = quota.used_us {
                put("used_us", "us", used_us);
            }
            if let Some((periods, throttled)) = quota.periods {
                put("periods", "1", periods);
                put("throttled", "1", throttled);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane_tests::plan;

    /// Notes of all batches that have come.
    fn notes(batches: &Receiver<Batch>) -> Vec<String> {
        batches.iter().flat_map(|batch| batch.notes).collect()
    }

    #[test]
    fn a_stop_waits_a_tenth_of_a_second_for_one_that_hangs() {
        let clock = Clock::simulated(&[]);
        let (sink, batches) = channel();
        let (end, ends) = channel();
        let (release, hung) = channel::<()>();
        let lane = |name: &str, thread| SamplerThread {
            samplers: vec![name.to_owned()],
            cpu_ns: Arc::new(AtomicU64::new(2_000_000)),
            thread,
        };
        let hangs = lane("hangs", std::thread::spawn(move || hung.recv().unwrap_or_default()));
        let whole = lane("whole", std::thread::spawn(|| ()));
        end.send(LaneEnd { lane: 1, samplers: Vec::new() }).unwrap();
        let shared = Arc::new(LaneState::new(sink));
        let monitor = Monitor { clock, started_ns: 0, shared, lanes: vec![hangs, whole], ends };
        clock.pass(Duration::from_secs(5));
        let cost = monitor.stop();
        assert_eq!(clock.now_ns(), 5_100_000_000);
        assert_eq!(cost.left_behind, ["hangs"]);
        assert_eq!((cost.elapsed, cost.cpu), (Duration::from_secs(5), Duration::from_millis(4)));
        assert_eq!(notes(&batches), ["hangs did not answer at the end; its last samples are missing."]);
        drop(release);
    }

    #[test]
    fn one_that_hangs_stalls_nobody_and_is_left_behind() {
        let (release, hung) = channel::<()>();
        let hang = move |_: &mut Batch| {
            let _ = hung.recv();
            Ok(())
        };
        let (told, samples) = channel();
        let whole = move |_: &mut Batch| {
            let _ = told.send(());
            Ok(())
        };
        let (sink, batches) = channel();
        let samplers = vec![plan("hangs", 1000, Lane::Own, hang), plan("whole", 10, Lane::Fast, whole)];
        let monitor = Monitor::start(samplers, Clock::since(std::time::Instant::now()), sink);
        (0..6).for_each(|_| samples.recv().unwrap());
        monitor.shared.stop();
        let ends = |lane: &SamplerThread| lane.samplers == ["hangs"] || lane.thread.is_finished();
        while !monitor.lanes.iter().all(ends) {
            std::thread::yield_now();
        }
        let cost = monitor.stop_within(Duration::ZERO);
        assert_eq!(cost.left_behind, ["hangs"]);
        assert!(cost.samplers.iter().any(|one| one.name == "whole" && one.samples >= 6), "{cost:?}");
        let left = "hangs did not answer at the end; its last samples are missing.";
        assert_eq!(notes(&batches), [left], "a thread left behind holds no sink");
        drop(release);
    }
}
