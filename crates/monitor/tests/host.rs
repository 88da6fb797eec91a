//! All samplers of the host against a loop device of the test's own, beside what the kernel counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test")]

use std::fs::File;
use std::io::Write;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use fathom_host::View;
use fathom_host::diskstats::{self, Counters};
use fathom_monitor::{Batch, Clock, Cost, Devices, Monitor, Plan};
use fathom_record::SeriesSet;
use fathom_record::catalog::kind_of;
use fathom_testkit::{Bytes, Filesystem, RealDisk};

/// What the kernel counts for a device now.
fn counters(name: &str) -> Counters {
    let lines = diskstats::read(&View::live()).unwrap();
    lines.into_iter().find(|line| line.name == name).unwrap().counters
}

/// Writes of 4 KiB, each made durable, for a while; how many.
fn write_for(folder: &std::path::Path, length: Duration) -> u64 {
    let mut file = File::create(folder.join("data")).unwrap();
    let began = Instant::now();
    let mut writes = 0;
    while began.elapsed() < length {
        file.write_all(&[7; 4096]).unwrap();
        file.sync_data().unwrap();
        writes += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    writes
}

struct Watched {
    series: SeriesSet,
    notes: Vec<String>,
    cost: Cost,
    writes: u64,
    /// Before watching, before writing, after writing, after watching.
    counters: [Counters; 4],
}

fn watch(disk: &RealDisk) -> Watched {
    let plan = Plan {
        processes: vec![("0".into(), std::process::id())],
        ..Plan::of_host(Devices::Under(disk.path().to_owned()))
    };
    let schedule = plan.schedule();
    assert!(schedule.notes.is_empty(), "{:?}", schedule.notes);
    let device = disk.device_name();
    let before = counters(&device);
    let (sink, batches) = channel();
    let monitor = Monitor::start(schedule.samplers, Clock::since(Instant::now()), sink);
    std::thread::sleep(Duration::from_millis(500));
    let from = counters(&device);
    let writes = write_for(disk.path(), Duration::from_millis(1200));
    let to = counters(&device);
    std::thread::sleep(Duration::from_millis(1500));
    let began = Instant::now();
    let cost = monitor.stop();
    println!("stop took {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(1));
    let after = counters(&device);
    let all: Vec<Batch> = batches.iter().collect();
    let notes = all.iter().flat_map(|batch| batch.notes.clone()).collect();
    let series = all.iter().flat_map(|batch| &batch.readings).collect();
    Watched { series, notes, cost, writes, counters: [before, from, to, after] }
}

#[test]
fn every_source_is_read_and_sums_agree_with_the_kernels() {
    let Some(disk) = RealDisk::new(Filesystem::Ext4, Bytes(256 << 20)).unwrap() else { return };
    let device = disk.device_name();
    let seen = watch(&disk);
    println!("{} writes; notes: {:#?}", seen.writes, seen.notes);
    println!("{}", seen.cost.sentence());
    for one in &seen.cost.samplers {
        println!("  {:10} {:?} in {} samples, the slowest {:?}", one.name, one.cpu, one.samples, one.slowest);
    }
    for (name, series) in seen.series.iter() {
        let kind = kind_of(name).unwrap_or_else(|| panic!("{name} is not in the catalog"));
        assert_eq!(kind.unit, series.unit, "{name}");
        assert!(
            series.points.iter().all(|point| point.begin_ns < point.end_ns && point.value.is_finite()),
            "{name}"
        );
    }
    let points = |what: &str| seen.series.get(what).map_or(&[][..], |series| &series.points);
    let sum =
        |what: &str| -> f64 { points(&format!("device.{device}.{what}")).iter().map(|p| p.value).sum() };
    let flushes = |counters: &Counters| counters.flushes.map_or(0, |flushes| flushes.flushes);
    let [before, from, to, after] = &seen.counters;
    let agree = |what: &str, sum: f64, of: &dyn Fn(&Counters) -> u64| {
        let (least, most) = (of(to) - of(from), of(after) - of(before));
        println!("{what}: {sum}, the kernel says {least} to {most}");
        assert!((least as f64..=most as f64).contains(&sum), "{what}: {sum} is not in {least}..{most}");
    };
    agree("writes with flushes", sum("writes") + sum("flushes"), &|c| c.writes);
    agree("flushes", sum("flushes"), &flushes);
    agree("bytes", sum("written_bytes"), &|c| c.write_sectors * 512);
    agree("ms", sum("write_ms") + sum("flush_ms"), &|c| c.write_ms);
    assert!(sum("written_bytes") >= 4096.0 * seen.writes as f64);

    let in_flight = points(&format!("device.{device}.in_flight")).len();
    assert!(in_flight >= 30, "{in_flight} samples of requests in flight");
    assert_eq!(points(&format!("device.{device}.queue.requests"))[0].value, 128.0);
    let commits: f64 = points(&format!("host.journal.{device}.commits")).iter().map(|p| p.value).sum();
    let commit_us: f64 = points(&format!("host.journal.{device}.commit_us")).iter().map(|p| p.value).sum();
    println!("{commits} commits of the journal took {commit_us} us");
    assert!(commits >= 1.0);
    for name in [
        "host.cpu.count",
        "host.cpu.idle_pct",
        "host.runnable",
        "host.memory.dirty_bytes",
        "host.network.retransmits",
        "server.0.process.cpu_us",
        "server.0.process.written_bytes",
        "server.0.process.run_wait_us",
        "monitor.run_wait_pct",
        "monitor.in_flight.cpu_us",
        "monitor.devices.acquisition_us",
    ] {
        assert!(!points(name).is_empty(), "{name} was not read");
    }
    let written: f64 = points("server.0.process.written_bytes").iter().map(|p| p.value).sum();
    assert!(written >= 4096.0 * seen.writes as f64 * 0.9, "{written}");
    assert!(seen.cost.cpu_share() < 0.05, "{}", seen.cost.sentence());
}
