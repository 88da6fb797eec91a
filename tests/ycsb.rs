//! Tests `fathom ycsb load`: the records are those that YCSB would have written, read by another client.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bson::spec::BinarySubtype;
use bson::{Bson, Document, RawBsonRef, RawDocumentBuf, doc};
use fathom_client::Connection;
use fathom_testkit::{Fathom, LabServer, Output, Scratch};

use crate::clients::{ROCKSDB, WIRED_TIGER, serve, stop};
use crate::ycsb_faults::wait_until;

/// The keys of facts that were seen in YCSB's own output: number, key, and the key of 20 digits.
const KEYS: [(u64, &str, &str); 5] = [
    (0, "user6284781860667377211", "user06284781860667377211"),
    (1, "user8517097267634966620", "user08517097267634966620"),
    (2, "user1820151046732198393", "user01820151046732198393"),
    (100, "user879817313296471393", "user00879817313296471393"),
    (1000, "user5952875239596136740", "user05952875239596136740"),
];
/// Java's order of ten fields.
const ORDER: [&str; 10] =
    ["field1", "field0", "field7", "field6", "field9", "field8", "field3", "field2", "field5", "field4"];

/// A workload file of the repository.
pub(crate) fn workload(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(name)
}

/// The string for a server and a database; `options` begin with `?`.
pub(crate) fn url(server: &LabServer, database: &str, options: &str) -> String {
    format!("mongodb.url=mongodb://127.0.0.1:{}/{database}{options}", server.port())
}

/// A call of the verb with a workload file and `name=value` pairs; pairs that begin with `-` are flags.
pub(crate) fn ycsb(phase: &str, file: &str, url: &str, words: &[&str]) -> Fathom {
    let mut call = Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["ycsb", phase, "mongodb", "-P"])
        .arg(workload(file))
        .args(["-p", url]);
    for word in words {
        match word.starts_with('-') {
            true => call = call.args(word.split(' ')),
            false => call = call.args(["-p", word]),
        }
    }
    call
}

/// A report, as rows of metric, measurement and value.
#[derive(Debug)]
pub(crate) struct Report(BTreeMap<(String, String), String>);

impl Report {
    /// Reads the lines that wrappers read: `[METRIC], measurement, value`.
    pub(crate) fn from_text(text: &str) -> Report {
        let line = |line: &str| {
            let (metric, rest) = line.strip_prefix('[')?.split_once("], ")?;
            let (measurement, value) = rest.split_once(", ")?;
            Some(((metric.to_owned(), measurement.to_owned()), value.to_owned()))
        };
        Report(text.lines().filter_map(line).collect())
    }

    pub(crate) fn get(&self, metric: &str, measurement: &str) -> Option<&str> {
        self.0.get(&(metric.to_owned(), measurement.to_owned())).map(String::as_str)
    }

    #[track_caller]
    pub(crate) fn number(&self, metric: &str, measurement: &str) -> f64 {
        let value = self.get(metric, measurement);
        value.unwrap_or_else(|| panic!("no [{metric}], {measurement} in {self:?}")).parse().unwrap()
    }

    /// The number of operations with this status; 0 if the report lacks it.
    pub(crate) fn returned(&self, metric: &str, status: &str) -> u64 {
        self.get(metric, &format!("Return={status}")).map_or(0, |count| count.parse().unwrap())
    }

    /// All `Return=` lines of the operations themselves.
    pub(crate) fn all_returned(&self) -> u64 {
        let returns = self.0.iter().filter(|((_, measurement), _)| measurement.starts_with("Return="));
        returns.filter(|((metric, _), _)| metric != "VERIFY").map(|(_, n)| n.parse::<u64>().unwrap()).sum()
    }
}

pub(crate) fn report(output: &Output) -> Report {
    Report::from_text(&output.stdout)
}

/// The first complaint of a run. Those that a busy machine causes are left out: the client pauses between operations, or takes long itself.
pub(crate) fn complaint(output: &Output) -> Option<&str> {
    const OF_THE_MACHINE: [&str; 2] = ["Little's law", "client-limited"];
    let mut complaints = output.stderr.lines().filter(|line| line.starts_with("fathom: "));
    complaints.find(|line| !OF_THE_MACHINE.iter().any(|words| line.contains(words)))
}

/// All documents of a table, by their keys.
pub(crate) fn table(
    connection: &mut Connection,
    database: &str,
    table: &str,
) -> BTreeMap<String, RawDocumentBuf> {
    let found = connection.cursor(database, &doc! { "find": table }).unwrap().map(Result::unwrap);
    found.map(|document| (document.get_str("_id").unwrap().to_owned(), document)).collect()
}

/// FNV-1a over the number's bytes, lowest first; a second implementation, so that one error does not hide another.
pub(crate) fn key(number: u64) -> String {
    let mut hash = 14_695_981_039_346_656_037_u128;
    for place in 0..8 {
        hash = ((hash ^ u128::from(number >> (8 * place) & 0xff)) * 1_099_511_628_211) % (1 << 64);
    }
    let hash = hash as u64;
    format!("user{}", if hash >> 63 == 1 { hash.wrapping_neg() } else { hash })
}

#[test]
fn the_worked_keys_are_those_of_this_test_too() {
    KEYS.iter().for_each(|(number, hashed, _)| assert_eq!(key(*number), *hashed));
}

#[track_caller]
fn assert_record(document: &RawDocumentBuf) {
    let names: Vec<&str> = document.iter().map(|pair| pair.unwrap().0.as_str()).collect();
    assert_eq!(names[0], "_id");
    assert_eq!(names[1..], ORDER);
    for pair in document.iter().skip(1) {
        let RawBsonRef::Binary(value) = pair.unwrap().1 else { panic!("{document:?}") };
        assert_eq!((value.subtype, value.bytes.len()), (BinarySubtype::Generic, 100));
        assert!(value.bytes.iter().all(|byte| (32..128).contains(byte)));
    }
    let digits = document.get_str("_id").unwrap().len() - "user".len();
    assert_eq!(document.as_bytes().len(), 1168 - 19 + digits);
}

#[test]
fn a_load_on_both_engines_has_the_keys_and_documents_of_ycsb() {
    for engine in [WIRED_TIGER, ROCKSDB] {
        let scratch = Scratch::new().unwrap();
        let server = serve(engine, &scratch, &[]);
        let words = ["recordcount=1001", "-threads 7", "--no-record"];
        let output = ycsb("load", "workloada", &url(&server, "y", ""), &words).run().expect_code(0);
        let report = report(&output);
        assert_eq!((report.returned("INSERT", "OK"), report.all_returned()), (1001, 1001));
        assert_eq!(report.get("INSERT", "Operations"), Some("1001"));
        let mut connection = server.connect().unwrap();
        let records = table(&mut connection, "y", "usertable");
        let keys: Vec<String> = (0..1001).map(key).collect();
        assert_eq!(records.len(), 1001);
        assert!(keys.iter().all(|key| records.contains_key(key)));
        records.values().for_each(assert_record);
        let command = doc! { "listIndexes": "usertable" };
        let indexes = connection.cursor("y", &command).unwrap().map(Result::unwrap);
        assert_eq!(indexes.count(), 1);
        drop(connection);
        stop(server);
    }
}

#[test]
fn keys_and_documents_change_as_the_properties_say() {
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let mut connection = server.connect().unwrap();
    let mut load = |database: &str, words: &[&str]| {
        let words: Vec<&str> =
            words.iter().chain(&["recordcount=101", "-threads 3", "--no-record"]).copied().collect();
        let output = ycsb("load", "workloada", &url(&server, database, ""), &words).run().expect_code(0);
        assert_eq!(
            report(&output).returned("INSERT", "OK") + report(&output).returned("INSERT", "BATCHED_OK"),
            101
        );
        let name = words.iter().find_map(|word| word.strip_prefix("table=")).unwrap_or("usertable");
        table(&mut connection, database, name)
    };
    let padded = load("padded", &["zeropadding=20", "table=t"]);
    assert!(KEYS[..4].iter().all(|(_, _, padded_key)| padded.contains_key(*padded_key)));
    let ordered = load("ordered", &["insertorder=ordered", "zeropadding=8", "keyprefix=k"]);
    assert_eq!(ordered.keys().next_back().unwrap(), "k00000100");
    let strings = load("strings", &["datatype=string", "fieldcount=2", "fieldlength=7"]);
    assert!(strings.values().all(|document| document.get_str("field1").unwrap().len() == 7));
    let eight = load("eight", &["fieldcount=8", "fieldlength=250", "fieldnameprefix=f"]);
    assert!(eight.values().all(|document| document.as_bytes().len()
        == 2142 - 19 - 8 * 4 + document.get_str("_id").unwrap().len() - 4));
    // 101 documents over 3 connections in batches of 10: none is forgotten.
    let batches = load("batches", &["batchsize=10"]);
    assert_eq!(batches.len(), 101);
    batches.values().for_each(assert_record);
    for database in ["upserts", "upserts"] {
        let upserts = load(database, &["mongodb.upsert=true"]);
        assert_eq!(upserts.len(), 101);
        upserts.values().for_each(assert_record);
    }
    assert_eq!(load("upserts", &["mongodb.upsert=true", "mongodb.batchsize=7"]).len(), 101);
    let part = load("part", &["insertstart=0", "insertcount=101"]);
    assert!(part.contains_key(&key(100)));
    drop(connection);
    stop(server);
}

#[test]
fn values_that_say_what_they_must_be_are_checked() {
    let scratch = Scratch::new().unwrap();
    let server = serve(ROCKSDB, &scratch, &[]);
    let url = url(&server, "y", "");
    let words = ["recordcount=50", "dataintegrity=true", "--no-record", "operationcount=400", "seed=4"];
    ycsb("load", "workloadc", &url, &words).run().expect_code(0);
    let mut connection = server.connect().unwrap();
    let records = table(&mut connection, "y", "usertable");
    let first = Document::try_from(&*records[KEYS[0].1]).unwrap();
    let value = "user6284781860667377211:field0:-56807877:2032869390:-165488160:1762371712:-169193395:-1039977118:-10";
    let Some(Bson::Binary(found)) = first.get("field0") else { panic!("{first}") };
    assert_eq!(found.bytes, value.as_bytes());

    let clean = ycsb("run", "workloadc", &url, &words).run().expect_code(0);
    assert_eq!(report(&clean).returned("VERIFY", "OK"), 400);
    // Updates write the expected values.
    let updated = ycsb("run", "workloada", &url, &words).run().expect_code(0);
    let updates = report(&updated).returned("UPDATE", "OK");
    assert!(updates > 100 && report(&updated).returned("VERIFY", "OK") == 400 - updates);

    let update = doc! { "q": { "_id": key(3) }, "u": { "$set": { "field4": "wrong" } } };
    connection.run("y", &doc! { "update": "usertable", "updates": [update] }).unwrap();
    let uniform = [words.as_slice(), &["requestdistribution=sequential"]].concat();
    let tampered = ycsb("run", "workloadc", &url, &uniform).run().expect_code(1);
    let report = report(&tampered);
    assert_eq!((report.returned("VERIFY", "UNEXPECTED_STATE"), report.returned("VERIFY", "OK")), (8, 392));
    assert_eq!(report.returned("READ", "OK"), 400);
    drop(connection);
    stop(server);
}

#[test]
fn a_second_load_of_the_same_keys_says_why_it_stops() {
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let url = url(&server, "y", "");
    let words = ["recordcount=300", "--no-record", "-threads 4"];
    ycsb("load", "workloada", &url, &words).run().expect_code(0);
    let again = ycsb("load", "workloada", &url, &words).run().expect_code(1);
    let last = again.stderr.lines().next_back().unwrap();
    assert!(last.starts_with("fathom: the run was given up: an insert failed: E11000"), "{}", again.stderr);
    assert!(
        again.stderr.contains("fathom: y.usertable already holds records with these keys"),
        "{}",
        again.stderr
    );
    // On request it continues, by single documents and by batches, and counts each that failed.
    for batch in ["batchsize=1", "batchsize=7"] {
        let words = [
            "recordcount=310",
            "-threads 4",
            "--no-record",
            batch,
            "core_workload_insertion_keep_going_on_error=true",
        ];
        let output = ycsb("load", "workloada", &url, &words).run().expect_code(1);
        let report = report(&output);
        let new = report.returned("INSERT", "OK") + report.returned("INSERT", "BATCHED_OK");
        println!("{batch}: {new} of 310, {}", output.stderr.trim());
        assert_eq!((new, report.returned("INSERT", "ERROR")), (10, 300));
        assert!(output.stderr.contains("DuplicateKey(11000): E11000"), "{}", output.stderr);
        let mut connection = server.connect().unwrap();
        let delete = doc! { "q": { "_id": { "$in": (300..310).map(key).collect::<Vec<_>>() } }, "limit": 0 };
        connection.run("y", &doc! { "delete": "usertable", "deletes": [delete] }).unwrap();
    }
    // Each attempt counts, as in YCSB.
    let words = [
        "recordcount=3",
        "--no-record",
        "core_workload_insertion_retry_limit=2",
        "core_workload_insertion_retry_interval=0.1",
    ];
    let retried = ycsb("load", "workloada", &url, &words).run().expect_code(1);
    assert_eq!(report(&retried).returned("INSERT", "ERROR"), 3);
    assert_eq!(report(&retried).get("INSERT-FAILED", "Operations"), Some("3"));
    assert!(retried.stderr.contains("3 x DuplicateKey"), "{}", retried.stderr);
    assert!(retried.stderr.contains("fathom: 2 failed inserts were tried again"), "{}", retried.stderr);
    // An insert that succeeds in the end is no failed operation.
    let key_of_two = doc! { "q": { "_id": key(2) }, "limit": 1 };
    let words = [
        "recordcount=3",
        "insertstart=2",
        "--no-record",
        "core_workload_insertion_retry_limit=1000000",
        "core_workload_insertion_retry_interval=0.1",
        "-s",
        "status.interval=1",
    ];
    let load = ycsb("load", "workloada", &url, &words).spawn();
    wait_until("an attempt fails", || load.stderr().contains("[INSERT-FAILED: Count="));
    let mut connection = server.connect().unwrap();
    connection.run("y", &doc! { "delete": "usertable", "deletes": [key_of_two] }).unwrap();
    let output = load.wait().expect_code(0);
    let report = report(&output);
    assert_eq!((report.returned("INSERT", "OK"), report.get("INSERT", "Operations")), (1, Some("1")));
    assert!(report.returned("INSERT", "ERROR") > 0, "{}", output.stdout);
    drop(connection);
    stop(server);
}
