//! A server on each engine under the same load, side by side: one after the other, and both at once on a disk each.

use std::fs;
use std::thread;

use fathom_testkit::{Bytes, Fathom, Filesystem, RealDisk, Scratch};

use crate::study::{PROGRAM, Study, alone};

/// The same for both, so slow that one disk's work is not the other's.
const LOAD: &str = "-threads 4 -target 300 -p requestdistribution=uniform -p readproportion=0.5 -p updateproportion=0.5 \
                    -p mongodb.writeConcern=journaled";

#[test]
fn a_pair_of_servers_stands_side_by_side_with_a_disk_each() {
    let _alone = alone();
    let disks = ["wiredTiger", "rocksdb"].map(|_| RealDisk::new(Filesystem::Xfs, Bytes(2 << 30)).unwrap());
    let [Some(first), Some(second)] = disks else { return };
    let pair = [("wiredTiger", &first), ("rocksdb", &second)];
    let pair = pair.map(|(engine, disk)| Study::start(engine, disk.path(), &[], 20_000));
    let uris = pair.each_ref().map(|study| format!("mongodb://127.0.0.1:{}", study.server.port()));
    let explained = thread::scope(|scope| {
        for study in &pair {
            scope.spawn(|| study.unwatched(30, LOAD));
        }
        let words = ["--for", "24s", "--no-record", "--json", "--namespace", "ycsb.usertable"];
        Fathom::new(PROGRAM).args(["explain", "--uri", &uris[0], "--uri", &uris[1]]).args(words).run()
    });
    assert!(explained.code <= 1, "{}\n{}", explained.stdout, explained.stderr);
    let document = explained.json();
    let rows = document["members"].as_array().unwrap();
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
    pair.into_iter().for_each(Study::stop);
    first.undo().unwrap();
    second.undo().unwrap();
}

#[test]
fn checkup_shows_both_engines_on_its_disk() {
    let _alone = alone();
    let Some(disk) = RealDisk::new(Filesystem::Xfs, Bytes(4 << 30)).unwrap() else { return };
    let scratch = Scratch::new().unwrap();
    let runs = scratch.path().join("runs");
    let output = Fathom::new(PROGRAM)
        .args(["checkup", "--quick", "--size", "64M", "--json", "--dir"])
        .arg(disk.path())
        .arg("--runs")
        .arg(&runs)
        .run();
    assert!(output.code <= 1, "{}\n{}", output.stdout, output.stderr);
    let folder = fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    let explained = Fathom::new(PROGRAM).arg("explain").arg(&folder).arg("--json").run();
    assert!(explained.code <= 1, "{}\n{}", explained.stdout, explained.stderr);
    let document = explained.json();
    let members = document["members"].as_array().unwrap();
    println!("{members:#?}");
    assert_eq!(members.len(), 2, "{document:#}");
    let text = Fathom::new(PROGRAM).arg("explain").arg(&folder).run().stdout;
    println!("{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    disk.undo().unwrap();
}
