//! A server that no storage holds back: its process stopped, or its writes locked by `fsync`.

use std::thread;
use std::time::Duration;

use bson::{Document, doc};
use fathom_testkit::{Scratch, assert, assert_eq, test};
use rustix::process::{Pid, Signal, kill_process};

use super::recorder::{LoadedServer, Recorder, UNIFORM_UPDATES};
use super::study::{FaultStudy, Recording};

const PROCESS_STOPPED: FaultStudy =
    FaultStudy { name: "process-stopped", record: record_process_stopped, check: check_process_stopped };

const FSYNC_LOCK: FaultStudy =
    FaultStudy { name: "fsync-lock", record: record_fsync_lock, check: check_fsync_lock };

/// The process is stopped three times for 4 s under a load that is not watched; only the server is watched.
fn record_process_stopped(recorder: &mut Recorder) {
    let scratch = Scratch::new().unwrap();
    let loaded = LoadedServer::start("wiredTiger", &scratch.path(), &[], 5_000);
    let port = loaded.server.port();
    let server = Pid::from_raw(i32::try_from(loaded.server.pid()).unwrap()).unwrap();
    let load = loaded.load(port, 52, "-threads 8 -target 400 --no-record");
    thread::scope(|scope| {
        scope.spawn(move || load.run());
        scope.spawn(move || {
            for _ in 0..3 {
                thread::sleep(Duration::from_secs(10));
                kill_process(server, Signal::STOP).unwrap();
                thread::sleep(Duration::from_secs(4));
                kill_process(server, Signal::CONT).unwrap();
            }
        });
        recorder.record("run", loaded.explained(48));
    });
    loaded.stop();
}

fn check_process_stopped(recording: &Recording) {
    let diagnosis = recording.diagnosis("run");
    let finding = diagnosis.expect_finding("server-stood-still");
    assert!(finding["claim"].as_str().unwrap().contains("3 times"), "{finding:#}");
    let windows = finding["windows_ns"].as_array().unwrap();
    let lengths_s =
        windows.iter().map(|window| (window[1].as_f64().unwrap() - window[0].as_f64().unwrap()) / 1e9);
    let lengths_s: Vec<f64> = lengths_s.collect();
    // A reading spans the stop of 4 s and the second that it was due in.
    assert!(
        lengths_s.len() == 3 && lengths_s.iter().all(|length_s| (4.0..6.5).contains(length_s)),
        "{lengths_s:?}"
    );
    diagnosis.expect_held_back_by("server-stood-still");
    assert!(diagnosis.document["verdict"]["cost"]["share"].as_f64().unwrap() >= 0.2, "{finding:#}");
    assert_eq!(diagnosis.document["verdict"]["domain"], "server");
}

/// A backup locks the server for 8 s while clients update at a rate.
fn record_fsync_lock(recorder: &mut Recorder) {
    let scratch = Scratch::new().unwrap();
    let loaded = LoadedServer::start("wiredTiger", &scratch.path(), &[], 5_000);
    thread::scope(|scope| {
        let loaded = &loaded;
        scope.spawn(move || {
            thread::sleep(Duration::from_secs(14));
            let mut connection = loaded.server.connect().unwrap();
            let mut send = |command: Document| connection.run("admin", &command).unwrap();
            send(doc! { "fsync": 1, "lock": true });
            thread::sleep(Duration::from_secs(8));
            send(doc! { "fsyncUnlock": 1 });
        });
        let words = format!("-threads 8 -target 400 {UNIFORM_UPDATES}");
        recorder.record("run", loaded.watched(loaded.server.port(), 40, &words));
    });
    loaded.stop();
}

fn check_fsync_lock(recording: &Recording) {
    let diagnosis = recording.diagnosis("run");
    let finding = diagnosis.expect_finding("fsync-lock");
    assert_eq!(finding["windows_ns"].as_array().unwrap().len(), 1, "{finding:#}");
    diagnosis.expect_held_back_by("fsync-lock");
    // Operations due at a rate wait half of the 8 s on average, and are a fifth of all.
    let cost_s = diagnosis.document["verdict"]["cost"]["mean_us"].as_f64().unwrap() / 1e6;
    assert!((0.4..=1.6).contains(&cost_s), "{:#}", diagnosis.document["verdict"]);
}

#[test]
fn a_process_that_was_stopped_is_told_without_its_clients() {
    PROCESS_STOPPED.check_bundles();
}

#[test]
fn a_server_that_a_backup_locked_is_no_slow_disk() {
    FSYNC_LOCK.check_bundles();
}

mod proof {
    use fathom_testkit::test;

    use super::{FSYNC_LOCK, PROCESS_STOPPED};

    #[test]
    fn a_process_that_was_stopped_is_told_without_its_clients() {
        PROCESS_STOPPED.prove();
    }

    #[test]
    fn a_server_that_a_backup_locked_is_no_slow_disk() {
        FSYNC_LOCK.prove();
    }
}
