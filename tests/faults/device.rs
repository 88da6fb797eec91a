//! Caps: of a control group on the device's requests, and of the device's queue.

use std::time::Duration;

use fathom_testkit::{Bytes, Cap, CapLimits, Filesystem, Knob, RealDisk, SlowDisk, Speed};

use crate::study::{Judged, NO_CACHE, Study, UNIFORM_READS, alone};

#[test]
fn a_cap_on_requests_is_named_with_its_figure() {
    let _alone = alone();
    let Some(disk) = RealDisk::new(Filesystem::Xfs, Bytes(2 << 30)).unwrap() else { return };
    let study = Study::start("wiredTiger", disk.path(), &NO_CACHE, 40_000);
    let limits = CapLimits { read_iops: Some(150), ..CapLimits::default() };
    let cap = match Cap::new(disk.ledger(), disk.device_number(), limits) {
        Ok(cap) => cap,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    cap.adopt_process(study.server.pid()).unwrap();
    let words = format!("-threads 8 {UNIFORM_READS}");
    let judged = study.watched(study.server.port(), 30, &words);
    if judged.is_disturbed() {
        return;
    }
    let finding = judged.finding("capped-by-throttle");
    let finding = finding.unwrap_or_else(|| panic!("{:#?}", judged.document));
    assert!(finding.to_string().contains("150"), "{finding:#?}");
    let layers = judged.layers("reads");
    let most = layers.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    assert_eq!(most.0, "page_read", "{layers:#?}");
    study.stop();
    cap.lift().unwrap();
    disk.undo().unwrap();
}

/// Clients that wait for their replies: with a place for each of them, none waits for one.
const CLIENTS: f64 = 24.0;

#[test]
fn a_short_queue_is_named_and_what_lifting_it_brings_is_forecast() {
    let _alone = alone();
    // 32 requests side by side, 20 ms each: 1,600 a second at best, 200 where only 4 get through. Slow, so that the processors
    // have nothing to do with it.
    let speed = Speed { service: Duration::from_millis(20), parallel: 32 };
    let Some(disk) = SlowDisk::new(Filesystem::Xfs, Bytes(1 << 30), speed).unwrap() else { return };
    disk.set_service(Duration::ZERO);
    let study = Study::start("wiredTiger", disk.path(), &NO_CACHE, 30_000);
    disk.set_service(speed.service);
    let Some(probe) = study.probed(disk.path()) else { return };
    let queue = format!("/sys/block/{}/queue/nr_requests", disk.device_name());
    let short = Knob::set(queue, "4").unwrap();
    let words = format!("-threads {CLIENTS} {UNIFORM_READS}");
    let capped = study.watched(study.server.port(), 30, &words).with_probe(&probe);
    if capped.is_disturbed() {
        return;
    }
    let finding = capped.finding("queue-cap");
    let finding = finding.unwrap_or_else(|| panic!("{:#?}", capped.document));
    let share = finding["gain"]["share"].as_f64().unwrap_or_else(|| panic!("{finding:#}"));
    drop(short);
    let lifted = study.watched(study.server.port(), 30, &words);
    if lifted.is_disturbed() {
        return;
    }
    assert!(lifted.finding("queue-cap").is_none(), "{:#?}", lifted.document["findings"]);
    // The forecast is of a request with its wait; what an operation asks for changes with what the cache holds by then.
    let options = capped.document["ladders"][0]["forecast"]["options"].as_array().unwrap();
    let enough = options.iter().find(|option| option["cap"].as_f64().unwrap() >= CLIENTS);
    let enough = enough.unwrap_or_else(|| panic!("{:#}", capped.document["ladders"]));
    let forecast_ms = enough["mean_us"].as_f64().unwrap() / 1000.0;
    let reads = format!("device.{}.reads", disk.device_name());
    let per_request_ms =
        |judged: &Judged| judged.sum("server.0.wait.page_read_us") / judged.sum(&reads) / 1000.0;
    let (before_ms, seen_ms) = (per_request_ms(&capped), per_request_ms(&lifted));
    let flat_from = &capped.document["ladders"][0]["forecast"]["flat_from"];
    println!("the device gives no more from {flat_from} in flight on");
    println!("a request: {before_ms:.1} ms, forecast {forecast_ms:.1} ms, seen {seen_ms:.1} ms");
    let mean = |judged: &Judged| judged.budget("reads")["client_mean_us"].as_f64().unwrap();
    println!("an operation: forecast -{share:.3}, seen -{:.3}", 1.0 - mean(&lifted) / mean(&capped));
    assert!(
        (forecast_ms / seen_ms - 1.0).abs() <= 0.15,
        "forecast {forecast_ms:.1} ms, seen {seen_ms:.1} ms"
    );
    study.stop();
}
