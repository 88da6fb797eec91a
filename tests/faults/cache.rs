//! A cache that is far smaller than the data.

use std::time::Duration;

use fathom_testkit::{Bytes, Filesystem, RealDisk, SlowDisk, Speed};

use crate::study::{NO_CACHE, Study, UNIFORM_READS, UNIFORM_UPDATES, alone};

/// Eviction has one thread, so that operations help it where it falls behind.
const ONE_THREAD: [&str; 2] = [
    "--wiredTigerEngineConfigString",
    "cache_size=12M,direct_io=[data],eviction=(threads_min=1,threads_max=1)",
];

#[test]
fn a_small_cache_shows_as_reads_of_pages() {
    let _alone = alone();
    // A page from such a disk takes longer than whatever else the machine does in between.
    let speed = Speed { service: Duration::from_millis(2), parallel: 8 };
    let Some(disk) = SlowDisk::new(Filesystem::Xfs, Bytes(2 << 30), speed).unwrap() else { return };
    disk.set_service(Duration::ZERO);
    let study = Study::start("wiredTiger", disk.path(), &NO_CACHE, 60_000);
    disk.set_service(speed.service);
    let words = format!("-threads 8 -target 400 {UNIFORM_READS}");
    let judged = study.watched(study.server.port(), 30, &words);
    if judged.is_disturbed() {
        return;
    }
    let share = judged.share("reads", "page_read");
    println!("{share:.2} of the mean reads pages");
    assert!(share > 0.2, "{:#?}", judged.document);
    assert!(judged.finding("cache-misses-on-path").is_some(), "{:#?}", judged.document);
    study.stop();
}

/// Pages that were changed must be written before they make room, and one thread does not keep up.
#[test]
fn a_small_cache_full_of_changes_shows_as_eviction() {
    let _alone = alone();
    let Some(disk) = RealDisk::new(Filesystem::Xfs, Bytes(2 << 30)).unwrap() else { return };
    let study = Study::start("wiredTiger", disk.path(), &ONE_THREAD, 60_000);
    let words = format!("-threads 8 -target 1000 {UNIFORM_UPDATES}");
    let judged = study.watched(study.server.port(), 30, &words);
    if judged.is_disturbed() {
        return;
    }
    let (reads, evicts) = (judged.share("writes", "page_read"), judged.share("writes", "evict"));
    println!("{reads:.2} of the mean reads pages, {evicts:.2} evicts");
    assert!(evicts > 0.02, "{:#?}", judged.document);
    assert!(judged.finding("eviction-by-operations").is_some(), "{:#?}", judged.document);
    study.stop();
    disk.undo().unwrap();
}
