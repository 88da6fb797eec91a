//! Another program's work on the processors: the disk must not be blamed.

use std::process::{Child, Command, Stdio};

use fathom_testkit::{Bytes, Filesystem, RealDisk, assert, assert_eq, test};

use super::recorder::{LoadedServer, Recorder};
use super::study::{FaultStudy, Recording};

const BUSY_PROCESSORS: FaultStudy =
    FaultStudy { name: "busy-processors", record: record_busy_processors, check: check_busy_processors };

/// Programs that only burn time, killed at the end.
struct Hogs(Vec<Child>);

impl Hogs {
    fn start(count: usize) -> Hogs {
        let one = || {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).stdout(Stdio::null());
            command.spawn().expect("a shell")
        };
        Hogs((0..count).map(|_| one()).collect())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

fn record_busy_processors(recorder: &mut Recorder) {
    let disk = RealDisk::new(Filesystem::Xfs, Bytes(2 << 30));
    let loaded = LoadedServer::start("wiredTiger", disk.path(), &[], 10_000);
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let hogs = Hogs::start(3 * processors);
    // The scheduler serves threads that seldom run at once: of 500 operations a second few wait.
    let words = "-threads 8 -target 2000 -p readproportion=0.5 -p updateproportion=0.5";
    recorder.record_busy("run", loaded.watched(loaded.server.port(), 20, words));
    drop(hogs);
    loaded.stop();
    disk.undo().unwrap();
}

fn check_busy_processors(recording: &Recording) {
    let diagnosis = recording.diagnosis("run");
    assert_eq!(diagnosis.expect_finding("processor-is-short")["severity"], "warning");
    // The scheduler may keep the client's threads waiting so long that most of the response time is the wait to be sent. No rule charges that to the
    // processors, and the verdict is open then; its reasons are the same.
    let verdict = &diagnosis.document["verdict"];
    if verdict["outcome"] == "cannot_tell" {
        assert!(verdict["reasons"].to_string().contains("competed for the host's"), "{verdict:#}");
    } else {
        diagnosis.expect_held_back_by("processor-is-short");
    }
    for id in ["device-saturated", "queue-cap", "looks-capped", "journal-on-path", "cache-misses-on-path"] {
        let alarm = diagnosis.alarms().contains(&id);
        assert!(!alarm, "{id} is claimed all the same: {:#?}", diagnosis.document["findings"]);
    }
}

#[test]
fn a_processor_hog_withholds_the_verdict_on_the_disk() {
    BUSY_PROCESSORS.check_bundles();
}

mod proof {
    use fathom_testkit::test;

    use super::BUSY_PROCESSORS;

    #[test]
    fn a_processor_hog_withholds_the_verdict_on_the_disk() {
        BUSY_PROCESSORS.prove();
    }
}
