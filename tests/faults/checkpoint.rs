//! Checkpoints that come often, with much to write: spikes of their period, which follow when the period changes.

use std::thread;
use std::time::Duration;

use fathom_testkit::{Bytes, Filesystem, SlowDisk, Speed};

use crate::study::{Study, UNIFORM_UPDATES, alone};

#[test]
fn checkpoints_make_the_spikes_and_their_period_follows_syncdelay() {
    let _alone = alone();
    // 2,000 requests a second at best: what a checkpoint writes takes it a second, and syncs of the journal stand behind it.
    let speed = Speed { service: Duration::from_millis(4), parallel: 8 };
    let Some(disk) = SlowDisk::new(Filesystem::Xfs, Bytes(2 << 30), speed).unwrap() else { return };
    disk.set_service(Duration::ZERO);
    let study = Study::start("wiredTiger", disk.path(), &["--syncdelay", "10"], 60_000);
    disk.set_service(speed.service);
    let port = study.server.port();
    let words = format!("-threads 8 -target 300 {UNIFORM_UPDATES} -p mongodb.writeConcern=journaled");
    let judged = thread::scope(|scope| {
        let study = &study;
        scope.spawn(move || {
            thread::sleep(Duration::from_secs(105));
            study.set_syncdelay(17);
        });
        study.watched_once(port, 260, &words)
    });
    if judged.is_disturbed() {
        return;
    }
    let finding = judged.finding("checkpoint-spikes");
    let finding = finding.unwrap_or_else(|| panic!("{:#?}", judged.document));
    println!("{finding:#}");
    let text = finding.to_string();
    assert!(text.contains("WiredTiger") || text.contains("wiredTiger"), "{text}");
    assert_eq!(finding["confidence"], "certain", "{text}");
    study.stop();
}
