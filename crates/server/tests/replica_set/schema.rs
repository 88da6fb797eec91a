//! Schema changes on a set: other members have them as soon as their write concern is fulfilled.

use bson::{Document, doc};
use fathom_client::Connection;
use fathom_server::config::EngineName;

use super::set::{Set, until};
use crate::served::{self, run};

/// A member's database `test`: each collection with its indexes.
fn schema(connection: &mut Connection) -> Vec<(String, Vec<String>)> {
    let anywhere = doc! { "mode": "secondaryPreferred" };
    let names = |all: Vec<Document>| all.iter().map(|one| one.get_str("name").unwrap().to_owned()).collect();
    let list = doc! { "listCollections": 1, "$readPreference": anywhere.clone() };
    let mut collections: Vec<String> = names(served::listed(connection, &list));
    collections.sort();
    let mut with_indexes = |collection: String| {
        let list = doc! { "listIndexes": &collection, "$readPreference": anywhere.clone() };
        let indexes = names(served::listed(connection, &list));
        (collection, indexes)
    };
    collections.into_iter().map(&mut with_indexes).collect()
}

/// Their entries were once in the oplog without a notification, until another write came: a write concern was fulfilled before
/// any other member had heard, and an idle set's secondaries followed only with the next noop, up to 10 s later.
#[test]
fn a_change_of_the_schema_is_on_the_other_members_when_its_write_concern_is_fulfilled() {
    let set = Set::start(&[EngineName::Ephemeral; 2]);
    set.initiate(&[doc! {}, doc! { "priority": 0 }]);
    set.primary();
    set.wait_secondary(1);
    let (mut primary, mut secondary) = (set.connect(0), set.connect(1));
    let index = doc! { "key": { "a": 1 }, "name": "a", "expireAfterSeconds": 100 };
    let steps = [
        ("test", doc! { "create": "c" }, "c:_id_"),
        ("test", doc! { "createIndexes": "c", "indexes": [index] }, "c:_id_+a"),
        ("test", doc! { "collMod": "c", "index": { "name": "a", "expireAfterSeconds": 200 } }, "c:_id_+a"),
        ("admin", doc! { "renameCollection": "test.c", "to": "test.d" }, "d:_id_+a"),
        ("test", doc! { "dropIndexes": "d", "index": "a" }, "d:_id_"),
        ("test", doc! { "insert": "d", "documents": [{ "_id": 1 }] }, "d:_id_"),
        (
            "test",
            doc! { "aggregate": "d", "pipeline": [{ "$match": {} }, { "$out": "e" }], "cursor": {} },
            "d:_id_ e:_id_",
        ),
        (
            "test",
            doc! { "aggregate": "d", "pipeline": [{ "$merge": { "into": "g" } }], "cursor": {} },
            "d:_id_ e:_id_ g:_id_",
        ),
        ("test", doc! { "drop": "g" }, "d:_id_ e:_id_"),
        ("test", doc! { "drop": "d" }, "e:_id_"),
        ("test", doc! { "create": "f" }, "e:_id_ f:_id_"),
        ("test", doc! { "dropDatabase": 1 }, ""),
    ];
    for (database, mut command, wanted) in steps {
        command.insert("writeConcern", doc! { "w": 2, "wtimeout": 300_000 });
        let reply = run(&mut primary, database, &command);
        assert!(!reply.contains_key("writeConcernError"), "{command}: {reply}");
        let found = schema(&mut secondary);
        let found: Vec<String> =
            found.iter().map(|(name, indexes)| format!("{name}:{}", indexes.join("+"))).collect();
        assert_eq!(found.join(" "), wanted, "{command}");
        if command.contains_key("collMod") {
            let list = doc! { "listIndexes": "c", "$readPreference": { "mode": "secondary" } };
            let expiry = served::listed(&mut secondary, &list)[1].get_i32("expireAfterSeconds").unwrap();
            assert_eq!(expiry, 200, "{command}");
        }
    }
    set.end();
}

#[test]
fn a_new_primary_drops_what_an_interrupted_out_left_behind() {
    let set = Set::start(&[EngineName::Ephemeral]);
    set.initiate(&[doc! {}]);
    set.primary();
    let mut connection = set.connect(0);
    served::insert(&mut connection, "c", vec![doc! { "_id": 1 }]);
    run(&mut connection, "admin", &doc! { "fsync": 1, "lock": true });
    let mut writer = set.connect(0);
    let out = doc! { "aggregate": "c", "pipeline": [{ "$out": "target" }], "cursor": {} };
    let blocked = std::thread::spawn(move || writer.run("test", &out).is_err());
    until("the temporary collection is there", || (schema(&mut connection).len() == 2).then_some(()));
    run(&mut connection, "admin", &doc! { "replSetStepDown": 3600, "force": true });
    let mut connection = set.connect(0);
    run(&mut connection, "admin", &doc! { "fsyncUnlock": 1 });
    assert!(blocked.join().unwrap(), "$out wrote on a secondary");
    assert_eq!(schema(&mut connection).len(), 2, "a secondary changes nothing by itself");
    run(&mut connection, "admin", &doc! { "replSetFreeze": 0 });
    set.primary();
    assert_eq!(schema(&mut set.connect(0)), [("c".to_owned(), vec!["_id_".to_owned()])]);
    set.end();
}
