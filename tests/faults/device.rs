//! Caps: of a control group on the device's requests, and of the device's queue.

use std::time::Duration;

use fathom_testkit::{
    Bytes, Cap, CapLimits, Filesystem, Knob, Need, OrSkip, RealDisk, SlowDisk, Speed, assert, assert_eq, test,
};

use super::diagnosis::Diagnosis;
use super::recorder::{LoadedServer, NO_CACHE, Recorder, UNIFORM_READS, probe};
use super::study::{FaultStudy, Recording};

const REQUEST_CAP: FaultStudy =
    FaultStudy { name: "request-cap", record: record_request_cap, check: check_request_cap };

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
    let finding = diagnosis.expect_finding("capped-by-throttle");
    assert!(finding.to_string().contains("150"), "{finding:#?}");
    let layers = diagnosis.layers("reads");
    let most = layers.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    assert_eq!(most.0, "page_read", "{layers:#?}");
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

/// What a request of the only watched device takes with its wait.
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
fn a_short_queue_is_named_and_what_lifting_it_brings_is_forecast() {
    SHORT_QUEUE.check_bundles();
}

mod proof {
    use fathom_testkit::test;

    use super::{REQUEST_CAP, SHORT_QUEUE};

    #[test]
    fn a_cap_on_requests_is_named_with_its_figure() {
        REQUEST_CAP.prove();
    }

    #[test]
    fn a_short_queue_is_named_and_what_lifting_it_brings_is_forecast() {
        SHORT_QUEUE.prove();
    }
}
