//! Checkpoints that come often, with much to write: spikes of their period, which follow when the period changes.
//!
//! Ten checkpoints of each period are the fewest that decide.

use std::thread;
use std::time::Duration;

use fathom_testkit::{Bytes, Filesystem, SlowDisk, Speed, assert, assert_eq, test};

use super::recorder::{LoadedServer, Recorder, UNIFORM_UPDATES};
use super::study::{FaultStudy, Recording};

const SPIKES: FaultStudy =
    FaultStudy { name: "checkpoint-spikes", record: record_spikes, check: check_spikes };

fn record_spikes(recorder: &mut Recorder) {
    // 2,000 requests a second at best: what a checkpoint writes takes it a second, and syncs of the journal wait for it.
    let speed = Speed { service: Duration::from_millis(4), parallel: 8 };
    let disk = SlowDisk::new(Filesystem::Xfs, Bytes(2 << 30), speed);
    disk.set_service(Duration::ZERO);
    let loaded = LoadedServer::start("wiredTiger", disk.path(), &["--syncdelay", "10"], 60_000);
    disk.set_service(speed.service);
    let words = format!("-threads 8 -target 300 {UNIFORM_UPDATES} -p mongodb.writeConcern=journaled");
    thread::scope(|scope| {
        let loaded = &loaded;
        scope.spawn(move || {
            thread::sleep(Duration::from_secs(105));
            loaded.set_syncdelay(13);
        });
        recorder.record("run", loaded.watched(loaded.server.port(), 235, &words));
    });
    loaded.stop();
}

fn check_spikes(recording: &Recording) {
    let diagnosis = recording.diagnosis("run");
    let finding = diagnosis.expect_finding("checkpoint-spikes");
    println!("{finding:#}");
    let text = finding.to_string();
    assert!(text.contains("WiredTiger") || text.contains("wiredTiger"), "{text}");
    assert_eq!(finding["confidence"], "certain", "{text}");
}

#[test]
fn checkpoints_make_the_spikes_and_their_period_follows_syncdelay() {
    SPIKES.check_bundles();
}

mod proof {
    use fathom_testkit::test;

    use super::SPIKES;

    #[test]
    fn checkpoints_make_the_spikes_and_their_period_follows_syncdelay() {
        SPIKES.prove();
    }
}
