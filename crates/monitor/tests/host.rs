//! Tests all samplers of the host and the trace of block requests on the tests' own loop devices, and compares them with the
//! kernel's counts.

use std::fs::File;
use std::io::Write;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use fathom_host::View;
use fathom_host::diskstats::{self, Counters};
use fathom_monitor::{Batch, Clock, Devices, Monitor, MonitorPlan, SamplingCost};
use fathom_record::catalog::kind_of;
use fathom_record::{Point, SeriesSet};
use fathom_stats::Histogram;
use fathom_testkit::{Bytes, Filesystem, Need, RealDisk, TIMEOUT, assert, assert_eq, skip, test};

/// The kernel's present counters of a device.
fn counters(name: &str) -> Counters {
    let lines = diskstats::read(&View::live()).unwrap();
    lines.into_iter().find(|line| line.name == name).unwrap().counters
}

/// Writes of 4 KiB, each made durable.
const WRITES: u64 = 300;

fn write(folder: &std::path::Path) {
    let mut file = File::create(folder.join("data")).unwrap();
    for _ in 0..WRITES {
        file.write_all(&[7; 4096]).unwrap();
        file.sync_data().unwrap();
    }
}

struct HostReadings {
    series: SeriesSet,
    histograms: Vec<(String, (u64, u64), Histogram)>,
    notes: Vec<String>,
    cost: SamplingCost,
    /// Before watching, before writing, after writing, after watching.
    counters: [Counters; 4],
}

fn watch(disk: &RealDisk, trace: bool) -> HostReadings {
    let plan = MonitorPlan {
        processes: vec![("0".into(), std::process::id())],
        trace,
        ..MonitorPlan::for_host(Devices::Under(disk.path().to_owned()))
    };
    let schedule = plan.schedule();
    assert!(schedule.notes.is_empty(), "{:?}", schedule.notes);
    let device = disk.device_name();
    let before = counters(&device);
    let (sink, batches) = channel();
    let clock = Clock::since(Instant::now());
    let monitor = Monitor::start(schedule.samplers, clock, sink);
    let mut all = Vec::new();
    // The first samples of every source lie before the writes, and the last after them.
    receive_until_sampled(&batches, &mut all, &device, clock.now_ns(), trace);
    let from = counters(&device);
    write(disk.path());
    let to = counters(&device);
    receive_until_sampled(&batches, &mut all, &device, clock.now_ns(), trace);
    let cost = monitor.stop_within(TIMEOUT);
    let after = counters(&device);
    all.extend(batches.iter());
    let notes = all.iter().flat_map(|batch| batch.notes.clone()).collect();
    let series = all.iter().flat_map(|batch| &batch.readings).collect();
    let histograms = all.into_iter().flat_map(|batch| batch.histograms).collect();
    HostReadings { series, histograms, notes, cost, counters: [before, from, to, after] }
}

/// The beginning of the note that the kernel does not let us trace.
const NO_TRACE: &str = "trace could not be read";

/// Receives batches until each of the readings that the tests look at has a window that began after a time; those of the trace only
/// if it is `trace`d and the kernel permits it.
fn receive_until_sampled(
    batches: &Receiver<Batch>,
    all: &mut Vec<Batch>,
    device: &str,
    since_ns: u64,
    trace: bool,
) {
    let traced = format!("device.{device}.traced");
    let mut missing = vec![
        format!("device.{device}.written_bytes"),
        format!("device.{device}.in_flight"),
        format!("host.journal.{device}.commits"),
        "server.0.process.written_bytes".to_owned(),
        "monitor.in_flight.cpu_us".to_owned(),
        "monitor.devices.acquisition_us".to_owned(),
    ];
    missing.extend(trace.then(|| traced.clone()));
    let refused = |batch: &Batch| batch.notes.iter().any(|note| note.starts_with(NO_TRACE));
    while !missing.is_empty() {
        if all.iter().any(refused) {
            missing.retain(|name| *name != traced);
        }
        let batch = batches.recv().unwrap();
        let late =
            |name: &String| !batch.readings.iter().any(|one| one.name == *name && one.begin_ns >= since_ns);
        missing.retain(late);
        all.push(batch);
    }
}

impl HostReadings {
    fn points(&self, name: &str) -> &[Point] {
        self.series.get(name).map_or(&[], |series| &series.points)
    }

    fn sum(&self, name: &str) -> f64 {
        self.points(name).iter().map(|point| point.value).sum()
    }

    /// Every reading is in the catalog, with its unit and a window.
    fn check_against_the_catalog(&self) {
        for (name, series) in self.series.iter() {
            let kind = kind_of(name).unwrap_or_else(|| panic!("{name} is not in the catalog"));
            assert_eq!(kind.unit, series.unit, "{name}");
            for point in &series.points {
                assert!(point.begin_ns < point.end_ns && point.value.is_finite(), "{name}: {point:?}");
            }
        }
    }

    fn print_cost(&self) {
        println!("{}", self.cost.sentence());
        for one in &self.cost.samplers {
            println!(
                "  {:10} {:?} in {} samples, the slowest {:?}",
                one.name, one.cpu, one.samples, one.slowest
            );
        }
    }
}

#[test]
fn every_source_is_read_and_sums_agree_with_the_kernels() {
    let disk = RealDisk::new(Filesystem::Ext4, Bytes(256 << 20));
    let device = disk.device_name();
    let seen = watch(&disk, false);
    println!("notes: {:#?}", seen.notes);
    seen.print_cost();
    seen.check_against_the_catalog();
    let of_device = |what: &str| format!("device.{device}.{what}");
    let sum = |what: &str| seen.sum(&of_device(what));
    let flushes = |counters: &Counters| counters.flushes.map_or(0, |flushes| flushes.flushes);
    let [before, from, to, after] = &seen.counters;
    let agree = |what: &str, sum: f64, of: &dyn Fn(&Counters) -> u64| {
        let (least, most) = (of(to) - of(from), of(after) - of(before));
        println!("{what}: {sum}, the kernel says {least} to {most}");
        assert!((least as f64..=most as f64).contains(&sum), "{what}: {sum} is not in {least}..{most}");
    };
    let most = (after.writes - before.writes) as f64;
    println!("writes: {}, the kernel says up to {most} with empty flushes", sum("writes"));
    assert!(sum("writes") <= most);
    agree("flushes", sum("flushes"), &flushes);
    agree("bytes", sum("written_bytes"), &|c| c.write_sectors * 512);
    agree("ms", sum("write_ms") + sum("flush_ms"), &|c| c.write_ms);
    assert!(sum("written_bytes") >= 4096.0 * WRITES as f64);

    let in_flight = seen.points(&of_device("in_flight")).len();
    assert!(in_flight >= 2, "{in_flight} samples of requests in flight");
    // The present value: a loop device keeps a setting for the next user of its number.
    let requests = std::fs::read_to_string(format!("/sys/block/{device}/queue/nr_requests")).unwrap();
    assert_eq!(seen.points(&of_device("queue.requests"))[0].value, requests.trim().parse::<f64>().unwrap());
    let commits = seen.sum(&format!("host.journal.{device}.commits"));
    let commit_us = seen.sum(&format!("host.journal.{device}.commit_us"));
    println!("{commits} commits of the journal took {commit_us} us");
    assert!(commits >= 1.0);
    for name in [
        "host.cpu.count",
        "host.cpu.idle_pct",
        "host.runnable",
        "host.memory.dirty_bytes",
        "host.network.retransmits",
        "server.0.process.cpu_us",
        "server.0.process.run_wait_us",
        "monitor.run_wait_pct",
        "monitor.in_flight.cpu_us",
        "monitor.devices.acquisition_us",
    ] {
        assert!(!seen.points(name).is_empty(), "{name} was not read");
    }
    let written = seen.sum("server.0.process.written_bytes");
    assert!(written >= 4096.0 * WRITES as f64, "{written}");
}

#[test]
fn every_write_is_traced() {
    let disk = RealDisk::new(Filesystem::Ext4, Bytes(256 << 20));
    let device = disk.device_name();
    let seen = watch(&disk, true);
    if let Some(why) = seen.notes.iter().find(|note| note.starts_with(NO_TRACE)) {
        skip!(Need::Kernel, "{why}");
    }
    seen.check_against_the_catalog();
    let (traced, lost) = (seen.sum(&format!("device.{device}.traced")), seen.sum("monitor.trace.lost"));
    println!("{traced} requests traced, {lost} events lost");
    assert!(traced + lost >= WRITES as f64);
    assert!(!seen.points(&format!("device.{device}.queued.mean_us")).is_empty());
}

/// A thread that pauses between two sources, or for as long as a ring has room, changes these figures. Exact twins: `lane_tests`,
/// `host::devices` and `trace`.
mod timed {
    use fathom_testkit::{assert, assert_eq, skip, test};

    use super::*;

    #[test]
    fn writes_are_counted_without_empty_flushes() {
        let disk = RealDisk::new(Filesystem::Ext4, Bytes(256 << 20));
        let device = disk.device_name();
        let seen = watch(&disk, false);
        let [before, from, to, after] = &seen.counters;
        let (least, most) = ((to.writes - from.writes) as f64, (after.writes - before.writes) as f64);
        let writes = seen.sum(&format!("device.{device}.writes"));
        println!("writes: {writes}, the kernel says {least} to {most} with empty flushes");
        // Each write here extends the file, so that all flushes are the journal's and no flush is empty.
        assert!((0.9 * least..=most).contains(&writes));
    }

    #[test]
    fn traced_requests_agree_with_the_kernels_counters() {
        let disk = RealDisk::new(Filesystem::Ext4, Bytes(256 << 20));
        let device = disk.device_name();
        let seen = watch(&disk, true);
        seen.print_cost();
        if let Some(why) = seen.notes.iter().find(|note| note.starts_with(NO_TRACE)) {
            skip!(Need::Kernel, "{why}");
        }
        seen.check_against_the_catalog();
        let sum = |what: &str| seen.sum(&format!("device.{device}.{what}"));
        assert_eq!(seen.sum("monitor.trace.lost"), 0.0);
        let merged = |end: &str| {
            let mut all = Histogram::new();
            let name = format!("device.{device}.{end}");
            let of = seen.histograms.iter().filter(|(of, ..)| *of == name);
            of.for_each(|(_, _, histogram)| all.merge(histogram));
            all
        };
        let (queued, served, flushes) = (merged("queued"), merged("served.write"), merged("served.flush"));
        let (traced, writes, reads) = (sum("traced"), sum("writes"), sum("reads"));
        let await_us = (sum("write_ms") + sum("read_ms")) * 1e3 / (writes + reads);
        let (queued_us, served_us) = (queued.mean_ns().unwrap() / 1e3, served.mean_ns().unwrap() / 1e3);
        println!("{traced} requests traced, the kernel counted {writes} writes and {reads} reads");
        println!(
            "{queued_us:.1} us queued and {served_us:.1} us served, the kernel's mean is {await_us:.1} us"
        );
        println!("{} flushes traced, the kernel counted {}", flushes.len(), sum("flushes"));
        assert!((traced - writes - reads).abs() <= 0.05 * (writes + reads) + 2.0);
        assert!((flushes.len() as f64 - sum("flushes")).abs() <= 0.05 * sum("flushes") + 2.0);
        // The kernel's time begins a little after queueing, and its milliseconds are cut off.
        assert!(served_us <= await_us * 1.3 + 20.0, "{served_us} us is more than {await_us} us");
        assert!(
            queued_us + served_us >= await_us * 0.5,
            "{queued_us} + {served_us} us is less than {await_us} us"
        );
        assert!(!seen.points(&format!("device.{device}.queued.mean_us")).is_empty());
    }

    #[test]
    fn all_sources_of_a_host_cost_little() {
        let disk = RealDisk::new(Filesystem::Ext4, Bytes(256 << 20));
        let seen = watch(&disk, false);
        seen.print_cost();
        assert!(seen.cost.cpu_share() < 0.05, "{}", seen.cost.sentence());
    }
}
