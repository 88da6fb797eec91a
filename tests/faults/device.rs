//! Limits and neighbours: a cap of a control group on the device's requests, a short queue, another program on the same device.

use std::thread;
use std::time::Duration;

use fathom_testkit::{
    Bytes, Cap, CapLimits, Fathom, Filesystem, Knob, Need, OrSkip, RealDisk, SlowDisk, Speed, assert,
    assert_eq, test,
};

use rustix::process::Signal;

use super::diagnosis::Diagnosis;
use super::recorder::{LoadedServer, NO_CACHE, Recorder, UNIFORM_READS, UNIFORM_UPDATES, probe};
use super::study::{FaultStudy, PROGRAM, Recording};

const REQUEST_CAP: FaultStudy =
    FaultStudy { name: "request-cap", record: record_request_cap, check: check_request_cap };

const WRITE_CAP: FaultStudy =
    FaultStudy { name: "write-cap", record: record_write_cap, check: check_write_cap };

const NEIGHBOUR: FaultStudy =
    FaultStudy { name: "neighbour", record: record_neighbour, check: check_neighbour };

const SHORT_QUEUE: FaultStudy =
    FaultStudy { name: "short-queue", record: record_short_queue, check: check_short_queue };

fn record_request_cap(recorder: &mut Recorder) {
    let disk = RealDisk::new(Filesystem::Xfs, Bytes(2 << 30));
    let loaded = LoadedServer::start("wiredTiger", disk.path(), &NO_CACHE, 40_000);
    let limits = CapLimits { read_iops: Some(150), ..CapLimits::default() };
    let cap = Cap::new(disk.ledger(), disk.device_number(), limits).or_skip(Need::Cgroup);
    cap.adopt_process(loaded.server.pid()).unwrap();
    let words = format!("-threads 8 {UNIFORM_READS}");
    recorder.record("run", loaded.watched(loaded.server.port(), 30, &words));
    loaded.stop();
    cap.lift().unwrap();
    disk.undo().unwrap();
}

fn check_request_cap(recording: &Recording) {
    let diagnosis = recording.diagnosis("run");
    diagnosis.expect_held_back_by("capped-by-throttle");
    let finding = diagnosis.expect_finding("capped-by-throttle");
    assert!(finding.to_string().contains("150"), "{finding:#?}");
    let layers = diagnosis.layers("reads");
    let most = layers.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    assert_eq!(most.0, "page_read", "{layers:#?}");
    // The wait is in the block layer, above the device, and not in the file system.
    let reads = diagnosis.budget("reads");
    let page_read = reads["layers"].as_array().unwrap().iter().find(|layer| layer["name"] == "page_read");
    let within = page_read.unwrap()["within"].as_array().unwrap();
    let above = within.iter().find(|part| part["name"] == "throttle above it").unwrap();
    assert!(above["mean_us"].as_f64().unwrap() > 0.9 * most.1 * 1000.0, "{within:#?}");
}

/// Journaled updates under a cap that they reach only because the throttle counts flushes too.
fn record_write_cap(recorder: &mut Recorder) {
    let disk = RealDisk::new(Filesystem::Xfs, Bytes(2 << 30));
    let loaded = LoadedServer::start("wiredTiger", disk.path(), &[], 5_000);
    let limits = CapLimits { write_iops: Some(40), ..CapLimits::default() };
    let cap = Cap::new(disk.ledger(), disk.device_number(), limits).or_skip(Need::Cgroup);
    cap.adopt_process(loaded.server.pid()).unwrap();
    let words = format!("-threads 8 -target 200 -p mongodb.writeConcern=journaled {UNIFORM_UPDATES}");
    recorder.record("run", loaded.watched(loaded.server.port(), 40, &words));
    cap.lift().unwrap();
    loaded.stop();
    disk.undo().unwrap();
}

fn check_write_cap(recording: &Recording) {
    let diagnosis = recording.diagnosis("run");
    diagnosis.expect_held_back_by("capped-by-throttle");
    let cost = &diagnosis.document["verdict"]["cost"];
    assert!(cost["share"].as_f64().unwrap() >= 0.8, "{cost:#}");
    // An update waits for a journal that the cap holds back, and its time is in the server's account.
    let server_ms = diagnosis.budget("writes")["server_mean_us"].as_f64().unwrap() / 1000.0;
    let journal_ms = diagnosis.layer_ms("writes", "journal");
    assert!(server_ms > 10.0 && journal_ms >= 0.8 * server_ms, "{:#}", diagnosis.budget("writes"));
}

/// Another program writes to the device of a server whose clients wait for the journal.
fn record_neighbour(recorder: &mut Recorder) {
    // 2,000 requests a second at best, so that the processors have nothing to do with it.
    let speed = Speed { service: Duration::from_millis(4), parallel: 8 };
    let disk = SlowDisk::new(Filesystem::Xfs, Bytes(1 << 30), speed);
    disk.set_service(Duration::ZERO);
    let loaded = LoadedServer::start("wiredTiger", disk.path(), &[], 5_000);
    let words =
        ["--pattern", "randwrite", "--block", "64K", "--depth", "32", "--size", "256M", "--time", "60s"];
    let mut neighbour =
        Fathom::new(PROGRAM).arg("disk").arg("--dir").arg(disk.path()).args(words).arg("--no-record").spawn();
    // It has laid its file out and begins; it prints its measurements at the end.
    assert!(neighbour.wait_for_stdout("Laid out"), "{}", neighbour.stderr());
    disk.set_service(speed.service);
    thread::sleep(Duration::from_secs(5));
    let words = format!("-threads 8 -target 100 -p mongodb.writeConcern=journaled {UNIFORM_UPDATES}");
    recorder.record("run", loaded.watched(loaded.server.port(), 30, &words));
    neighbour.signal(Signal::INT);
    neighbour.wait();
    loaded.stop();
}

fn check_neighbour(recording: &Recording) {
    let diagnosis = recording.diagnosis("run");
    let finding = diagnosis.expect_finding("neighbour-io");
    assert!(finding["evidence"].to_string().contains("by process: "), "{finding:#}");
    assert!(finding["cost"]["share"].as_f64().unwrap() >= 0.2, "{finding:#}");
    diagnosis.expect_held_back_by("neighbour-io");
}

/// Clients that wait for their replies: when the queue has room for each of them, none waits.
const CLIENTS: f64 = 24.0;

fn record_short_queue(recorder: &mut Recorder) {
    // 32 requests side by side, 20 ms each: 1,600 a second at best, 200 where only 4 get through. Slow, so that the processors
    // have nothing to do with it.
    let speed = Speed { service: Duration::from_millis(20), parallel: 32 };
    let disk = SlowDisk::new(Filesystem::Xfs, Bytes(1 << 30), speed);
    disk.set_service(Duration::ZERO);
    let loaded = LoadedServer::start("wiredTiger", disk.path(), &NO_CACHE, 30_000);
    disk.set_service(speed.service);
    recorder.record("probe", probe(disk.path()));
    let queue = format!("/sys/block/{}/queue/nr_requests", disk.device_name());
    let short = Knob::set(queue, "4").unwrap();
    let words = format!("-threads {CLIENTS} {UNIFORM_READS}");
    recorder.record("capped", loaded.watched(loaded.server.port(), 30, &words));
    drop(short);
    recorder.record("lifted", loaded.watched(loaded.server.port(), 30, &words));
    loaded.stop();
}

fn check_short_queue(recording: &Recording) {
    let capped = Diagnosis::with_probe(recording.folder("capped"), recording.folder("probe"));
    let lifted = recording.diagnosis("lifted");
    capped.expect_held_back_by("queue-cap");
    let finding = capped.expect_finding("queue-cap");
    let share = finding["gain"]["share"].as_f64().unwrap_or_else(|| panic!("{finding:#}"));
    assert!(lifted.finding("queue-cap").is_none(), "{:#?}", lifted.document["findings"]);
    // The forecast is of a request with its wait; what an operation asks for changes with what the cache holds by then.
    let options = capped.document["ladders"][0]["forecast"]["options"].as_array().unwrap();
    let enough = options.iter().find(|option| option["cap"].as_f64().unwrap() >= CLIENTS);
    let enough = enough.unwrap_or_else(|| panic!("{:#}", capped.document["ladders"]));
    let forecast_ms = enough["mean_us"].as_f64().unwrap() / 1000.0;
    let (before_ms, seen_ms) = (request_ms(&capped), request_ms(&lifted));
    let flat_from = &capped.document["ladders"][0]["forecast"]["flat_from"];
    println!("the device gives no more from {flat_from} in flight on");
    println!("a request: {before_ms:.1} ms, forecast {forecast_ms:.1} ms, seen {seen_ms:.1} ms");
    let mean = |diagnosis: &Diagnosis| diagnosis.budget("reads")["client_mean_us"].as_f64().unwrap();
    println!("an operation: forecast -{share:.3}, seen -{:.3}", 1.0 - mean(&lifted) / mean(&capped));
    assert!(
        (forecast_ms / seen_ms - 1.0).abs() <= 0.15,
        "forecast {forecast_ms:.1} ms, seen {seen_ms:.1} ms"
    );
}

/// The time of a request of the only watched device, with its wait.
fn request_ms(diagnosis: &Diagnosis) -> f64 {
    let device = diagnosis.document["ladders"][0]["device"].as_str();
    let device = device.unwrap_or_else(|| panic!("{:#}", diagnosis.document["ladders"]));
    let reads = diagnosis.sum(&format!("device.{device}.reads"));
    diagnosis.sum("server.0.wait.page_read_us") / reads / 1000.0
}

#[test]
fn a_cap_on_requests_is_named_with_its_figure() {
    REQUEST_CAP.check_bundles();
}

#[test]
fn a_cap_that_is_reached_by_flushes_is_named_with_what_it_costs() {
    WRITE_CAP.check_bundles();
}

#[test]
fn a_neighbour_on_the_device_is_named_and_not_the_cache() {
    NEIGHBOUR.check_bundles();
}

#[test]
fn a_short_queue_is_named_and_what_lifting_it_brings_is_forecast() {
    SHORT_QUEUE.check_bundles();
}

mod proof {
    use fathom_testkit::test;

    use super::{NEIGHBOUR, REQUEST_CAP, SHORT_QUEUE, WRITE_CAP};

    #[test]
    fn a_cap_that_is_reached_by_flushes_is_named_with_what_it_costs() {
        WRITE_CAP.prove();
    }

    #[test]
    fn a_neighbour_on_the_device_is_named_and_not_the_cache() {
        NEIGHBOUR.prove();
    }

    #[test]
    fn a_cap_on_requests_is_named_with_its_figure() {
        REQUEST_CAP.prove();
    }

    #[test]
    fn a_short_queue_is_named_and_what_lifting_it_brings_is_forecast() {
        SHORT_QUEUE.prove();
    }
}
