//! mongo-tools against the program: what is dumped and restored is the same, and mongostat sees what happens.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bson::{Bson, Document, RawDocumentBuf, doc};
use fathom_client::{Connection, Target};
use fathom_testkit::{Fathom, LabServer, Output, Scratch, assert, assert_eq, assert_ne, test};

use crate::clients::{ROCKSDB, WIRED_TIGER, client, serve, stop};

/// One of the tools, with the server's port.
fn tool(tools: &Path, name: &str, server: &LabServer) -> Fathom {
    Fathom::new(tools.join(name)).args(["--host", "127.0.0.1", "--port", &server.port().to_string()])
}

fn succeeds(call: Fathom) -> Output {
    let output = call.run();
    assert!(output.code == 0 && !output.stderr.contains("error"), "{output:?}");
    output
}

fn run(connection: &mut Connection, database: &str, command: &Document) -> Document {
    let reply: RawDocumentBuf = connection.run(database, command).unwrap();
    Document::try_from(&*reply).unwrap()
}

fn all(connection: &mut Connection, database: &str, command: &Document) -> Vec<Document> {
    let cursor = connection.cursor(database, command).unwrap();
    cursor.map(|document| Document::try_from(&*document.unwrap()).unwrap()).collect()
}

/// Two databases with all sorts of documents, indexes and collections.
fn fill(connection: &mut Connection) {
    for (database, count) in [("first", 3000), ("second", 50)] {
        let documents: Vec<Document> = (0..count)
            .map(|n| {
                let id = if n % 2 == 0 { Bson::Int32(n) } else { Bson::String(format!("key {n}")) };
                let decimal: bson::Decimal128 = format!("{n}.50").parse().unwrap();
                let date = bson::DateTime::from_millis(1_600_000_000_000 + i64::from(n));
                doc! {
                    "_id": id, "n": n, "long": i64::from(n) << 33, "double": f64::from(n) / 3.0, "decimal": decimal,
                    "date": date, "text": "ünï ".repeat(n as usize % 20), "array": [n, { "deep": [n, null] }],
                    "binary": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0, 255, n as u8] },
                    "flag": n % 3 == 0, "stamp": bson::Timestamp { time: 7, increment: n as u32 },
                }
            })
            .collect();
        run(connection, database, &doc! { "insert": "things", "documents": documents });
        let indexes = [
            doc! { "key": { "n": 1, "date": -1 }, "name": "n and date" },
            doc! { "key": { "long": 1 }, "name": "long_1", "unique": true },
            doc! { "key": { "date": 1 }, "name": "date_1", "expireAfterSeconds": 1_000_000_000 },
            doc! { "key": { "double": 1 }, "name": "double_1", "partialFilterExpression": { "flag": true } },
            doc! { "key": { "text": "hashed" }, "name": "text_hashed" },
            doc! { "key": { "array.deep": 1 }, "name": "array.deep_1", "sparse": true },
        ];
        run(connection, database, &doc! { "createIndexes": "things", "indexes": indexes.to_vec() });
    }
    run(connection, "second", &doc! { "create": "capped", "capped": true, "size": 65_536, "max": 10 });
    let few: Vec<Document> = (0..10).map(|n| doc! { "_id": n }).collect();
    run(connection, "second", &doc! { "insert": "capped", "documents": few });
    run(connection, "second", &doc! { "create": "valid", "validator": { "n": { "$gte": 0 } } });
    run(
        connection,
        "second",
        &doc! { "create": "view", "viewOn": "things", "pipeline": [{ "$match": { "n": 7 } }] },
    );
}

/// Everything in a database that a dump is to carry over: documents, indexes and options by collection.
fn contents(connection: &mut Connection, database: &str) -> BTreeMap<String, Vec<Document>> {
    let mut found = BTreeMap::new();
    for collection in all(connection, database, &doc! { "listCollections": 1 }) {
        let name = collection.get_str("name").unwrap().to_owned();
        let mut options = collection.get_document("options").unwrap().clone();
        options.insert("type", collection.get_str("type").unwrap());
        let mut documents = vec![options];
        if collection.get_str("type").unwrap() == "collection" {
            let mut indexes = all(connection, database, &doc! { "listIndexes": &name });
            indexes.sort_by_key(|index| index.get_str("name").unwrap().to_owned());
            documents.extend(indexes);
        }
        documents.extend(all(connection, database, &doc! { "find": &name, "sort": { "_id": 1 } }));
        found.insert(name, documents);
    }
    found
}

fn both(connection: &mut Connection) -> [BTreeMap<String, Vec<Document>>; 2] {
    ["first", "second"].map(|database| contents(connection, database))
}

fn drop_both(connection: &mut Connection) {
    for database in ["first", "second"] {
        run(connection, database, &doc! { "dropDatabase": 1 });
        assert_eq!(contents(connection, database), BTreeMap::new());
    }
}

fn dump_and_restore(engine: &str) {
    let tools = client("tools");
    let scratch = Scratch::new().unwrap();
    let server = serve(engine, &scratch, &[]);
    let mut connection = server.connect().unwrap();
    fill(&mut connection);
    let before = both(&mut connection);
    assert_eq!(before[0]["things"].len(), 1 + 7 + 3000);
    assert_eq!(before[1].keys().collect::<Vec<_>>(), ["capped", "things", "valid", "view"]);

    let folder = scratch.path().join("dump");
    let archive = scratch.path().join("dump.gz");
    let archive = format!("--archive={}", archive.display());
    succeeds(tool(&tools, "mongodump", &server).arg("--out").arg(&folder));
    succeeds(tool(&tools, "mongodump", &server).args(["--gzip", &archive]));
    drop_both(&mut connection);
    succeeds(tool(&tools, "mongorestore", &server).arg(&folder));
    assert!(both(&mut connection) == before, "the folder's restore differs");
    drop_both(&mut connection);
    succeeds(tool(&tools, "mongorestore", &server).args(["--gzip", &archive]));
    assert!(both(&mut connection) == before, "the archive's restore differs");
    // Once more over what is there, and one collection alone.
    succeeds(tool(&tools, "mongorestore", &server).args(["--drop", "--nsInclude", "first.*"]).arg(&folder));
    assert!(both(&mut connection) == before, "the restore over what is there differs");
    for collection in ["things", "capped"] {
        let valid = run(&mut connection, "second", &doc! { "validate": collection });
        assert!(valid.get_bool("valid").unwrap(), "{valid}");
    }
    stop(server);
}

/// bsondump reads what the server recorded of itself, and what `ftdc scrub` made of a real recording.
#[test]
fn bsondump_reads_recordings() {
    let tools = client("tools");
    let scratch = Scratch::new().unwrap();
    let scrubbed = scratch.path().join("scrubbed");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/recordings/iops-cap/diagnostic.data");
    succeeds(
        Fathom::new(env!("CARGO_BIN_EXE_fathom"))
            .args(["ftdc", "scrub"])
            .arg(&fixture)
            .arg("-o")
            .arg(&scrubbed),
    );
    let db = scratch.path().join("db");
    let server =
        Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(["serve", "--port", "0", "--dbpath"]).arg(&db);
    let running = server.args(["--setParameter", "diagnosticDataCollectionPeriodMillis=100"]).spawn();
    let own = db.join("diagnostic.data");
    for _ in 0..600 {
        if own.join("metrics.interim").exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    running.signal(rustix::process::Signal::TERM);
    running.wait().expect_code(0);
    for folder in [own, scrubbed.join("diagnostic.data"), scrubbed] {
        let files = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
        for file in files.filter(|path| path.is_file()) {
            let output = Fathom::new(tools.join("bsondump")).arg("--quiet").arg(&file).run().expect_code(0);
            let types = |number: u8| {
                output.stdout.matches(&format!("\"type\":{{\"$numberInt\":\"{number}\"}}")).count()
            };
            assert!(types(1) > 0, "{}: {}", file.display(), output.stderr);
        }
    }
}

#[test]
fn dump_and_restore_on_wired_tiger() {
    dump_and_restore(WIRED_TIGER);
}

#[test]
fn dump_and_restore_on_rocksdb() {
    dump_and_restore(ROCKSDB);
}

#[test]
fn users_are_dumped_and_restored() {
    let tools = client("tools");
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &["--auth"]);
    let with_login = |name: &str, user: &str, password: &str| {
        tool(&tools, name, &server).args(["-u", user, "-p", password, "--authenticationDatabase", "admin"])
    };
    let mut connection = server.connect().unwrap();
    run(&mut connection, "admin", &doc! { "createUser": "admin", "pwd": "secret", "roles": ["root"] });
    let target = format!("mongodb://admin:secret@127.0.0.1:{}/?authSource=admin", server.port());
    let mut connection = Connection::connect(&target.parse::<Target>().unwrap()).unwrap();
    run(&mut connection, "first", &doc! { "insert": "things", "documents": [{ "_id": 1 }] });
    run(
        &mut connection,
        "admin",
        &doc! { "createUser": "other", "pwd": "word", "roles": ["readAnyDatabase", "backup"] },
    );
    let refused = tool(&tools, "mongodump", &server).arg("--out").arg(scratch.path().join("refused")).run();
    assert_ne!(refused.code, 0, "{refused:?}");

    let folder = scratch.path().join("dump");
    succeeds(with_login("mongodump", "admin", "secret").arg("--out").arg(&folder));
    run(&mut connection, "admin", &doc! { "dropUser": "other" });
    run(&mut connection, "first", &doc! { "dropDatabase": 1 });
    succeeds(with_login("mongorestore", "admin", "secret").arg(&folder));
    // The user is there again, with the old password.
    succeeds(
        with_login("mongodump", "other", "word")
            .args(["--db", "first", "--out"])
            .arg(scratch.path().join("again")),
    );
    assert_eq!(all(&mut connection, "first", &doc! { "find": "things" }), [doc! { "_id": 1 }]);
    stop(server);
}

#[test]
fn export_and_import() {
    let tools = client("tools");
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let mut connection = server.connect().unwrap();
    fill(&mut connection);
    let file = scratch.path().join("things.json");
    let from = ["--db", "first", "--collection", "things", "--jsonFormat", "canonical", "--sort", "{_id: 1}"];
    succeeds(tool(&tools, "mongoexport", &server).args(from).arg("--out").arg(&file));
    succeeds(
        tool(&tools, "mongoimport", &server)
            .args(["--db", "first", "--collection", "copy", "--file"])
            .arg(&file),
    );
    let find = |of: &str| doc! { "find": of, "sort": { "_id": 1 } };
    let copy = all(&mut connection, "first", &find("copy"));
    assert!(copy.len() == 3000 && copy == all(&mut connection, "first", &find("things")), "the copy differs");

    let file = scratch.path().join("things.csv");
    let from = ["--db", "second", "--collection", "things", "--type", "csv", "--fields", "n,text"];
    succeeds(
        tool(&tools, "mongoexport", &server)
            .args(from)
            .args(["--query", "{\"n\": {\"$lt\": 5}}", "--out"])
            .arg(&file),
    );
    let into = ["--db", "second", "--collection", "lines", "--type", "csv", "--headerline", "--file"];
    succeeds(tool(&tools, "mongoimport", &server).args(into).arg(&file));
    assert_eq!(all(&mut connection, "second", &find("lines")).len(), 5);
    stop(server);
}

fn watched_under_load(engine: &str) {
    let tools = client("tools");
    let scratch = Scratch::new().unwrap();
    let server = serve(engine, &scratch, &[]);
    let done = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut connection = server.connect().unwrap();
            while !done.load(Ordering::Relaxed) {
                let documents = vec![doc! { "text": "x".repeat(500) }; 10];
                run(&mut connection, "first", &doc! { "insert": "load", "documents": documents });
                run(&mut connection, "first", &doc! { "find": "load", "limit": 1, "singleBatch": true });
            }
        });
        let output =
            tool(&tools, "mongostat", &server).args(["--rowcount", "2", "--json", "--noheaders", "1"]).run();
        done.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        output
    });
    assert_eq!(output.code, 0, "{output:?}");
    let lines: Vec<serde_json::Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{output:?}");
    for line in &lines {
        let row = line.as_object().unwrap().values().next().unwrap();
        let number = |name: &str| -> f64 {
            row[name]
                .as_str()
                .unwrap()
                .trim_matches(['*', '%'])
                .parse()
                .unwrap_or_else(|_| panic!("{name} in {row}"))
        };
        assert!(number("insert") >= 10.0 && number("query") >= 1.0 && number("conn") >= 2.0, "{row}");
        for name in
            ["res", "vsize", "net_in", "net_out", "qrw", "arw", "time", "command", "getmore", "delete"]
        {
            assert!(row[name].as_str().is_some_and(|text| !text.is_empty()), "{name} in {row}");
        }
        if engine == WIRED_TIGER {
            assert!(number("used") > 0.0 && number("dirty") >= 0.0 && number("flushes") >= 0.0, "{row}");
        }
    }
    stop(server);
}

#[test]
fn mongostat_on_wired_tiger() {
    watched_under_load(WIRED_TIGER);
}

#[test]
fn mongostat_on_rocksdb() {
    watched_under_load(ROCKSDB);
}
