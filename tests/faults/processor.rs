//! Somebody else's work on the processors: the disk must not be blamed.

use std::process::{Child, Command, Stdio};

use fathom_testkit::{Bytes, Filesystem, RealDisk};

use crate::study::{Study, alone};

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

#[test]
fn a_processor_hog_withholds_the_verdict_on_the_disk() {
    let _alone = alone();
    let Some(disk) = RealDisk::new(Filesystem::Xfs, Bytes(2 << 30)).unwrap() else { return };
    let study = Study::start("wiredTiger", disk.path(), &[], 10_000);
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let hogs = Hogs::start(3 * processors);
    let words = "-threads 8 -target 500 -p readproportion=0.5 -p updateproportion=0.5";
    let judged = study.watched_once(study.server.port(), 20, words);
    drop(hogs);
    let named = judged.finding("processor-is-short");
    let named = named.unwrap_or_else(|| panic!("{:#?}", judged.document));
    assert_eq!(named["severity"], "warning");
    for id in ["device-saturated", "queue-cap", "looks-capped", "journal-on-path", "cache-misses-on-path"] {
        let alarm = judged.alarms().contains(&id);
        assert!(!alarm, "{id} is claimed all the same: {:#?}", judged.document["findings"]);
    }
    study.stop();
    disk.undo().unwrap();
}
