//! Elections: primaries change, and majority-committed writes survive.

use bson::doc;
use fathom_client::Code;
use fathom_server::config::EngineName;

use super::set::{Set, files, until};
use crate::served::{self, run};

#[test]
fn when_the_primary_goes_another_takes_over_with_all_that_a_majority_has() {
    for engine in [EngineName::WiredTiger, EngineName::RocksDb] {
        let mut set = Set::of_three(engine);
        let mut id = 0;
        for turn in 0..3 {
            let primary = set.primary();
            let mut connection = set.connect(primary);
            for _ in 0..20 {
                let insert = doc! {
                    "insert": "c", "documents": [{ "_id": id }], "writeConcern": { "w": "majority" },
                };
                let reply = run(&mut connection, "test", &insert);
                assert!(!reply.contains_key("writeConcernError"), "{reply}");
                id += 1;
            }
            drop(connection);
            set.stop(primary);
            // At first the others wait for the election timeout.
            if turn > 0 {
                set.elect(&[(primary + 1) % 3, (primary + 2) % 3]);
            }
            let next = set.primary();
            assert_ne!(next, primary);
            assert_eq!(set.documents(next).len(), usize::try_from(id).unwrap());
            set.restart(primary);
            set.wait_secondary(primary);
            set.wait_equal(next);
        }
        set.end();
    }
}

#[test]
fn a_step_down_hands_over_and_closes_clients() {
    let set = Set::of_three(EngineName::Ephemeral);
    let primary = set.primary();
    for other in 0..3 {
        if other != primary {
            set.wait_secondary(other);
        }
    }
    let mut idle = set.connect(primary);
    run(&mut idle, "admin", &doc! { "ping": 1 });
    let mut connection = set.connect(primary);
    // The reply may come before the connection ends, or not at all.
    let _ = connection.run("admin", &doc! { "replSetStepDown": 3600, "secondaryCatchUpPeriodSecs": 300 });
    let next = until("another is primary", || Some(set.primary()).filter(|next| *next != primary));
    assert_ne!(next, primary);
    assert!(idle.run("admin", &doc! { "ping": 1 }).is_err());
    let mut connection = set.connect(primary);
    let failed = served::code(&mut connection, "test", &doc! { "insert": "c", "documents": [{}] });
    assert_eq!(failed, Code::NotWritablePrimary);
    set.end();
}

#[test]
fn a_requested_step_down_does_not_wait_for_the_election_timeout() {
    let set = Set::of_three(EngineName::Ephemeral);
    let primary = set.primary();
    let mut connection = set.connect(primary);
    // The one of the two with the higher priority should follow.
    let heir = (primary + 2) % 3;
    set.reconfigure(primary, |config| {
        config.get_document_mut("settings").unwrap().insert("electionTimeoutMillis", 600_000);
        let members = config.get_array_mut("members").unwrap();
        for place in [primary, heir] {
            members[place].as_document_mut().unwrap().insert("priority", 2);
        }
    });
    (0..3).filter(|other| *other != primary).for_each(|other| set.wait_secondary(other));
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": 3 } };
    run(&mut connection, "test", &insert);
    let _ = connection.run("admin", &doc! { "replSetStepDown": 3600, "secondaryCatchUpPeriodSecs": 300 });
    assert_eq!(until("another is primary", || Some(set.primary()).filter(|next| *next != primary)), heir);
    set.end();
}

#[test]
fn what_only_the_old_primary_had_is_rolled_back_into_files() {
    for engine in [EngineName::WiredTiger, EngineName::RocksDb] {
        let mut set = Set::start(&[engine; 3]);
        set.initiate(&[doc! {}, doc! {}, doc! {}]);
        let primary = set.primary();
        let mut connection = set.connect(primary);
        let common: Vec<_> = (0..50).map(|n| doc! { "_id": n, "v": "common" }).collect();
        let insert = doc! { "insert": "c", "documents": common, "writeConcern": { "w": 3 } };
        run(&mut connection, "test", &insert);
        let others: Vec<usize> = (0..3).filter(|place| *place != primary).collect();
        for other in &others {
            set.stop(*other);
        }
        // No other member receives these.
        let lost = doc! {
            "update": "c",
            "updates": [
                { "q": { "_id": 1 }, "u": { "$set": { "v": "lost" } } },
                { "q": { "_id": 100 }, "u": { "$set": { "v": "lost" } }, "upsert": true },
            ],
        };
        run(&mut connection, "test", &lost);
        run(&mut connection, "test", &doc! { "delete": "c", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] });
        drop(connection);
        set.stop(primary);
        for other in &others {
            set.restart(*other);
        }
        set.elect(&others);
        let next = set.primary();
        let mut connection = set.connect(next);
        let insert = doc! {
            "insert": "c", "documents": [{ "_id": 200, "v": "new" }], "writeConcern": { "w": "majority" },
        };
        run(&mut connection, "test", &insert);
        set.restart(primary);
        set.wait_secondary(primary);
        set.wait_equal(next);
        let all = set.documents(primary);
        assert_eq!(all.len(), 51);
        assert!(all.iter().all(|one| one.get_str("v").unwrap() != "lost"));
        let validate = run(&mut set.connect(primary), "test", &doc! { "validate": "c", "full": true });
        assert!(validate.get_bool("valid").unwrap(), "{validate}");
        let mut lost = Vec::new();
        for file in files(&set.path(primary).join("db/rollback")) {
            let bytes = std::fs::read(file).unwrap();
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                lost.push(bson::Document::from_reader(&mut rest).unwrap());
            }
        }
        lost.sort_by_key(|one| one.get_i32("_id").unwrap());
        assert_eq!(lost, [doc! { "_id": 1, "v": "lost" }, doc! { "_id": 100, "v": "lost" }]);
        set.end();
    }
}
