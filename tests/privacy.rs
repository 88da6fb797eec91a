//! No value of a client's query reaches a run folder, its page or any output, whether the query was seen running or in the log.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bson::{Binary, Bson, Document, Regex, doc, spec::BinarySubtype};
use fathom_client::{Connection, Target};
use fathom_testkit::{Fathom, RunningProgram, Scratch, TIMEOUT, assert, assert_eq, test};
use rustix::process::Signal;
use serde_json::Value;

use crate::clients::{WIRED_TIGER, serve, stop};

/// A text and a number that no program may keep, and the text as a binary value in base 64.
const SECRET: &str = "Hunter2Secret";
const SECRET_NUMBER: i64 = 8_675_309_417;
const SECRET_BASE_64: &str = "SHVudGVyMlNlY3JldA";
/// Kinds of commands that must have been seen, or the test would show nothing.
const SEEN: [&str; 7] = ["find", "aggregate", "count", "insert", "update", "delete", "findAndModify"];

fn fathom(arguments: &[&str]) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(arguments)
}

/// Commands with a secret at every position that a client can fill. Some are refused, which the log says with the reason.
fn commands() -> Vec<Document> {
    let regex = Bson::RegularExpression(Regex {
        pattern: SECRET.try_into().unwrap(),
        options: "i".try_into().unwrap(),
    });
    let binary = Binary { subtype: BinarySubtype::Generic, bytes: SECRET.as_bytes().to_vec() };
    // So long that a server cuts it.
    let long: Vec<String> = (0..4000).map(|n| format!("{SECRET}{n}")).collect();
    vec![
        doc! { "find": "orders", "filter": { "user": SECRET, "card": SECRET_NUMBER, "raw": binary }, "comment": SECRET },
        doc! { "find": "orders", "filter": { "user": { "$in": [SECRET, SECRET_NUMBER] }, "$or": [{ "b": { "$gt": SECRET } }] },
        "sort": { "user": 1 }, "projection": { "user": 1 } },
        doc! { "find": "orders", "filter": { "user": regex } },
        doc! { "find": "orders", "filter": { "user": { "$in": long.clone() } } },
        doc! { "find": "orders", "filter": { "user": 1 }, "hint": SECRET },
        doc! { "find": "orders", "filter": { "user": { "$nonsense": SECRET } } },
        doc! { "aggregate": "orders", "cursor": {}, "comment": SECRET, "pipeline": [
            { "$match": { "user": SECRET, "$expr": { "$eq": ["$card", SECRET_NUMBER] } } },
            { "$group": { "_id": { "$concat": [SECRET, "$user"] }, "n": { "$sum": SECRET_NUMBER } } },
            { "$addFields": { "tag": SECRET } },
            { "$project": { "kind": { "$cond": [{ "$eq": ["$user", SECRET] }, SECRET, 0] } } },
        ] },
        doc! { "count": "orders", "query": { "user": { "$not": { "$eq": SECRET } } } },
        doc! { "distinct": "orders", "key": "user", "query": { "user": SECRET } },
        doc! { "insert": "orders", "documents": [{ "user": SECRET, "card": SECRET_NUMBER, SECRET: 1 }] },
        doc! { "insert": "orders", "documents": [{ "user": long }] },
        doc! { "update": "orders", "updates": [{ "q": { "user": SECRET }, "u": { "$set": { "tag": SECRET, SECRET: SECRET_NUMBER } } }] },
        doc! { "update": "orders", "updates": [
            { "q": { "user": SECRET }, "u": { "user": SECRET, SECRET: 1 } },
            { "q": {}, "u": { "$set": { "list.$[one]": SECRET } }, "arrayFilters": [{ "one": SECRET }], "multi": true },
        ] },
        doc! { "delete": "orders", "deletes": [{ "q": { "user": { "$ne": SECRET }, "card": SECRET_NUMBER }, "limit": 1 }] },
        doc! { "findAndModify": "orders", "query": { "user": SECRET }, "update": { "$push": { "list": SECRET } } },
    ]
}

/// Clients that run the commands, each on a connection of its own, until all are answered.
fn clients(target: &Target) -> Vec<JoinHandle<()>> {
    let client = |command: Document| {
        let target = Target { app_name: Some("billing".to_owned()), ..target.clone() };
        thread::spawn(move || {
            let mut connection = Connection::connect(&target).unwrap();
            // Some are refused.
            let _ = connection.run("shop", &command);
        })
    };
    commands().into_iter().map(client).collect()
}

fn run_on_admin(connection: &mut Connection, command: &Document) {
    connection.run("admin", command).unwrap_or_else(|error| panic!("{command}: {error}"));
}

/// Waits until something has happened, while a program watches.
#[track_caller]
fn wait_until(watching: &mut RunningProgram, has_happened: impl Fn(&RunningProgram) -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !has_happened(watching) {
        assert!(
            !watching.has_ended() && Instant::now() < until,
            "{}{}",
            watching.stdout(),
            watching.stderr()
        );
        thread::sleep(Duration::from_millis(50));
    }
}

/// The kinds of operations that the lines of a watching program name.
fn kinds(output: &str) -> BTreeSet<String> {
    let screens = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let operations = screens.flat_map(|screen| screen["operations"].as_array().cloned().unwrap_or_default());
    operations.filter_map(|one| Some(one["kind"].as_str()?.to_owned())).collect()
}

/// The bytes of every file below a folder, with its path.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(files(&entry.path())),
            false => all.push((entry.path().display().to_string(), std::fs::read(entry.path()).unwrap())),
        }
    }
    all
}

/// The only run folder under a folder.
fn only_run(runs: &Path) -> PathBuf {
    let folders: Vec<_> = std::fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders[0].clone()
}

/// The results that the only run under a folder has by now.
fn results(runs: &Path) -> Vec<u8> {
    std::fs::read(only_run(runs).join("results.jsonl")).unwrap()
}

fn has(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

#[track_caller]
fn check(place: &str, bytes: &[u8]) {
    for secret in [SECRET, &SECRET_NUMBER.to_string(), SECRET_BASE_64] {
        assert!(!has(bytes, secret), "{place} has {secret}: {}", String::from_utf8_lossy(bytes));
    }
}

/// Holds a write open, as an idle transaction, until the program that watches has recorded it.
fn watch_a_transaction(watching: &mut RunningProgram, admin: &mut Connection, target: &Target, runs: &Path) {
    let hold = doc! { "configureFailPoint": "holdTransaction", "mode": "alwaysOn", "data": { "appName": "checkout" } };
    run_on_admin(admin, &hold);
    let target = Target { app_name: Some("checkout".to_owned()), ..target.clone() };
    let open = thread::spawn(move || {
        let change = doc! { "q": { "user": 1 }, "u": { "$set": { "tag": SECRET, SECRET: SECRET_NUMBER } } };
        let lsid = doc! { "id": bson::Uuid::from_bytes(*b"Hunter2SecretId!") };
        let command = doc! { "update": "orders", "updates": [change], "lsid": lsid };
        Connection::connect(&target).unwrap().run("shop", &command).unwrap();
    });
    wait_until(watching, |_| has(&results(runs), "\"transactions\""));
    run_on_admin(admin, &doc! { "configureFailPoint": "holdTransaction", "mode": "off" });
    open.join().unwrap();
}

#[test]
fn no_value_of_a_query_is_kept_anywhere() {
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let uri = format!("mongodb://127.0.0.1:{}", server.port());
    let target: Target = uri.parse().unwrap();
    let mut admin = Connection::connect(&target).unwrap();
    admin.run("shop", &doc! { "insert": "orders", "documents": vec![doc! { "user": 1 }; 200] }).unwrap();
    admin.run("shop", &doc! { "profile": 0, "slowms": -1 }).unwrap();
    // All operations wait for an index build that is held, so that each of them is seen running.
    let hold = |mode: &str| doc! { "configureFailPoint": "hangAfterStartingIndexBuild", "mode": mode };
    run_on_admin(&mut admin, &hold("alwaysOn"));
    let build = thread::spawn({
        let target = target.clone();
        move || {
            let partial = doc! { "user": { "$gt": SECRET } };
            let index = doc! { "name": "user_1", "key": { "user": 1 }, "partialFilterExpression": partial };
            let command = doc! { "createIndexes": "orders", "indexes": [index] };
            Connection::connect(&target).unwrap().run("shop", &command).unwrap();
        }
    });
    let until = Instant::now() + TIMEOUT;
    let progress = doc! { "currentOp": 1, "progress": { "$exists": true } };
    while admin.run("admin", &progress).unwrap().get_array("inprog").unwrap().into_iter().next().is_none() {
        assert!(Instant::now() < until, "the build has not begun");
        thread::sleep(Duration::from_millis(5));
    }

    let runs = scratch.path().join("runs");
    let words = ["watch", "--uri", &uri, "--record", "--json", "--for", "600s", "--runs"];
    let mut watching = fathom(&words).arg(&runs).spawn();
    let waiting = clients(&target);
    wait_until(&mut watching, |watching| kinds(&watching.stdout()).len() >= 4);
    run_on_admin(&mut admin, &hold("off"));
    build.join().unwrap();
    waiting.into_iter().for_each(|one| one.join().unwrap());
    // Once more without anything that holds them: the log names what they did, and a running program reads it.
    clients(&target).into_iter().for_each(|one| one.join().unwrap());
    wait_until(&mut watching, |_| has(&results(&runs), "COLLSCAN"));
    watch_a_transaction(&mut watching, &mut admin, &target, &runs);
    watching.signal(Signal::TERM);
    let output = watching.wait().expect_code(0);
    stop(server);

    let folder = only_run(&runs);
    let run = folder.to_str().unwrap();
    let results = results(&runs);
    for word in SEEN.into_iter().chain(["billing", "shop.orders", "COLLSCAN", "lock Collection", "checkout"])
    {
        assert!(has(&results, word), "{word} was not seen: {}", String::from_utf8_lossy(&results));
    }
    check("standard output", output.stdout.as_bytes());
    check("standard error", output.stderr.as_bytes());
    for words in [&["report", run, "--output", "-"][..], &["explain", run], &["explain", run, "--json"]] {
        // How well the server did decides the code.
        let output = fathom(words).run();
        check(&words.join(" "), output.stdout.as_bytes());
        check(&words.join(" "), output.stderr.as_bytes());
        assert!(!output.stdout.is_empty(), "{words:?}: {}", output.stderr);
    }
    files(&folder).iter().for_each(|(path, bytes)| check(path, bytes));
}
