//! Creating, changing, listing and dropping collections, views and indexes over the wire, on each engine.

use crate::served::{code, connect, listed, on_each, run};
use bson::{Bson, Document, doc};
use fathom_client::Code;

#[test]
fn collections_are_created_listed_renamed_and_dropped() {
    on_each(|_, connection| {
        run(connection, "test", &doc! { "create": "plain" });
        run(connection, "test", &doc! { "create": "small", "capped": true, "size": 1000, "max": 5 });
        run(connection, "test", &doc! { "insert": "made", "documents": [{ "_id": 1 }] });
        let all = listed(connection, &doc! { "listCollections": 1, "cursor": { "batchSize": 1 } });
        let names: Vec<&str> = all.iter().map(|one| one.get_str("name").unwrap()).collect();
        assert_eq!(names, ["made", "plain", "small"]);
        assert_eq!(all[2].get_document("options").unwrap(), &doc! { "capped": true, "size": 1024, "max": 5 });
        let info = all[0].get_document("info").unwrap();
        assert!(!info.get_bool("readOnly").unwrap());
        assert!(matches!(info.get("uuid"), Some(Bson::Binary(uuid)) if uuid.bytes.len() == 16));
        assert_eq!(
            all[0].get_document("idIndex").unwrap(),
            &doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" }
        );
        let few = doc! { "listCollections": 1, "filter": { "options.capped": true } };
        assert_eq!(listed(connection, &few).len(), 1);
        let names = doc! { "listCollections": 1, "nameOnly": true, "filter": { "name": "made" } };
        assert_eq!(listed(connection, &names), [doc! { "name": "made", "type": "collection" }]);

        let rename = doc! { "renameCollection": "test.made", "to": "test.plain" };
        assert_eq!(code(connection, "admin", &rename), Code::NamespaceExists);
        let replace = doc! { "renameCollection": "test.made", "to": "test.plain", "dropTarget": true };
        run(connection, "admin", &replace);
        assert_eq!(listed(connection, &doc! { "find": "plain" }), [doc! { "_id": 1 }]);
        assert_eq!(listed(connection, &doc! { "find": "made" }), []);
        let elsewhere = doc! { "renameCollection": "test.plain", "to": "other.plain" };
        assert_eq!(code(connection, "admin", &elsewhere), Code::CommandNotSupported);

        let reply = run(connection, "test", &doc! { "drop": "plain" });
        assert_eq!(reply, doc! { "nIndexesWas": 1, "ns": "test.plain", "ok": 1.0 });
        assert_eq!(code(connection, "test", &doc! { "drop": "plain" }), Code::NamespaceNotFound);
    });
}

#[test]
fn databases_are_listed_with_sizes_and_dropped_whole() {
    on_each(|_, connection| {
        for database in ["one", "two"] {
            let insert = doc! { "insert": "c", "documents": [{ "_id": 1, "pad": "x".repeat(10_000) }] };
            run(connection, database, &insert);
        }
        let reply = run(connection, "admin", &doc! { "listDatabases": 1 });
        let databases = reply.get_array("databases").unwrap();
        let names: Vec<&str> =
            databases.iter().map(|one| one.as_document().unwrap().get_str("name").unwrap()).collect();
        assert_eq!(names, ["one", "two"]);
        assert!(databases[0].as_document().unwrap().get_f64("sizeOnDisk").is_ok());
        assert!(reply.get_f64("totalSize").is_ok());
        let filtered = doc! { "listDatabases": 1, "nameOnly": true, "filter": { "name": /* regex */ { "$regex": "^t" } } };
        let reply = run(connection, "admin", &filtered);
        assert_eq!(reply, doc! { "databases": [{ "name": "two" }], "ok": 1.0 });
        assert_eq!(code(connection, "test", &doc! { "listDatabases": 1 }), Code::Unauthorized);

        let reply = run(connection, "one", &doc! { "dropDatabase": 1 });
        assert_eq!(reply, doc! { "dropped": "one", "ok": 1.0 });
        assert_eq!(run(connection, "one", &doc! { "dropDatabase": 1 }), doc! { "ok": 1.0 });
        let reply = run(connection, "admin", &doc! { "listDatabases": 1, "nameOnly": true });
        assert_eq!(reply.get_array("databases").unwrap().len(), 1);
        let other_case = doc! { "insert": "c", "documents": [{ "_id": 1 }] };
        let reply = connection.run("TWO", &other_case);
        let refused = reply.map_or(13297, |reply| {
            let errors = Document::try_from(&*reply).unwrap();
            errors
                .get_array("writeErrors")
                .map_or(0, |errors| errors[0].as_document().unwrap().get_i32("code").unwrap())
        });
        assert_eq!(refused, 13297);
    });
}

#[test]
fn odd_names_and_options_are_refused_in_mongods_codes() {
    on_each(|_, connection| {
        for (command, expected) in [
            (doc! { "create": "" }, Code::InvalidNamespace),
            (doc! { "create": "a$b" }, Code::InvalidNamespace),
            (doc! { "create": ".a" }, Code::InvalidNamespace),
            (doc! { "create": "system.mine" }, Code::InvalidNamespace),
            (doc! { "create": "c", "capped": true }, Code::InvalidOptions),
            (doc! { "create": "c", "size": 100 }, Code::InvalidOptions),
            (doc! { "create": "c", "autoIndexId": false }, Code::InvalidOptions),
            (doc! { "create": "c", "collation": { "locale": "fr" } }, Code::CommandNotSupported),
            (doc! { "create": "c", "storageEngine": { "mmapv1": {} } }, Code::InvalidOptions),
            (doc! { "create": "c", "clusteredIndex": {} }, Code(40415)),
            (doc! { "create": "c", "validator": { "$nope": 1 } }, Code::BadValue),
            (doc! { "create": "c", "validationLevel": "loose" }, Code::BadValue),
            (doc! { "create": "v", "viewOn": "v", "pipeline": [] }, Code::GraphContainsCycle),
            (
                doc! { "create": "v", "viewOn": "c", "pipeline": [{ "$out": "x" }] },
                Code::OptionNotSupportedOnView,
            ),
            (doc! { "create": "v", "pipeline": [] }, Code::InvalidOptions),
            (doc! { "create": "v", "viewOn": "c", "capped": true, "size": 1 }, Code::InvalidOptions),
            (doc! { "listIndexes": "none" }, Code::NamespaceNotFound),
            (doc! { "dropIndexes": "none", "index": "*" }, Code::NamespaceNotFound),
            (doc! { "collMod": "none" }, Code::NamespaceNotFound),
        ] {
            assert_eq!(code(connection, "test", &command), expected, "{command}");
        }
        run(connection, "test", &doc! { "create": "c" });
        assert_eq!(code(connection, "test", &doc! { "create": "c" }), Code::NamespaceExists);
    });
}

#[test]
fn views_are_kept_as_defined_and_refuse_what_collections_take() {
    on_each(|_, connection| {
        run(connection, "test", &doc! { "create": "base" });
        let pipeline = vec![doc! { "$match": { "a": 1 } }];
        run(connection, "test", &doc! { "create": "v", "viewOn": "base", "pipeline": pipeline.clone() });
        run(connection, "test", &doc! { "create": "w", "viewOn": "v", "pipeline": [] });
        let view = &listed(connection, &doc! { "listCollections": 1, "filter": { "name": "v" } })[0];
        assert_eq!(
            view,
            &doc! { "name": "v", "type": "view", "options": { "viewOn": "base", "pipeline": pipeline }, "info": { "readOnly": true } }
        );
        for (command, expected) in [
            (doc! { "listIndexes": "v" }, Code::CommandNotSupportedOnView),
            (
                doc! { "createIndexes": "v", "indexes": [{ "key": { "a": 1 }, "name": "a_1" }] },
                Code::CommandNotSupportedOnView,
            ),
            (doc! { "dropIndexes": "v", "index": "*" }, Code::CommandNotSupportedOnView),
            (doc! { "collMod": "v", "viewOn": "w", "pipeline": [] }, Code::GraphContainsCycle),
            (doc! { "collMod": "v", "validator": {} }, Code::InvalidOptions),
            (doc! { "collMod": "base", "viewOn": "v", "pipeline": [] }, Code::InvalidOptions),
        ] {
            assert_eq!(code(connection, "test", &command), expected, "{command}");
        }
        run(connection, "test", &doc! { "collMod": "v", "viewOn": "other", "pipeline": [] });
        assert_eq!(run(connection, "test", &doc! { "drop": "v" }), doc! { "ns": "test.v", "ok": 1.0 });
    });
}

#[test]
fn indexes_are_built_over_what_is_there_and_listed() {
    on_each(|_, connection| {
        let documents: Vec<Document> = (0..3000)
            .map(|n| doc! { "_id": n, "a": (n * 7919) % 3000, "tags": [n, n + 1], "s": if n % 2 == 0 { Bson::from("even") } else { Bson::Null } })
            .collect();
        run(connection, "test", &doc! { "insert": "c", "documents": documents });
        let reply = run(
            connection,
            "test",
            &doc! { "createIndexes": "c", "indexes": [
                { "key": { "a": 1 }, "name": "a_1", "unique": true },
                { "key": { "tags": 1, "a": -1 }, "name": "tags_1_a_-1", "background": true },
                { "key": { "h": "hashed" }, "name": "h_hashed" },
                { "key": { "s": 1 }, "name": "s_1", "partialFilterExpression": { "a": { "$gte": 2990 } } },
            ] },
        );
        assert_eq!(
            reply,
            doc! { "numIndexesBefore": 1, "numIndexesAfter": 5, "createdCollectionAutomatically": false, "ok": 1.0 }
        );
        let indexes = listed(connection, &doc! { "listIndexes": "c", "cursor": { "batchSize": 2 } });
        assert_eq!(indexes.len(), 5);
        assert_eq!(indexes[1], doc! { "v": 2, "key": { "a": 1 }, "name": "a_1", "unique": true });
        assert!(indexes[2].get_bool("background").unwrap());
        for (filter, expected) in [
            (doc! { "a": 7919 % 3000 }, 1),
            (doc! { "tags": 500 }, 2),
            (doc! { "a": { "$gte": 100, "$lt": 200 } }, 100),
            (doc! { "a": { "$gte": 2995 }, "s": { "$exists": true } }, 5),
        ] {
            let found = listed(connection, &doc! { "find": "c", "filter": filter.clone() });
            assert_eq!(found.len(), expected, "{filter}");
        }
        let again =
            doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1.0 }, "name": "a_1", "unique": 1 }] };
        let reply = run(connection, "test", &again);
        assert_eq!(reply.get_str("note").unwrap(), "all indexes already exist");
        let new = doc! { "createIndexes": "new", "indexes": [{ "key": { "a": 1 }, "name": "a_1" }] };
        assert!(run(connection, "test", &new).get_bool("createdCollectionAutomatically").unwrap());
    });
}

#[test]
fn indexes_that_cannot_be_are_refused_by_name() {
    on_each(|_, connection| {
        run(
            connection,
            "test",
            &doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a_1" }] },
        );
        for (index, expected) in [
            (doc! { "key": { "a": "text" }, "name": "x" }, Code::CannotCreateIndex),
            (doc! { "key": { "a": "2dsphere" }, "name": "x" }, Code::CannotCreateIndex),
            (doc! { "key": { "$**": 1 }, "name": "x" }, Code::CannotCreateIndex),
            (doc! { "key": {}, "name": "x" }, Code::CannotCreateIndex),
            (doc! { "key": { "a": 0 }, "name": "x" }, Code::CannotCreateIndex),
            (doc! { "key": { "b": 1 } }, Code::FailedToParse),
            (doc! { "name": "x" }, Code::FailedToParse),
            (doc! { "key": { "b": 1 }, "name": "*" }, Code::BadValue),
            (doc! { "key": { "b": 1 }, "name": "_id_" }, Code::BadValue),
            (doc! { "key": { "b": 1 }, "name": "" }, Code::CannotCreateIndex),
            (doc! { "key": { "b": 1 }, "name": "x", "v": 3 }, Code::CannotCreateIndex),
            (doc! { "key": { "b": 1 }, "name": "x", "nope": 1 }, Code::InvalidIndexSpecificationOption),
            (
                doc! { "key": { "_id": 1 }, "name": "_id_", "unique": true },
                Code::InvalidIndexSpecificationOption,
            ),
            (doc! { "key": { "b": 1 }, "name": "x", "hidden": true }, Code::CommandNotSupported),
            (
                doc! { "key": { "b": 1 }, "name": "x", "collation": { "locale": "de" } },
                Code::CommandNotSupported,
            ),
            (doc! { "key": { "b": "hashed" }, "name": "x", "unique": true }, Code(16764)),
            (
                doc! { "key": { "b": 1, "c": 1 }, "name": "x", "expireAfterSeconds": 1 },
                Code::CannotCreateIndex,
            ),
            (doc! { "key": { "b": 1 }, "name": "x", "expireAfterSeconds": -1 }, Code::CannotCreateIndex),
            (doc! { "key": { "b": 1 }, "name": "x", "expireAfterSeconds": "1" }, Code::CannotCreateIndex),
            (
                doc! { "key": { "b": 1 }, "name": "x", "partialFilterExpression": { "$or": [{ "a": 1 }, { "b": 1 }] } },
                Code::CannotCreateIndex,
            ),
            (
                doc! { "key": { "b": 1 }, "name": "x", "partialFilterExpression": { "a": 1 }, "sparse": true },
                Code::CannotCreateIndex,
            ),
            (doc! { "key": { "b": 1 }, "name": "a_1" }, Code::IndexKeySpecsConflict),
            (doc! { "key": { "a": 1 }, "name": "a_1", "unique": true }, Code::IndexOptionsConflict),
            (doc! { "key": { "a": 1 }, "name": "other" }, Code::IndexOptionsConflict),
        ] {
            let command = doc! { "createIndexes": "c", "indexes": [index.clone()] };
            assert_eq!(code(connection, "test", &command), expected, "{index}");
        }
        let quorum = doc! { "createIndexes": "c", "indexes": [{ "key": { "b": 1 }, "name": "b_1" }], "commitQuorum": 1 };
        assert_eq!(code(connection, "test", &quorum), Code::BadValue);
        // An index on _id with any name is the existing `_id` index.
        let id = doc! { "createIndexes": "c", "indexes": [{ "key": { "_id": 1 }, "name": "mine" }] };
        assert_eq!(run(connection, "test", &id).get_i32("numIndexesAfter").unwrap(), 2);
        assert_eq!(listed(connection, &doc! { "listIndexes": "c" }).len(), 2);
    });
}

#[test]
fn a_unique_build_over_duplicates_fails_and_leaves_nothing() {
    on_each(|_, connection| {
        run(
            connection,
            "test",
            &doc! { "insert": "c", "documents": [{ "_id": 1, "a": 5 }, { "_id": 2, "a": 5 }] },
        );
        let create = doc! { "createIndexes": "c", "indexes": [
        { "key": { "b": 1 }, "name": "b_1" }, { "key": { "a": 1 }, "name": "a_1", "unique": true } ] };
        let error = connection.run("test", &create).unwrap_err();
        let failure = error.failure().unwrap();
        assert_eq!(failure.code(), Code::DuplicateKey);
        assert!(failure.message().contains("dup key: { a: 5 }"), "{}", failure.message());
        assert_eq!(listed(connection, &doc! { "listIndexes": "c" }).len(), 1);
        run(connection, "test", &doc! { "delete": "c", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] });
        assert_eq!(run(connection, "test", &create).get_i32("numIndexesAfter").unwrap(), 3);
        let again = doc! { "insert": "c", "documents": [{ "_id": 3, "a": 5 }] };
        let reply = run(connection, "test", &again);
        let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().clone();
        assert_eq!(error.get_document("keyPattern").unwrap(), &doc! { "a": 1 });
        assert_eq!(error.get_document("keyValue").unwrap(), &doc! { "a": 5 });
    });
}

#[test]
fn indexes_are_dropped_by_name_key_list_and_star() {
    on_each(|_, connection| {
        let all: Vec<Document> = ["a", "b", "c", "d", "e"]
            .iter()
            .map(|field| doc! { "key": { *field: 1 }, "name": format!("{field}_1") })
            .collect();
        run(connection, "test", &doc! { "createIndexes": "c", "indexes": all });
        let reply = run(connection, "test", &doc! { "dropIndexes": "c", "index": "a_1" });
        assert_eq!(reply, doc! { "nIndexesWas": 6, "ok": 1.0 });
        run(connection, "test", &doc! { "deleteIndexes": "c", "index": { "b": 1 } });
        run(connection, "test", &doc! { "dropIndexes": "c", "index": ["c_1", "d_1"] });
        assert_eq!(
            code(connection, "test", &doc! { "dropIndexes": "c", "index": "_id_" }),
            Code::InvalidOptions
        );
        assert_eq!(
            code(connection, "test", &doc! { "dropIndexes": "c", "index": "a_1" }),
            Code::IndexNotFound
        );
        assert_eq!(
            code(connection, "test", &doc! { "dropIndexes": "c", "index": { "z": 1 } }),
            Code::IndexNotFound
        );
        let reply = run(connection, "test", &doc! { "dropIndexes": "c", "index": "*" });
        assert_eq!(
            reply,
            doc! { "nIndexesWas": 2, "msg": "non-_id indexes dropped for collection", "ok": 1.0 }
        );
        assert_eq!(listed(connection, &doc! { "listIndexes": "c" }).len(), 1);
    });
}

#[test]
fn coll_mod_changes_expiry_and_validator() {
    on_each(|_, connection| {
        let ttl = doc! { "key": { "at": 1 }, "name": "at_1", "expireAfterSeconds": 3600 };
        let plain = doc! { "key": { "b": 1 }, "name": "b_1" };
        run(connection, "test", &doc! { "createIndexes": "c", "indexes": [ttl, plain] });
        let change =
            doc! { "collMod": "c", "index": { "keyPattern": { "at": 1 }, "expireAfterSeconds": 60 } };
        let reply = run(connection, "test", &change);
        assert_eq!(
            reply,
            doc! { "expireAfterSeconds_old": 3600_i64, "expireAfterSeconds_new": 60_i64, "ok": 1.0 }
        );
        let indexes = listed(connection, &doc! { "listIndexes": "c" });
        assert_eq!(indexes[1].get_i32("expireAfterSeconds").unwrap(), 60);
        for (index, expected) in [
            (doc! { "name": "b_1", "expireAfterSeconds": 1 }, Code::InvalidOptions),
            (doc! { "name": "z", "expireAfterSeconds": 1 }, Code::IndexNotFound),
            (doc! { "name": "at_1" }, Code::InvalidOptions),
            (doc! { "expireAfterSeconds": 1 }, Code::InvalidOptions),
            (doc! { "name": "at_1", "hidden": true }, Code::CommandNotSupported),
        ] {
            let command = doc! { "collMod": "c", "index": index };
            assert_eq!(code(connection, "test", &command), expected, "{command}");
        }
        run(connection, "test", &doc! { "collMod": "c", "validator": { "a": { "$gt": 0 } } });
        let insert = doc! { "insert": "c", "documents": [{ "a": -1 }] };
        let reply = run(connection, "test", &insert);
        let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().clone();
        assert_eq!(error.get_i32("code").unwrap(), 121);
        run(connection, "test", &doc! { "collMod": "c", "validationAction": "warn" });
        assert_eq!(run(connection, "test", &insert).get_i32("n").unwrap(), 1);
        let log = run(connection, "admin", &doc! { "getLog": "global" });
        assert!(log.to_string().contains("Document would fail validation"), "{log}");
        run(
            connection,
            "test",
            &doc! { "collMod": "c", "validationAction": "error", "validationLevel": "off" },
        );
        assert_eq!(run(connection, "test", &insert).get_i32("n").unwrap(), 1);
    });
}

#[test]
fn a_build_ends_with_its_time_or_when_it_is_killed_and_leaves_nothing() {
    on_each(|server, connection| {
        let documents: Vec<Document> =
            (0..8000).map(|n| doc! { "_id": n, "a": (0..5).collect::<Vec<i32>>() }).collect();
        run(connection, "test", &doc! { "insert": "c", "documents": documents });
        let indexes: Vec<Document> =
            (0..10).map(|n| doc! { "key": { "a": 1, format!("f{n}"): 1 }, "name": n.to_string() }).collect();
        let mut create = doc! { "createIndexes": "c", "indexes": indexes, "maxTimeMS": 20 };
        assert_eq!(code(connection, "test", &create), Code::MaxTimeMSExpired);
        assert_eq!(listed(connection, &doc! { "listIndexes": "c" }).len(), 1);

        create.remove("maxTimeMS");
        let mut other = connect(server);
        let build = std::thread::spawn(move || other.run("test", &create).unwrap_err());
        let mut killed = false;
        while !killed && !build.is_finished() {
            let current = run(connection, "admin", &doc! { "currentOp": 1, "command.createIndexes": "c" });
            for operation in current.get_array("inprog").unwrap() {
                let number = operation.as_document().unwrap().get("opid").unwrap().clone();
                run(connection, "admin", &doc! { "killOp": 1, "op": number });
                killed = true;
            }
        }
        let error = build.join().unwrap();
        assert_eq!(error.failure().unwrap().code(), Code::Interrupted);
        assert_eq!(listed(connection, &doc! { "listIndexes": "c" }).len(), 1);
        // Reads and writes continue.
        run(connection, "test", &doc! { "insert": "c", "documents": [{ "_id": "new" }] });
    });
}
