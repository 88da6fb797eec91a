//! A cache that is far smaller than the data.

use fathom_testkit::{Bytes, Filesystem, RealDisk};

use crate::study::{Study, UNIFORM_READS, UNIFORM_UPDATES, alone};

/// Eviction has one thread, so that operations help it where it falls behind.
const SMALL: [&str; 2] = [
    "--wiredTigerEngineConfigString",
    "cache_size=12M,direct_io=[data],eviction=(threads_min=1,threads_max=1)",
];

#[test]
fn a_small_cache_shows_as_reads_of_pages_and_eviction() {
    let _alone = alone();
    let Some(disk) = RealDisk::new(Filesystem::Xfs, Bytes(2 << 30)).unwrap() else { return };
    let study = Study::start("wiredTiger", disk.path(), &SMALL, 60_000);
    let calm = "-threads 8 -target 1000";
    let judged = study.watched(study.server.port(), 30, &format!("{calm} {UNIFORM_READS}"));
    if judged.is_disturbed() {
        return;
    }
    let share = judged.share("reads", "page_read");
    println!("only reads: {share:.2} of the mean reads pages");
    assert!(share > 0.2, "{:#?}", judged.document);
    assert!(judged.finding("cache-misses-on-path").is_some(), "{:#?}", judged.document["findings"]);

    // Pages that were changed must be written before they make room, and one thread does not keep up.
    let judged = study.watched(study.server.port(), 30, &format!("{calm} {UNIFORM_UPDATES}"));
    if judged.is_disturbed() {
        return;
    }
    let (reads, evicts) = (judged.share("writes", "page_read"), judged.share("writes", "evict"));
    println!("only updates: {reads:.2} of the mean reads pages, {evicts:.2} evicts");
    assert!(reads > 0.1 && evicts > 0.03, "{:#?}", judged.document);
    assert!(judged.finding("eviction-by-operations").is_some(), "{:#?}", judged.document["findings"]);
    study.stop();
    disk.undo().unwrap();
}
