//! A server that stops for a moment: it makes the mean of the whole run, and its second is named.

use std::thread;
use std::time::Duration;

use fathom_testkit::{Scratch, assert, test};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::recorder::{LoadedServer, Recorder};
use super::study::{FaultStudy, Recording};

const STALL: FaultStudy = FaultStudy { name: "stall", record: record_stall, check: check_stall };

fn record_stall(recorder: &mut Recorder) {
    let scratch = Scratch::new().unwrap();
    let loaded = LoadedServer::start("wiredTiger", &scratch.path(), &[], 5_000);
    let server = Pid::from_raw(i32::try_from(loaded.server.pid()).unwrap()).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(Duration::from_secs(10));
            kill_process(server, Signal::STOP).unwrap();
            thread::sleep(Duration::from_millis(600));
            kill_process(server, Signal::CONT).unwrap();
        });
        recorder.record("run", loaded.watched(loaded.server.port(), 24, "-threads 8 -target 400"));
    });
    loaded.stop();
}

fn check_stall(recording: &Recording) {
    let diagnosis = recording.diagnosis("run");
    let stalls = diagnosis.expect_finding("stalls");
    diagnosis.expect_held_back_by("stalls");
    println!("{stalls:#}");
    assert!(diagnosis.share("all", "schedule") > 0.5, "{:#?}", diagnosis.document);
    // The finding is of this stop: about 10 s after the client began, whatever the machine did besides.
    let windows = stalls["windows_ns"].as_array().unwrap();
    let at_10_s = |window: &Value| {
        let [begin_s, end_s] = [0, 1].map(|at| window[at].as_f64().unwrap() / 1e9);
        begin_s < 14.0 && end_s > 9.0
    };
    assert!(windows.iter().any(at_10_s), "{stalls:#}");
}

#[test]
fn a_server_that_stands_still_for_a_moment_is_told_from_a_slow_one() {
    STALL.check_bundles();
}

mod proof {
    use fathom_testkit::test;

    use super::STALL;

    #[test]
    fn a_server_that_stands_still_for_a_moment_is_told_from_a_slow_one() {
        STALL.prove();
    }
}
