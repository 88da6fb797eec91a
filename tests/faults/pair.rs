//! A server on each engine under the same load, side by side: one after the other, and both at once on a disk each.

use std::thread;

use fathom_testkit::{Bytes, Fathom, Filesystem, RealDisk, assert, assert_eq, test};

use super::recorder::{LoadedServer, Recorder};
use super::study::{FaultStudy, PROGRAM, Recording};

const PAIR: FaultStudy = FaultStudy { name: "pair", record: record_pair, check: check_pair };

const CHECKUP: FaultStudy = FaultStudy { name: "checkup", record: record_checkup, check: check_checkup };

/// The same for both, so slow that one disk's work is not the other's.
const LOAD: &str = "-threads 4 -target 300 -p requestdistribution=uniform -p readproportion=0.5 -p updateproportion=0.5 \
                    -p mongodb.writeConcern=journaled --no-record";

fn record_pair(recorder: &mut Recorder) {
    let disks = ["wiredTiger", "rocksdb"].map(|_| RealDisk::new(Filesystem::Xfs, Bytes(2 << 30)));
    let [first, second] = disks;
    let pair = [("wiredTiger", &first), ("rocksdb", &second)];
    let pair = pair.map(|(engine, disk)| LoadedServer::start(engine, disk.path(), &[], 20_000));
    let uris = pair.each_ref().map(|loaded| format!("mongodb://127.0.0.1:{}", loaded.server.port()));
    thread::scope(|scope| {
        for loaded in &pair {
            scope.spawn(|| loaded.load(loaded.server.port(), 30, LOAD).run().expect_code(0));
        }
        let words = ["--for", "24s", "--namespace", "ycsb.usertable"];
        let explain =
            Fathom::new(PROGRAM).args(["explain", "--uri", &uris[0], "--uri", &uris[1]]).args(words);
        recorder.record("run", explain);
    });
    pair.into_iter().for_each(LoadedServer::stop);
    first.undo().unwrap();
    second.undo().unwrap();
}

fn check_pair(recording: &Recording) {
    let diagnosis = recording.diagnosis("run");
    let rows = diagnosis.document["members"].as_array().unwrap();
    println!("{rows:#?}");
    let engines: Vec<&str> = rows.iter().map(|row| row["engine"].as_str().unwrap()).collect();
    assert_eq!(engines, ["wiredTiger", "rocksdb"]);
    for row in rows {
        let figure = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row:#}"));
        // 300 are due; a machine that is busy with something else does fewer, and none does more.
        let done = figure("operations_per_s") / 300.0;
        assert!((0.4..1.15).contains(&done), "{row:#}");
        // Each update waits for its journal, so that the disk writes for each.
        assert!(figure("device_writes_per_s") > 50.0 && figure("device_write_us") > 0.0, "{row:#}");
        assert!(figure("written_per_operation_bytes") > 500.0, "{row:#}");
        assert!(row.get("shared_devices").is_none(), "a disk each: {row:#}");
    }
}

fn record_checkup(recorder: &mut Recorder) {
    let disk = RealDisk::new(Filesystem::Xfs, Bytes(4 << 30));
    let words = ["checkup", "--quick", "--storageEngine", "both", "--size", "64M", "--json", "--dir"];
    // It keeps the processors busy by itself.
    recorder.record_busy("run", Fathom::new(PROGRAM).args(words).arg(disk.path()));
    disk.undo().unwrap();
}

fn check_checkup(recording: &Recording) {
    let diagnosis = recording.diagnosis("run");
    // Loads that follow one another are not put side by side.
    assert_eq!(diagnosis.document["members"].as_array().unwrap().len(), 0, "{:#}", diagnosis.document);
    let text = Fathom::new(PROGRAM).arg("explain").arg(recording.folder("run")).run().stdout;
    println!("{text}");
    assert!(text.contains(" standalone wiredTiger ") && text.contains(" standalone rocksdb "), "{text}");
    // A command and an address are never wrapped.
    let is_whole = |line: &str| line.trim_start().starts_with("$ ") || line.starts_with("Page: file://");
    let is_narrow = |line: &str| line.chars().count() <= 80 || is_whole(line);
    assert!(text.lines().all(is_narrow), "{text}");
}

#[test]
fn a_pair_of_servers_stands_side_by_side_with_a_disk_each() {
    PAIR.check_bundles();
}

#[test]
fn checkup_shows_both_engines_on_its_disk() {
    CHECKUP.check_bundles();
}

mod proof {
    use fathom_testkit::test;

    use super::{CHECKUP, PAIR};

    #[test]
    fn a_pair_of_servers_stands_side_by_side_with_a_disk_each() {
        PAIR.prove();
    }

    #[test]
    fn checkup_shows_both_engines_on_its_disk() {
        CHECKUP.prove();
    }
}
