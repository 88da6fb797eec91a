//! Tests the lab server on a full disk: it stops with an error, and all acknowledged writes exist once space is available.
//!
//! A sync that fails is the power cut of `serve_durability`: from the server's side both are calls that return EIO.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use bson::doc;
use fathom_storage::Filesystem;
use fathom_testkit::{LabServer, RealDisk, assert, assert_eq, fill, test};
use fathom_units::Bytes;
use rustix::fs::{FallocateFlags, fallocate};

use crate::proof::serve_durability::{PROGRAM, assert_consistent, assert_loud, run};
use crate::serve_writers::{COLLECTION, Load, Wish, Writers, check, read_back};

/// The usual flags, with small memory and a checkpoint each second, so that a full disk is noticed soon.
const FLAGS: &[&str] =
    &["--wiredTigerCacheSizeGB", "0.25", "--rocksdbCacheSizeGB", "0.25", "--syncdelay", "1"];

#[test]
fn wired_tiger_stops_on_a_full_xfs_and_keeps_everything() {
    fill_under("wiredTiger", Filesystem::Xfs);
}

#[test]
fn rocksdb_stops_on_a_full_xfs_and_keeps_everything() {
    fill_under("rocksdb", Filesystem::Xfs);
}

#[test]
fn wired_tiger_stops_on_a_full_ext4_and_keeps_everything() {
    fill_under("wiredTiger", Filesystem::Ext4);
}

#[test]
fn rocksdb_stops_on_a_full_ext4_and_keeps_everything() {
    fill_under("rocksdb", Filesystem::Ext4);
}

fn fill_under(engine: &str, filesystem: Filesystem) {
    let disk = RealDisk::new(filesystem, Bytes::gib(1));
    // Space for the end of the test, whatever the writers use while the disk is filled: each start makes another journal file of 100 MB.
    let reserve = disk.path().join("reserve");
    let file = fs::File::create_new(&reserve).unwrap();
    fallocate(file, FallocateFlags::empty(), 0, 512 << 20).unwrap();
    let db_path = disk.path().join("db");
    let server = start(engine, &db_path);
    let mut connection = server.connect().unwrap();
    let index = doc! { "key": { "v": 1 }, "name": "v" };
    run(&mut connection, doc! { "createIndexes": COLLECTION, "indexes": [index] });
    let load = Load { writers: 4, wish: Wish::Mixed, documents: i64::MAX, seed: 1 };
    let writers = Writers::start(&server, load, &HashMap::new());
    writers.wait_for(200);
    fill(disk.path()).unwrap();

    let output = server.wait();
    let death = Instant::now();
    let memories = writers.finish();
    assert_loud(&output);
    println!("{engine} on a full {filesystem}: {}", output.stderr.trim());
    // One sentence with an advice, not a page.
    assert!(output.stderr.trim().lines().count() <= 3, "{}", output.stderr);

    // Without space it does not start, reports this and does no harm. Recovery may succeed with the space that it frees itself.
    if let Err(refused) = LabServer::start(PROGRAM, engine, &db_path, FLAGS).map(LabServer::kill) {
        assert_eq!(refused.code, 3, "{refused:?}");
        assert!(refused.stderr.contains("No space left"), "{}", refused.stderr);
        assert!(!refused.stderr.contains("restore"), "{}", refused.stderr);
        println!("{engine} on a full {filesystem}, again: {}", refused.stderr.trim());
    }

    fs::remove_file(disk.path().join("filler")).unwrap();
    fs::remove_file(reserve).unwrap();
    let server = start(engine, &db_path);
    let mut connection = server.connect().unwrap();
    let there = read_back(&mut connection);
    let loss = check(&there, &memories, None, death);
    println!("{engine} on {filesystem}: {} documents, {loss:?}", there.len());
    assert!(loss.promises > 0);
    assert_consistent(&mut connection, there.len());
    // It works as before.
    let writers = Writers::start(&server, load, &there);
    writers.wait_for(50);
    assert!(writers.finish().iter().all(|memory| memory.ended.is_empty()));
    server.stop().expect_code(0);
    disk.undo().unwrap();
}

fn start(engine: &str, db_path: &Path) -> LabServer {
    LabServer::start(PROGRAM, engine, db_path, FLAGS)
        .unwrap_or_else(|output| panic!("{engine} did not start: {output:?}"))
}
