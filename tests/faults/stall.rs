//! A server that stops in its tracks for a moment: it makes the mean of the whole run, and its second is named.

use std::thread;
use std::time::Duration;

use fathom_testkit::Scratch;
use rustix::process::{Pid, Signal, kill_process};

use crate::study::{Study, alone};

#[test]
fn a_server_that_stands_still_for_a_moment_is_told_from_a_slow_one() {
    let _alone = alone();
    let scratch = Scratch::new().unwrap();
    let study = Study::start("wiredTiger", &scratch.path(), &[], 5_000);
    let server = Pid::from_raw(i32::try_from(study.server.pid()).unwrap()).unwrap();
    let judged = thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(Duration::from_secs(10));
            kill_process(server, Signal::STOP).unwrap();
            thread::sleep(Duration::from_millis(600));
            kill_process(server, Signal::CONT).unwrap();
        });
        study.watched_once(study.server.port(), 24, "-threads 8 -target 400")
    });
    if judged.is_disturbed() {
        return;
    }
    let stalls = judged.finding("stalls").unwrap_or_else(|| panic!("{:#?}", judged.document));
    println!("{stalls:#}");
    assert!(judged.share("all", "schedule") > 0.5, "{:#?}", judged.document);
    // The finding is of this stop: about 10 s after the client began, whatever the machine did besides.
    let windows = stalls["windows_ns"].as_array().unwrap();
    let at_10_s = |window: &serde_json::Value| {
        let [begin_s, end_s] = [0, 1].map(|at| window[at].as_f64().unwrap() / 1e9);
        begin_s < 14.0 && end_s > 9.0
    };
    assert!(windows.iter().any(at_10_s), "{stalls:#}");
    study.stop();
}
