//! Work of other clients, by which the watched load loses or does not: its cause is named, and its cost is what lifting it brings.

use std::thread;
use std::time::Duration;

use fathom_testkit::{Fathom, Scratch, assert, assert_eq};

use super::diagnosis::Diagnosis;
use super::other_clients::{ClientWork, ORDERS, OtherClients, build_index, connect, fill_orders};
use super::recorder::{LoadedServer, Recorder, UNIFORM_READS};
use super::study::{FaultStudy, PROGRAM, Recording};

const SCANS: FaultStudy = FaultStudy { name: "scans", record: record_scans, check: check_scans };
const FEW_SCANS: FaultStudy =
    FaultStudy { name: "few-scans", record: record_few_scans, check: check_no_loss };
const INDEX_BUILDS: FaultStudy =
    FaultStudy { name: "index-builds", record: record_index_builds, check: check_index_builds };
const IDLE_INDEX_BUILD: FaultStudy =
    FaultStudy { name: "idle-index-build", record: record_idle_index_build, check: check_idle_index_build };
const BULK_LOAD_WITH_ROOM: FaultStudy =
    FaultStudy { name: "bulk-load-with-room", record: record_bulk_load_with_room, check: check_no_loss };

/// The length of a recording, and the time in it after which other clients begin: the rest has the load alone.
const RUN_S: u64 = 30;
const BEGIN: Duration = Duration::from_secs(10);
/// The length of the same load without other clients.
const LIFTED_S: u64 = 15;
/// So far, as a part of the truth, may a cost be off.
const MAX_ERROR: f64 = 0.25;
/// The lines of the answer that must hold the decisive fact.
const FIRST_LINES: usize = 10;

/// Keeps a run; [`Recorder::record_busy`] where other clients fill the processors on purpose.
type RecordMethod = fn(&mut Recorder, &str, Fathom);

/// Records the load with `work` from [`BEGIN`] on, and the same load without it.
fn record_work(
    recorder: &mut Recorder,
    loaded: &LoadedServer,
    keep: RecordMethod,
    work: impl FnOnce() + Send,
) {
    let words = format!("-threads 8 -target 300 {UNIFORM_READS}");
    thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(BEGIN);
            work();
        });
        keep(recorder, "run", loaded.watched(loaded.server.port(), RUN_S, &words));
    });
    keep(recorder, "lifted", loaded.watched(loaded.server.port(), LIFTED_S, &words));
}

/// Other clients until a second before the end of the run.
fn others_at_work(loaded: &LoadedServer, application: &str, clients: u32, work: ClientWork, pause: Duration) {
    let others = OtherClients::start(&loaded.server, application, clients, work, pause);
    thread::sleep(Duration::from_secs(RUN_S - 1) - BEGIN);
    println!("{application}: {} operations", others.end());
}

/// The first lines of the answer in words.
pub(super) fn first_lines(recording: &Recording) -> String {
    let text = Fathom::new(PROGRAM).arg("explain").arg(recording.folder("run")).run().stdout;
    text.lines().take(FIRST_LINES).collect::<Vec<_>>().join("\n")
}

/// The mean time of the load's operations from the send on, in microseconds.
fn client_mean_us(diagnosis: &Diagnosis) -> f64 {
    diagnosis.budget("all")["client_mean_us"].as_f64().unwrap()
}

/// Fails unless the cause is named in the first lines with these words, and its cost is that of the lift, or a part of it whose interval has the
/// lift in it. Where clients share their processors with the server, they lose more than the server's time shows.
#[track_caller]
fn expect_cost_of_lift(recording: &Recording, cause: &str, words: &[&str]) {
    let (run, lifted) = (recording.diagnosis("run"), recording.diagnosis("lifted"));
    run.expect_held_back_by(cause);
    let lines = first_lines(recording);
    let truth = 1.0 - client_mean_us(&lifted) / client_mean_us(&run);
    let cost = &run.document["verdict"]["cost"];
    let (share, most) = (cost["share"].as_f64().unwrap(), cost["interval"][1].as_f64().unwrap());
    println!("{cause}: claimed {share:.2}, lifting it brings {truth:.2}\n{lines}");
    // Lines are wrapped anywhere between words.
    let text = lines.split_whitespace().collect::<Vec<_>>().join(" ");
    let missing: Vec<_> = words.iter().filter(|word| !text.contains(**word)).collect();
    assert!(missing.is_empty(), "{missing:?} is not in the first lines:\n{lines}");
    let is_near = (share / truth - 1.0).abs() <= MAX_ERROR;
    let is_bound = share <= truth && truth <= most;
    assert!(is_near || is_bound, "claimed {share:.2} of {truth:.2}: {cost:#}");
}

/// Fails unless nothing is said to hold the load back.
fn check_no_loss(recording: &Recording) {
    let run = recording.diagnosis("run");
    println!("{}", first_lines(recording));
    assert_eq!(run.document["verdict"]["outcome"], "not_held_back", "{:#}", run.document["verdict"]);
}

/// Three clients whose queries no index serves fill the processors next to point reads of another collection.
fn record_scans(recorder: &mut Recorder) {
    let scratch = Scratch::new().unwrap();
    let loaded = LoadedServer::start("wiredTiger", &scratch.path(), &[], 10_000);
    fill_orders(&loaded.server, 50_000);
    record_work(recorder, &loaded, Recorder::record_busy, || {
        others_at_work(&loaded, "reporting", 3, ClientWork::Scan, Duration::ZERO);
    });
    loaded.stop();
}

fn check_scans(recording: &Recording) {
    expect_cost_of_lift(recording, "collection-scan", &["shop.orders without an index"]);
    let run = recording.diagnosis("run");
    let finding = run.expect_finding("collection-scan");
    assert!(finding["command"].as_str().unwrap().contains("createIndex"), "{finding:#}");
}

/// A query without an index now and then, over few documents.
fn record_few_scans(recorder: &mut Recorder) {
    let scratch = Scratch::new().unwrap();
    let loaded = LoadedServer::start("wiredTiger", &scratch.path(), &[], 10_000);
    fill_orders(&loaded.server, 2_000);
    record_work(recorder, &loaded, Recorder::record, || {
        others_at_work(&loaded, "reporting", 1, ClientWork::Scan, Duration::from_secs(1));
    });
    loaded.stop();
}

/// Foreground builds of an index on the collection of the load.
fn record_index_builds(recorder: &mut Recorder) {
    let scratch = Scratch::new().unwrap();
    let loaded = LoadedServer::start("wiredTiger", &scratch.path(), &[], 60_000);
    record_work(recorder, &loaded, Recorder::record, || {
        let mut connection = connect(&loaded.server, "administration");
        for _ in 0..2 {
            build_index(&mut connection, ("ycsb", "usertable"), "field0");
            thread::sleep(Duration::from_secs(5));
        }
    });
    loaded.stop();
}

fn check_index_builds(recording: &Recording) {
    expect_cost_of_lift(recording, "lock-held-by", &["index build", "ycsb.usertable"]);
}

/// A build on a server that has nothing else to do.
fn record_idle_index_build(recorder: &mut Recorder) {
    let scratch = Scratch::new().unwrap();
    let loaded = LoadedServer::start("wiredTiger", &scratch.path(), &[], 1_000);
    fill_orders(&loaded.server, 60_000);
    thread::scope(|scope| {
        let server = &loaded.server;
        scope.spawn(|| {
            thread::sleep(BEGIN);
            build_index(&mut connect(server, "administration"), ORDERS, "rank");
        });
        recorder.record("run", loaded.explained(RUN_S - 6));
    });
    loaded.stop();
}

fn check_idle_index_build(recording: &Recording) {
    let run = recording.diagnosis("run");
    println!("{}", first_lines(recording));
    let verdict = &run.document["verdict"];
    assert!(verdict["outcome"] == "not_examined" || verdict["outcome"] == "not_held_back", "{verdict:#}");
    assert!(verdict["cause"].is_null(), "{verdict:#}");
}

/// An import with pauses, into a cache with room for it.
fn record_bulk_load_with_room(recorder: &mut Recorder) {
    let scratch = Scratch::new().unwrap();
    let loaded = LoadedServer::start("wiredTiger", &scratch.path(), &[], 10_000);
    record_work(recorder, &loaded, Recorder::record, || {
        others_at_work(&loaded, "import", 1, ClientWork::BulkInsert, Duration::from_millis(500));
    });
    loaded.stop();
}

mod proof {
    use fathom_testkit::test;

    use super::{BULK_LOAD_WITH_ROOM, FEW_SCANS, IDLE_INDEX_BUILD, INDEX_BUILDS, SCANS};

    #[test]
    fn scans_that_others_wait_for_are_named_with_their_cost() {
        SCANS.prove();
    }

    #[test]
    fn a_scan_now_and_then_holds_no_other_client_back() {
        FEW_SCANS.prove();
    }

    #[test]
    fn foreground_builds_of_an_index_are_named_with_their_cost() {
        INDEX_BUILDS.prove();
    }

    #[test]
    fn a_build_on_an_idle_server_is_no_cause() {
        IDLE_INDEX_BUILD.prove();
    }

    #[test]
    fn an_import_with_room_holds_no_other_client_back() {
        BULK_LOAD_WITH_ROOM.prove();
    }
}
