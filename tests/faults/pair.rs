//! A server on each engine under the same load, side by side.

use std::fs;

use fathom_testkit::{Bytes, Fathom, Filesystem, RealDisk, Scratch};

use crate::study::{PROGRAM, alone};

#[test]
fn both_engines_stand_side_by_side_with_their_disk() {
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
