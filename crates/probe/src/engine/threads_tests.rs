//! Tests of the thread engine on a failing disk: every fault ends the crew with the right kind of error, and none is taken for a
//! measurement.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fathom_errors::{Error, Kind};
use fathom_stats::SeededRandom;
use fathom_units::Bytes;

use super::threads::work;
use crate::clock::now_ns;
use crate::faulty::{DiskFault, FaultyFile};
use crate::shape::{IoEngine, Job, Pattern, WriteSync};
use crate::stamp::{Generations, Stamper};
use crate::tracks::{Track, Tracks};
use crate::worker_context::{StartSchedule, Starter, WorkerContext};

const SIZE: u64 = 1 << 20;

/// More requests than any fault needs.
const MANY: u64 = 1 << 20;

/// Runs a crew on a laid-out disk until it has begun this many requests; returns what it recorded and its error.
fn run(job: &Job, fault: DiskFault, verify: bool, requests: u64) -> (Tracks, Option<Error>) {
    let (tracks, _, error) = run_counted(job, fault, verify, requests);
    (tracks, error)
}

/// As `run`, with the number of verified blocks.
fn run_counted(job: &Job, fault: DiskFault, verify: bool, requests: u64) -> (Tracks, u64, Option<Error>) {
    let stamper = Stamper::new(7, verify);
    let mut bytes = vec![0; SIZE as usize];
    stamper.fill(&mut bytes, 0, 1);
    let file = FaultyFile::new(bytes, fault);
    let generations = verify.then(|| Generations::new(7, SIZE, 1));
    let starter = Starter::default();
    let workers = u64::from(job.depth);
    let seed = SeededRandom::from_seed(11);
    let mut crew =
        WorkerContext::new(job, workers, SIZE, SIZE, seed, &stamper, generations.as_ref(), &starter);
    crew.arrivals = job.rate_per_s.map(|rate| StartSchedule::new(rate, now_ns(), SeededRandom::from_seed(5)));
    let crew = &crew;
    std::thread::scope(|scope| {
        for index in 0..workers {
            let file = &file;
            scope.spawn(move || {
                if let Err(error) = work(file, Path::new("/test"), crew, index) {
                    crew.fail(error);
                }
            });
        }
        starter.start();
        while file.begun() < requests && !starter.stopping() {
            std::thread::sleep(Duration::from_millis(1));
        }
        starter.stop();
        crew.rally.wake();
    });
    let (mut tracks, mut spare) = (Tracks::default(), Tracks::default());
    crew.shards.drain(&mut tracks, &mut spare);
    (tracks, crew.verified.load(Ordering::Relaxed), crew.take_error())
}

fn job(pattern: Pattern) -> Job {
    Job::new(pattern, Bytes::kib(4), IoEngine::Psync, 4)
}

#[test]
fn a_sound_disk_gives_figures_and_no_error() {
    for pattern in [Pattern::RandRead, Pattern::RandWrite, Pattern::RandRw, Pattern::Append] {
        let (tracks, error) = run(&job(pattern), DiskFault::None, true, 400);
        assert!(error.is_none(), "{pattern}: {error:?}");
        assert_eq!(tracks.get(Track::Read).is_empty(), !pattern.reads(), "{pattern}");
        assert_eq!(tracks.get(Track::Write).is_empty(), !pattern.writes(), "{pattern}");
    }
}

#[test]
fn a_checkpoint_syncs_once_a_burst() {
    let job = Job { burst: Bytes::kib(256), ..job(Pattern::Checkpoint) };
    let (tracks, error) = run(&job, DiskFault::None, true, 400);
    assert!(error.is_none(), "{error:?}");
    let (writes, syncs) = (tracks.get(Track::Write).len(), tracks.get(Track::Sync).len());
    assert!(
        syncs > 0 && writes >= 64 * syncs && writes <= 64 * (syncs + 1),
        "{writes} writes, {syncs} syncs"
    );
    assert_eq!(tracks.get(Track::Durable).len(), syncs);
}

#[test]
fn every_fault_has_its_kind() {
    let durable = job(Pattern::RandWrite).durable(WriteSync::Fdatasync);
    let checkpoint = Job { burst: Bytes::kib(64), ..job(Pattern::Checkpoint) };
    for (job, fault, kind, word) in [
        (job(Pattern::RandRead), DiskFault::ReadError(50), Kind::Io, "cannot read"),
        (job(Pattern::RandWrite), DiskFault::Full(50), Kind::NoSpace, "cannot write"),
        (job(Pattern::Append), DiskFault::Full(50), Kind::NoSpace, "cannot write"),
        (durable, DiskFault::SyncError(20), Kind::Io, "cannot fdatasync"),
        (checkpoint, DiskFault::SyncError(2), Kind::Io, "cannot fsync"),
    ] {
        let (tracks, error) = run(&job, fault, false, MANY);
        let error = error.unwrap_or_else(|| panic!("{fault:?} went unseen"));
        assert_eq!(error.kind(), kind, "{fault:?}: {error}");
        assert!(error.to_string().contains(word), "{error}");
        let recorded: u64 = Track::ALL.iter().map(|track| tracks.get(*track).len()).sum();
        assert!(recorded > 0, "what ended before the fault is kept");
    }
}

#[test]
fn damage_is_found_by_verifying_and_only_then() {
    for fault in [DiskFault::LostWrite(40), DiskFault::TornWrite(40), DiskFault::MisplacedWrite(40)] {
        let (_, error) = run(&job(Pattern::RandRw), fault, true, MANY);
        let error = error.unwrap_or_else(|| panic!("{fault:?} went unseen"));
        assert_eq!(error.kind(), Kind::Corruption, "{fault:?}: {error}");
        let (_, error) = run(&job(Pattern::RandRw), fault, false, 400);
        assert!(error.is_none(), "{fault:?}: {error:?}");
    }
}

#[test]
fn a_read_counts_once_it_was_verified() {
    let job = Job::new(Pattern::RandRw, Bytes::kib(4), IoEngine::Psync, 1);
    let (tracks, verified, error) = run_counted(&job, DiskFault::LostWrite(40), true, MANY);
    assert_eq!(error.map(|error| error.kind()), Some(Kind::Corruption));
    assert_eq!(tracks.get(Track::Read).len(), verified, "the damaged read is no measurement");
}

/// Each stall of the machine itself lengthens four service times at most, and more response times.
#[test]
fn a_stall_is_felt_by_all_that_should_have_started_during_it() {
    let stalled = Duration::from_secs(1);
    let job = job(Pattern::RandRead).rate(1_000.0);
    let (tracks, error) = run(&job, DiskFault::Stall(100, stalled), false, 1_400);
    assert!(error.is_none(), "{error:?}");
    let slow = |track| {
        let buckets = tracks.get(track).buckets().filter(|(ns, _)| *ns > 100_000_000);
        buckets.map(|(_, count)| count).sum::<u64>()
    };
    // Four workers can be inside the stall; some 900 requests had their intended start in all but its last 100 ms.
    let (service, response) = (slow(Track::Read), slow(Track::ReadResponse));
    assert!(response >= 800, "{response} response times");
    assert!(service >= 1 && service * 10 <= response, "{service} service times of {response} response times");
}
