//! A cache that is far smaller than the data.

use std::time::Duration;

use fathom_testkit::{Bytes, Filesystem, RealDisk, SlowDisk, Speed, assert, test};

use super::recorder::{LoadedServer, NO_CACHE, Recorder, UNIFORM_READS, UNIFORM_UPDATES};
use super::study::{FaultStudy, Recording};

const PAGE_READS: FaultStudy =
    FaultStudy { name: "page-reads", record: record_page_reads, check: check_page_reads };

const EVICTION: FaultStudy = FaultStudy { name: "eviction", record: record_eviction, check: check_eviction };

fn record_page_reads(recorder: &mut Recorder) {
    // A page from such a disk takes longer than whatever else the machine does in between.
    let speed = Speed { service: Duration::from_millis(2), parallel: 8 };
    let disk = SlowDisk::new(Filesystem::Xfs, Bytes(2 << 30), speed);
    disk.set_service(Duration::ZERO);
    let loaded = LoadedServer::start("wiredTiger", disk.path(), &NO_CACHE, 60_000);
    disk.set_service(speed.service);
    let words = format!("-threads 8 -target 400 {UNIFORM_READS}");
    recorder.record("run", loaded.watched(loaded.server.port(), 30, &words));
    loaded.stop();
}

fn check_page_reads(recording: &Recording) {
    let diagnosis = recording.diagnosis("run");
    let share = diagnosis.share("reads", "page_read");
    println!("{share:.2} of the mean reads pages");
    assert!(share > 0.2, "{:#?}", diagnosis.document);
    diagnosis.expect_finding("cache-misses-on-path");
}

/// Eviction has one thread, so that operations help it when it falls behind.
const ONE_THREAD: [&str; 2] = [
    "--wiredTigerEngineConfigString",
    "cache_size=12M,direct_io=[data],eviction=(threads_min=1,threads_max=1)",
];

/// Pages that were changed must be written before they make room, and one thread does not keep up.
fn record_eviction(recorder: &mut Recorder) {
    let disk = RealDisk::new(Filesystem::Xfs, Bytes(2 << 30));
    let loaded = LoadedServer::start("wiredTiger", disk.path(), &ONE_THREAD, 60_000);
    let words = format!("-threads 8 -target 1000 {UNIFORM_UPDATES}");
    recorder.record("run", loaded.watched(loaded.server.port(), 30, &words));
    loaded.stop();
    disk.undo().unwrap();
}

fn check_eviction(recording: &Recording) {
    let diagnosis = recording.diagnosis("run");
    let (reads, evicts) = (diagnosis.share("writes", "page_read"), diagnosis.share("writes", "evict"));
    println!("{reads:.2} of the mean reads pages, {evicts:.2} evicts");
    assert!(evicts > 0.02, "{:#?}", diagnosis.document);
    diagnosis.expect_finding("eviction-by-operations");
}

#[test]
fn a_small_cache_shows_as_reads_of_pages() {
    PAGE_READS.check_bundles();
}

#[test]
fn a_small_cache_full_of_changes_shows_as_eviction() {
    EVICTION.check_bundles();
}

mod proof {
    use fathom_testkit::test;

    use super::{EVICTION, PAGE_READS};

    #[test]
    fn a_small_cache_shows_as_reads_of_pages() {
        PAGE_READS.prove();
    }

    #[test]
    fn a_small_cache_full_of_changes_shows_as_eviction() {
        EVICTION.prove();
    }
}
