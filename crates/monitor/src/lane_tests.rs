//! Runs a thread of samplers in simulated time: ticks, lateness, missed ticks, handing over and cost are exact.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use fathom_errors::Result;
use fathom_host::View;
use tempfile::TempDir;

use crate::host::testing::machine;
use crate::lane::{LaneRun, LaneState, SamplerCost, SamplingCost};
use crate::table::Lane;
use crate::{Batch, Clock, Devices, MonitorPlan, Sampler, SamplerPlan};

const MS: u64 = 1_000_000;

/// A sampler made of a function.
struct FunctionSampler<F>(&'static str, F);

impl<F: FnMut(&mut Batch) -> Result<()> + Send> Sampler for FunctionSampler<F> {
    fn name(&self) -> String {
        self.0.into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        self.1(batch)
    }
}

/// Plans a function as a sampler.
pub(crate) fn plan<F>(name: &'static str, period_ms: u64, lane: Lane, sample: F) -> SamplerPlan
where
    F: FnMut(&mut Batch) -> Result<()> + Send + 'static,
{
    let period = Duration::from_millis(period_ms);
    SamplerPlan { sampler: Box::new(FunctionSampler(name, sample)), period, lane, without: String::new() }
}

struct LaneOutput {
    batches: Vec<Batch>,
    samplers: Vec<SamplerCost>,
    cpu_ns: u64,
}

/// Runs samplers on one thread, in the time of a simulated clock, until a tick at `end_ms`.
fn run(clock: Clock, end_ms: u64, mut samplers: Vec<SamplerPlan>) -> LaneOutput {
    let (sink, batches) = channel();
    let shared = Arc::new(LaneState::new(sink));
    let ends = Arc::clone(&shared);
    samplers.push(plan("end", end_ms, Lane::Fast, move |batch| {
        if batch.clock.now_ns() >= end_ms * MS {
            ends.stop();
        }
        Ok(())
    }));
    let cpu_ns = Arc::new(AtomicU64::new(0));
    let (end, reports) = channel();
    LaneRun::new(0, samplers, clock, &shared, &cpu_ns).run(&end);
    shared.close();
    let samplers = reports.recv().unwrap().samplers;
    LaneOutput { batches: batches.iter().collect(), samplers, cpu_ns: cpu_ns.load(Ordering::Relaxed) }
}

impl LaneOutput {
    /// The windows and values of a series, in milliseconds.
    fn series(&self, name: &str) -> Vec<(u64, u64, f64)> {
        let readings = self.batches.iter().flat_map(|batch| &batch.readings);
        let of_name = readings.filter(|reading| reading.name == name);
        of_name.map(|reading| (reading.begin_ns / MS, reading.end_ns / MS, reading.value)).collect()
    }

    fn sum(&self, name: &str) -> f64 {
        self.series(name).iter().map(|(.., value)| value).sum()
    }
}

/// A sampler whose reading is the time of its sample, which takes `took_ms`, a tenth of it on the processor.
fn ticks(period_ms: u64, took_ms: u64) -> SamplerPlan {
    plan("ticks", period_ms, Lane::Fast, move |batch| {
        let at_ns = batch.clock.now_ns();
        batch.put("tick", "1", (at_ns, at_ns), 1.0);
        batch.clock.work(Duration::from_micros(took_ms * 100));
        batch.clock.pass(Duration::from_micros(took_ms * 900));
        Ok(())
    })
}

#[test]
fn each_tick_is_one_wake_up_and_lateness_does_not_add_up() {
    let late_ms = [3, 24, 0, 11, 7];
    let clock = Clock::simulated(&late_ms.map(|ms| ms * MS));
    let seen = run(clock, 3000, vec![ticks(50, 1)]);
    let expected = (1..=60).map(|tick: u64| tick * 50 + late_ms[(tick as usize - 1) % 5]);
    let starts: Vec<u64> = seen.series("tick").into_iter().map(|(at_ms, ..)| at_ms).collect();
    assert_eq!(starts, [0].into_iter().chain(expected).collect::<Vec<_>>());
    assert_eq!(clock.waits(), 60, "the thread wakes for its ticks only");
    // The last wait of each second is 7 ms late, and its sample takes 1 ms.
    let windows = [(0, 1008), (1008, 2008), (2008, 3008)];
    for (name, values) in [
        ("monitor.ticks.samples", [21.0, 20.0, 20.0]),
        ("monitor.ticks.missed", [0.0, 0.0, 0.0]),
        ("monitor.ticks.cpu_us", [2100.0, 2000.0, 2000.0]),
        ("monitor.ticks.acquisition_us", [1000.0, 1000.0, 1000.0]),
    ] {
        let expected: Vec<_> =
            windows.iter().zip(values).map(|((begin, end), value)| (*begin, *end, value)).collect();
        assert_eq!(seen.series(name), expected, "{name}");
    }
    assert_eq!((seen.batches.len(), seen.cpu_ns), (3, 61 * MS / 10));
    let cost = &seen.samplers[0];
    assert_eq!((cost.samples, cost.missed, cost.slowest), (61, 0, Duration::from_millis(1)));
}

#[test]
fn missed_ticks_are_counted_and_not_made_up_for() {
    let seen = run(Clock::simulated(&[]), 1000, vec![ticks(10, 55)]);
    let starts: Vec<u64> = seen.series("tick").into_iter().map(|(at_ms, ..)| at_ms).collect();
    assert_eq!(starts, (0..19).map(|sample| sample * 55).collect::<Vec<u64>>());
    // The last sample, at 990 ms, leaves the tick at 1000 ms due: 99 ticks since the first.
    assert_eq!(seen.series("monitor.ticks.missed"), [(0, 1045, 99.0 - 18.0)]);
    let cost = SamplingCost { samplers: seen.samplers, ..SamplingCost::default() };
    assert!(cost.sentence().ends_with("81 samples were skipped, because they were late."), "{cost:?}");
}

#[test]
fn a_thread_that_stood_still_hands_over_once_and_goes_on_at_its_ticks() {
    // The second wait, for the tick at 200 ms, ends 3.33 s late.
    let late_ns: Vec<u64> = (0..100).map(|wait| if wait == 1 { 3330 * MS } else { 0 }).collect();
    let seen = run(Clock::simulated(&late_ns), 5000, vec![ticks(100, 0)]);
    let starts: Vec<u64> = seen.series("tick").into_iter().map(|(at_ms, ..)| at_ms).collect();
    assert_eq!(&starts[..5], [0, 100, 3530, 3600, 3700]);
    assert_eq!(seen.series("monitor.ticks.missed"), [(0, 3530, 33.0), (3530, 4000, 0.0), (4000, 5000, 0.0)]);
}

const BEFORE: &str = "7 0 loop0 100 0 800 20 1000 0 8000 500 0 0 0 0 0 0 0 200 400\n";

/// A loop device under ext4 as a machine of files, whose counters move at each tick of a sampler: by three writes of 4 KiB, of which
/// one is a commit of the journal with its two flushes.
fn writing_machine() -> (TempDir, View, SamplerPlan) {
    let (folder, view) = machine(&[
        ("proc/diskstats", BEFORE),
        (
            "proc/fs/jbd2/loop0-8/info",
            "40 transactions (9 requested)\n 500us average transaction commit time\n",
        ),
        ("sys/block/loop0/dev", "7:0"),
        ("sys/block/loop0/queue/write_cache", "write back\n"),
        ("sys/block/loop0/queue/fua", "0\n"),
        ("sys/block/loop0/queue/nr_requests", "128\n"),
        ("sys/block/loop0/inflight", "1 2\n"),
    ]);
    let root = folder.path().to_owned();
    let mut moved = 0;
    let writer = plan("writer", 10, Lane::Fast, move |_| {
        moved += 1;
        let (writes, flushes) = (1000 + 3 * moved, 200 + 2 * moved);
        let (sectors, write_ms, flush_ms) = (8000 + 24 * moved, 500 + 5 * moved, 400 + 4 * moved);
        let counters = format!(
            "7 0 loop0 100 0 800 20 {writes} 0 {sectors} {write_ms} 0 0 0 0 0 0 0 {flushes} {flush_ms}\n"
        );
        std::fs::write(root.join("proc/diskstats"), counters).unwrap();
        let commits =
            format!("{} transactions (9 requested)\n 500us average transaction commit time\n", 40 + moved);
        std::fs::write(root.join("proc/fs/jbd2/loop0-8/info"), commits).unwrap();
        Ok(())
    });
    (folder, view, writer)
}

#[test]
fn sums_are_the_kernels_however_late_the_samples_are() {
    let (_folder, view, writer) = writing_machine();
    let plan = MonitorPlan { view, ..MonitorPlan::for_host(Devices::Named(vec!["loop0".into()])) };
    let mut samplers = plan.schedule().samplers;
    samplers.retain(|one| ["devices", "journal", "in_flight"].contains(&one.sampler.name().as_str()));
    samplers.push(writer);
    let clock = Clock::simulated(&[3 * MS, 0, 41 * MS, 400 * MS, MS, 0, 0, 0, 0, 0, 0, 17 * MS]);
    let seen = run(clock, 20_000, samplers);
    let windows = seen.series("device.loop0.writes");
    assert!(windows.windows(2).all(|pair| pair[0].1 == pair[1].0), "no gap: {windows:?}");
    let moves = seen.sum("device.loop0.writes") / 3.0;
    assert!(moves > 100.0 && moves.fract() == 0.0, "{moves}");
    for (name, each) in [
        ("device.loop0.writes", 3.0),
        ("device.loop0.written_bytes", 12_288.0),
        ("device.loop0.flushes", 2.0),
        ("device.loop0.write_ms", 1.0),
        ("device.loop0.flush_ms", 4.0),
        ("host.journal.loop0.commits", 1.0),
        ("host.journal.loop0.commit_us", 500.0),
    ] {
        assert_eq!(seen.sum(name), each * moves, "{name}");
    }
    assert_eq!(seen.sum("device.loop0.reads"), 0.0);
    let in_flight = seen.series("device.loop0.in_flight");
    assert!(in_flight.len() > 50 && in_flight.iter().all(|(.., value)| *value == 3.0), "{in_flight:?}");
}
