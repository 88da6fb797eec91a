//! A run of any length whose every number is known beforehand: what a load on one server and one device could look like.

use std::f64::consts::PI;
use std::path::{Path, PathBuf};

use fathom_record::{Confidence, Finding, Manifest, Reading, RunWriter, Severity, State, catalog};
use fathom_stats::Histogram;

const SECOND_NS: u64 = 1_000_000_000;

/// A metric that is read once a second, with a value around which it swings.
const EACH_SECOND: [(&str, f64); 34] = [
    ("client.operations.per_s", 5000.0),
    ("client.read.per_s", 3000.0),
    ("client.update.per_s", 2000.0),
    ("client.read.service.mean_ns", 400_000.0),
    ("client.update.service.mean_ns", 900_000.0),
    ("client.read.response.mean_ns", 500_000.0),
    ("client.update.response.mean_ns", 1_100_000.0),
    ("client.in_flight", 8.0),
    ("server.0.up", 1.0),
    ("server.0.ping_us", 150.0),
    ("server.0.reads.operations", 3000.0),
    ("server.0.reads.latency_us", 600_000.0),
    ("server.0.writes.operations", 2000.0),
    ("server.0.writes.latency_us", 1_200_000.0),
    ("server.0.commands.operations", 10.0),
    ("server.0.commands.latency_us", 900.0),
    ("server.0.cache.used_bytes", 450e6),
    ("server.0.cache.dirty_bytes", 60e6),
    ("server.0.cache.most_bytes", 1e9),
    ("server.0.wait.page_read_us", 200_000.0),
    ("server.0.wait.evict_us", 20_000.0),
    ("server.0.journal.sync_us", 90_000.0),
    ("server.0.journal.written_bytes", 4e6),
    ("server.0.engine.written_bytes", 12e6),
    ("server.0.tickets.read.out", 6.0),
    ("server.0.tickets.write.out", 3.0),
    ("host.cpu.user_pct", 30.0),
    ("host.cpu.system_pct", 12.0),
    ("host.cpu.iowait_pct", 5.0),
    ("host.pressure.io.some_us", 80_000.0),
    ("host.memory.available_bytes", 4e9),
    ("host.memory.dirty_bytes", 90e6),
    ("host.network.received_bytes", 3e6),
    ("host.network.sent_bytes", 8e6),
];

/// The device's readings, per second; its sums are spread over the readings.
const DEVICE: [(&str, f64); 9] = [
    ("device.vda.reads", 1500.0),
    ("device.vda.read_ms", 600.0),
    ("device.vda.writes", 700.0),
    ("device.vda.write_ms", 900.0),
    ("device.vda.flushes", 60.0),
    ("device.vda.flush_ms", 50.0),
    ("device.vda.read_bytes", 40e6),
    ("device.vda.written_bytes", 22e6),
    ("device.vda.in_flight", 4.0),
];

/// A reading of a series: its mean, with a slow swing and, each fifth of a minute, a bump; no chance in it.
fn reading(name: &str, mean: f64, window_ns: (u64, u64)) -> Reading {
    let known = catalog::kind_of(name).unwrap();
    let seconds = window_ns.1 as f64 / 1e9;
    let phase = name.len() as f64;
    let bump = if seconds % 12.0 < 1.5 { 1.4 } else { 1.0 };
    let share = match known.kind {
        catalog::Additivity::Sum => (window_ns.1 - window_ns.0) as f64 / 1e9,
        catalog::Additivity::Gauge => 1.0,
    };
    let value = if mean == 1.0 || mean == 1e9 {
        mean
    } else {
        mean * bump * (1.0 + 0.3 * (seconds * PI / 20.0 + phase).sin())
    };
    Reading::new(name, known.unit, window_ns, value * share)
}

/// Writes a run of so many seconds, with the device read `device_hz` times in each.
pub(crate) fn run(place: &Path, seconds: u64, device_hz: u64) -> PathBuf {
    let mut manifest =
        Manifest::new("ycsb", "0.1.0", ["fathom", "ycsb", "run", "--watch"].map(str::to_owned));
    manifest.started = "2026-11-22T08:00:00Z".to_owned();
    manifest.environment.insert("kernel".to_owned(), "6.18".to_owned());
    let mut run = RunWriter::create(place, manifest).unwrap();
    for second in 0..seconds {
        let window = (second * SECOND_NS, (second + 1) * SECOND_NS);
        let mut batch: Vec<Reading> =
            EACH_SECOND.iter().map(|(name, mean)| reading(name, *mean, window)).collect();
        let running = f64::from(u8::from(second % 60 >= 40 && second % 60 < 50));
        batch.push(Reading::new("server.0.checkpoint.running", "1", window, running));
        for part in 0..device_hz {
            let step = SECOND_NS / device_hz;
            let window = (window.0 + part * step, window.0 + (part + 1) * step);
            batch.extend(DEVICE.iter().map(|(name, mean)| reading(name, *mean, window)));
        }
        run.readings(&batch).unwrap();
    }
    for (name, mean_ns) in
        [("read.service", 400_000), ("read.response", 500_000), ("update.service", 900_000)]
    {
        let mut histogram = Histogram::new();
        for number in 1..=20_000_u64 {
            histogram.record(mean_ns / 4 + mean_ns * number * number / 400_000_000 * 3);
        }
        run.latency(name, (0, seconds * SECOND_NS), &histogram).unwrap();
    }
    run.findings(&findings()).unwrap();
    let folder = run.finish(State::Complete, None).unwrap();
    // Its name is in the page, and has the process in it.
    let named = folder.with_file_name("20261122T080000Z-ycsb-1");
    std::fs::rename(&folder, &named).unwrap();
    named
}

fn findings() -> Vec<Finding> {
    let mut full = Finding::new(
        "queue.device",
        Severity::Warning,
        "The device's queue is full while a checkpoint runs.",
    )
    .confidence(Confidence::Likely);
    full.evidence = vec!["4.0 requests in flight on average, 5.6 while a checkpoint ran.".to_owned()];
    full.advice = Some("Give the device more requests in flight, or write less at once.".to_owned());
    vec![full, Finding::new("host.swap", Severity::Ok, "Swap is not used.")]
}
