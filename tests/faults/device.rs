//! Caps: of a control group on the device's requests, and of the device's queue.

use std::fs;
use std::time::Duration;

use fathom_testkit::{Bytes, Cap, CapLimits, Filesystem, RealDisk, SlowDisk, Speed};

use crate::study::{Judged, NO_CACHE, Study, alone};

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
    let words = [
        "-threads",
        "8",
        "-p",
        "requestdistribution=uniform",
        "-p",
        "readproportion=1",
        "-p",
        "updateproportion=0",
    ];
    let judged = study.watched(study.server.port(), 30, &words);
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

#[test]
fn a_short_queue_is_named_and_what_lifting_it_brings_is_forecast() {
    let _alone = alone();
    // 32 requests side by side, 4 ms each: 8,000 a second at best, 1,000 where only 4 get through.
    let speed = Speed { service: Duration::from_millis(4), parallel: 32 };
    let Some(disk) = SlowDisk::new(Filesystem::Xfs, Bytes(1 << 30), speed).unwrap() else { return };
    disk.set_service(Duration::ZERO);
    let study = Study::start("wiredTiger", disk.path(), &NO_CACHE, 30_000);
    disk.set_service(speed.service);
    let knob = format!("/sys/block/{}/queue/nr_requests", disk.device_name());
    let before = fs::read_to_string(&knob).unwrap();
    fs::write(&knob, "4").unwrap();
    let words = [
        "-threads",
        "24",
        "-p",
        "requestdistribution=uniform",
        "-p",
        "readproportion=1",
        "-p",
        "updateproportion=0",
    ];
    let capped = study.watched(study.server.port(), 30, &words);
    let finding = capped.finding("queue-cap");
    let finding = finding.unwrap_or_else(|| panic!("{:#?}", capped.document));
    let share = finding["gain"]["share"].as_f64().unwrap_or_else(|| panic!("{finding:#}"));
    fs::write(&knob, before.trim()).unwrap();
    let lifted = study.watched(study.server.port(), 30, &words);
    assert!(lifted.finding("queue-cap").is_none(), "{:#?}", lifted.document["findings"]);
    let mean = |judged: &Judged| judged.budget("reads")["client_mean_us"].as_f64().unwrap();
    let observed = 1.0 - mean(&lifted) / mean(&capped);
    println!("forecast {share:.3}, observed {observed:.3}, cap of {}", finding["claim"]);
    let (forecast_us, lifted_us) = (mean(&capped) * (1.0 - share), mean(&lifted));
    assert!(
        (forecast_us / lifted_us - 1.0).abs() <= 0.15,
        "forecast {forecast_us:.0} us, seen {lifted_us:.0} us"
    );
    study.stop();
}
