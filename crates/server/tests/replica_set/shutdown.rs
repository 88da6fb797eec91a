//! A secondary that is stopped while it applies entries stops cleanly, and its next start applies all of them.

use std::time::Duration;

use bson::doc;
use fathom_server::config::EngineName;

use super::set::{Set, until};
use crate::served::{self, run};

/// The member once took its own shutdown for an entry that cannot be applied, and ended as if its data were damaged.
#[test]
fn a_secondary_that_is_stopped_while_it_builds_an_index_builds_it_after_its_next_start() {
    for engine in [EngineName::WiredTiger, EngineName::RocksDb] {
        let mut set = Set::start(&[engine; 2]);
        // The second does not vote, so that the first leads without it.
        set.initiate(&[doc! {}, doc! { "votes": 0, "priority": 0 }]);
        set.primary();
        set.wait_secondary(1);
        let mut connection = set.connect(0);
        let document = |n| doc! { "_id": n, "d": [n, n + 1, n + 2, n + 3] };
        served::insert(&mut connection, "c", (0..8000).map(document).collect());
        set.wait_equal(0);
        let list = doc! { "listIndexes": "c", "$readPreference": { "mode": "secondaryPreferred" } };
        // The stage of the build at which it is stopped: not yet begun, gathering, writing, done.
        for (indexes, after_ms) in (2..).zip([0, 15, 40, 80, 160]) {
            let field = format!("f{after_ms}");
            served::index(&mut connection, "c", doc! { field: 1, "d": 1 });
            std::thread::sleep(Duration::from_millis(after_ms));
            set.stop(1);
            set.restart(1);
            until("the secondary has the index", || {
                let mut connection = set.try_connect(1).ok()?;
                let found = connection.cursor("test", &list).ok()?;
                (found.count() == indexes).then_some(())
            });
        }
        set.wait_equal(0);
        let validate = run(&mut set.connect(1), "test", &doc! { "validate": "c", "full": true });
        assert!(validate.get_bool("valid").unwrap(), "{validate}");
        set.end();
    }
}

/// A delayed member still has data that was deleted by mistake; stopping it once made it apply everything that it had fetched.
#[test]
fn a_delayed_member_that_is_stopped_applies_nothing_before_its_time() {
    let mut set = Set::start(&[EngineName::WiredTiger; 2]);
    set.initiate(&[doc! {}, doc! { "votes": 0, "priority": 0 }]);
    set.primary();
    set.wait_secondary(1);
    let mut connection = set.connect(0);
    served::insert(&mut connection, "c", vec![doc! { "_id": 1 }]);
    set.wait_equal(0);
    let delay = |set: &Set, seconds: i64| {
        set.reconfigure(0, |config| {
            let members = config.get_array_mut("members").unwrap();
            members[1].as_document_mut().unwrap().insert("slaveDelay", seconds);
        });
    };
    delay(&set, 3600);
    run(&mut connection, "test", &doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] });
    // It fetches the deletion, at the latest together with a later entry, and waits with it.
    let fetched = |set: &Set| {
        let status = run(&mut set.connect(1), "admin", &doc! { "serverStatus": 1 });
        let metrics = status.get_document("metrics").unwrap().get_document("repl").unwrap();
        metrics.get_document("network").unwrap().get_i64("ops").unwrap()
    };
    let before = fetched(&set);
    until("the delayed member has fetched an entry", || {
        served::insert(&mut connection, "other", vec![doc! {}]);
        (fetched(&set) > before).then_some(())
    });
    set.stop(1);
    set.restart(1);
    assert_eq!(set.documents(1), [doc! { "_id": 1 }], "it was deleted before its time");
    delay(&set, 0);
    set.stop(1);
    set.restart(1);
    until("the member deletes it in its time", || set.documents(1).is_empty().then_some(()));
    set.end();
}
