//! Tests `fathom explain` on logs: with a recording, alone, and in every form that users have.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fathom_testkit::{Fathom, Output, Scratch, assert, assert_eq, test};
use serde_json::{Value, json};

fn explain(folder: &Path) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).arg("explain").current_dir(folder)
}

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/recordings")
}

/// The log of a mongod 4.0.3 whose reads waited for a cap.
fn text_log() -> String {
    let compressed = fs::read(recordings().join("iops-cap/mongod.log.gz")).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(&*compressed), &mut text).unwrap();
    text
}

/// Lines of a mongod 8.0: three shapes, of which one reads the disk.
fn structured_log() -> String {
    let line = |second: u32, namespace: &str, command: &str, read: u64, ms: u64| {
        let at = format!("2026-11-28T05:{:02}:{:02}.250+00:00", second / 60, second % 60);
        let head = format!(
            r#"{{"t":{{"$date":"{at}"}},"s":"I","c":"COMMAND","id":51803,"ctx":"conn{}","msg":"Slow query""#,
            second % 7
        );
        let attributes = format!(
            r#"{{"type":"command","ns":"{namespace}","appName":"web","command":{command},"planSummary":"COLLSCAN""#
        );
        let figures =
            format!(r#""docsExamined":9000,"nreturned":3,"workingMillis":{},"durationMillis":{ms}"#, ms - 1);
        let storage = format!(r#"{{"data":{{"bytesRead":{read},"timeReadingMicros":{}}}}}"#, ms * 900);
        format!(r#"{head},"attr":{attributes},{figures},"storage":{storage}}}}}"#)
    };
    // Longer than the lines that collectors pass on unsplit.
    let keys = "7,".repeat(10_000);
    let many = format!(r#"{{"find":"orders","filter":{{"key":{{"$in":[{keys}7]}}}}}}"#);
    let mut lines = vec![line(0, "shop.orders", &many, 0, 101)];
    for second in 0..600 {
        let find = format!(r#"{{"find":"orders","filter":{{"user":{second}}}}}"#);
        let aggregate = r#"{"aggregate":"orders","pipeline":[{"$match":{"a\"b":"ü\\"}}]}"#;
        lines.push(match second % 3 {
            0 => line(second, "shop.orders", &find, 1 << 20, 200),
            1 => line(second, "shop.users", r#"{"count":"users","query":{"age":{"$gt":7}}}"#, 0, 900),
            _ => line(second, "shop.orders", aggregate, 4096, 110),
        });
    }
    lines.join("\n") + "\n"
}

/// The table of a log alone, without the names of files.
fn table(output: &Output) -> Value {
    let mut table = output.json()["slow_operations"].clone();
    table.as_object_mut().unwrap().remove("files").unwrap();
    table
}

#[test]
fn a_log_beside_a_recording_names_the_shapes_that_were_slow() {
    let output = explain(&recordings()).args(["iops-cap", "--json"]).run();
    let document = output.json();
    let table = &document["servers"][0]["slow_operations"];
    assert_eq!(output.code, 1);
    assert!(table["files"][0].as_str().unwrap().ends_with("iops-cap/mongod.log.gz"), "{table:#}");
    let shapes = table["shapes"].as_array().unwrap();
    let names: Vec<(&str, &str)> = shapes
        .iter()
        .map(|shape| (shape["namespace"].as_str().unwrap(), shape["shape"].as_str().unwrap()))
        .collect();
    assert_eq!(names[0], ("ycsb.usertable", "find { filter: { _id: ? } }"));
    assert_eq!(names[1], ("ycsb.usertable", "update { q: { _id: ? }, u: { $set: ? } }"));
    let find = &shapes[0];
    assert_eq!((&find["count"], &find["plans"]["IDHACK"]), (&json!(1740), &json!(1740)));
    // Nearly all were slow while the cap held.
    assert!(find["in_incidents"].as_u64().unwrap() > 1600, "{find:#}");
    assert!(find["drivers"].as_object().unwrap().keys().any(|name| name.starts_with("fathom ")), "{find:#}");
    assert!(find["disk_busy_share"].is_number() && table.get("read_bytes").is_none(), "{table:#}");
    // An update and its command have a line each: they count once.
    assert!(table["count"].as_u64().unwrap() < 1740 + 187 + 20, "{table:#}");
    // A time without slow operations, and a log that the user names.
    let part = explain(&recordings()).args(["control", "--log", "iops-cap/mongod.log.gz", "--json"]).run();
    assert_eq!(part.json()["servers"][0]["slow_operations"]["count"], 0, "{part:?}");
}

#[test]
fn a_log_alone_says_which_shapes_read_the_disk() {
    let scratch = Scratch::new().unwrap();
    fs::write(scratch.path().join("mongod.log"), structured_log()).unwrap();
    let output = explain(&scratch.path()).arg("mongod.log").run();
    assert_eq!(output.code, 4);
    insta::assert_snapshot!("explain_log", output.stdout);
    assert!(output.stdout.lines().all(|line| line.chars().count() <= 80), "{}", output.stdout);
    let document = explain(&scratch.path()).args(["mongod.log", "--json"]).run().json();
    let first = &document["slow_operations"]["shapes"][0];
    assert_eq!(first["shape"], "find { filter: { user: ? } }");
    assert_eq!((&first["count"], &first["read_bytes"]), (&json!(200), &json!(200 << 20)));
    let part = [
        "mongod.log",
        "--from",
        "2026-11-28T07:01",
        "--to",
        "2026-11-28T07:02",
        "--tz",
        "Etc/GMT-2",
        "--json",
    ];
    let part = explain(&scratch.path()).args(part).run();
    assert_eq!(table(&part)["count"], 60, "{part:?}");
}

/// The judgement of a recording of a mongod 4.0 that another client worked on from 30 to 90 s, with its log, and the exit code.
fn judged_work(name: &str) -> (Value, i32) {
    let folder = recordings().join("../server-work");
    let output = explain(&folder).args([name, "--json"]).run();
    let server = output.json()["servers"][0].clone();
    assert!(server["slow_operations"]["count"].as_u64().unwrap() > 0, "{server:#}");
    (server["judgement"].clone(), output.code)
}

/// Fails unless the costliest incident has this cause, and a sentence with these words.
#[track_caller]
fn expect_incident(judgement: &Value, cause: &str, words: &[&str]) {
    let incident = &judgement["incidents"][0];
    assert_eq!(incident["cause"], cause, "{judgement:#}");
    let sentence = incident["sentence"].as_str().unwrap();
    let missing: Vec<_> = words.iter().filter(|word| !sentence.contains(**word)).collect();
    assert!(missing.is_empty(), "{missing:?}: {incident:#}");
}

#[test]
fn scans_of_the_log_explain_busy_processors_and_hold_no_other_operation_back() {
    let (judgement, code) = judged_work("collection-scan");
    let words = ["Scans of ycsb.usertable without an index filled the processors", "100,000 documents"];
    expect_incident(&judgement, "collection-scan", &words);
    // The other client's mean was 0.32 ms before and 0.36 ms meanwhile.
    assert!(judgement["incidents"][0]["lost_share"].as_f64().unwrap() < 0.2, "{judgement:#}");
    assert_eq!((&judgement["verdict"]["outcome"], code), (&json!("not_held_back"), 0), "{judgement:#}");
}

#[test]
fn an_index_build_of_the_log_is_named_as_the_holder_of_the_lock() {
    let (judgement, code) = judged_work("index-build");
    let words = ["An index build (createIndexes) on ycsb.usertable held a lock twice", "705 ms", "1.20 s"];
    expect_incident(&judgement, "lock-held-by", &words);
    assert_eq!((&judgement["verdict"]["cause"], code), (&json!("lock-held-by"), 1), "{judgement:#}");
}

#[test]
fn an_import_of_the_log_is_named_with_what_reads_lose_by_it() {
    let (judgement, code) = judged_work("bulk-load");
    let words = ["Inserts into imports.events filled the processors", "documents a second were inserted"];
    expect_incident(&judgement, "bulk-writer", &words);
    // Within the server, reads took 673 µs in place of 147.
    let share = judgement["incidents"][0]["lost_share"].as_f64().unwrap();
    assert!((share - 526.0 / 673.0).abs() < 0.1, "{judgement:#}");
    assert_eq!((&judgement["verdict"]["cause"], code), (&json!("bulk-writer"), 1), "{judgement:#}");
}

/// Docker cuts lines at this length.
const DOCKER_BYTES: usize = 16 << 10;

/// Each line as another log writer wraps it.
fn wrapped(log: &str, wrap: impl Fn(&str) -> String) -> String {
    log.lines().map(|line| wrap(line) + "\n").collect()
}

#[test]
fn a_log_in_any_wrapping_gives_the_same_table() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    for log in [text_log(), structured_log()] {
        let write = |name: &str, contents: &[u8]| fs::write(folder.join(name), contents).unwrap();
        write("plain.log", log.as_bytes());
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(log.as_bytes()).unwrap();
        write("gzip", &encoder.finish().unwrap());
        write("zstd", &zstd::encode_all(log.as_bytes(), 1).unwrap());
        let quoted = |text: &str| serde_json::to_string(text).unwrap();
        let docker = |line: &str| {
            if line.len() <= DOCKER_BYTES {
                return format!(r#"{{"log":{},"stream":"stdout","time":"t"}}"#, quoted(&format!("{line}\n")));
            }
            let (begin, end) = line.split_at(DOCKER_BYTES);
            format!(
                "{{\"log\":{},\"stream\":\"stdout\",\"time\":\"t\"}}\n{{\"log\":{},\"stream\":\"stdout\",\"time\":\"t\"}}",
                quoted(begin),
                quoted(&format!("{end}\n"))
            )
        };
        write("docker", wrapped(&log, docker).as_bytes());
        let cri = |line: &str| format!("2026-11-28T05:00:00.123456789Z stdout F {line}");
        write("cri", wrapped(&log, cri).as_bytes());
        let operator = |line: &str| format!(r#"{{"logType":"mongodb","contents":{}}}"#, quoted(line));
        write("operator", wrapped(&log, operator).as_bytes());
        write("cri-operator", wrapped(&log, |line| cri(&operator(line))).as_bytes());
        write("syslog", wrapped(&log, |line| format!("Nov 28 05:00:00 db1 mongod[7]: {line}")).as_bytes());
        write("windows", wrapped(&log, |line| format!("{line}\r")).as_bytes());
        // Rotated: the second half has the name that sorts first.
        let middle = log.lines().count() / 2;
        let half = |lines: Vec<&str>| lines.join("\n") + "\n";
        write("b.log", half(log.lines().take(middle).collect()).as_bytes());
        write("a.log", half(log.lines().skip(middle).collect()).as_bytes());
        let read = |arguments: &[&str]| {
            let output = explain(&folder).arg("--log").args(arguments).arg("--json").run();
            assert_eq!(output.code, 4, "{output:?}");
            serde_json::to_string(&table(&output)).unwrap()
        };
        let expected = read(&["plain.log"]);
        for arguments in [
            &["gzip"][..],
            &["zstd"],
            &["docker"],
            &["cri"],
            &["operator"],
            &["cri-operator"],
            &["syslog"],
            &["windows"],
            &["a.log", "b.log"],
        ] {
            assert_eq!(read(arguments), expected, "{arguments:?}");
        }
        let piped = explain(&folder).args(["--log", "-", "--json"]).stdin(log.as_bytes()).run();
        assert_eq!(serde_json::to_string(&table(&piped)).unwrap(), expected);
    }
}

#[test]
fn what_is_no_log_is_refused_in_one_sentence() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    fs::write(folder.join("notes.txt"), "nothing\n").unwrap();
    fs::create_dir(folder.join("run")).unwrap();
    fs::write(folder.join("run/manifest.json"), "{}").unwrap();
    fs::write(
        folder.join("cut.log.gz"),
        &fs::read(recordings().join("iops-cap/mongod.log.gz")).unwrap()[..9000],
    )
    .unwrap();
    for arguments in [
        &["--log", "none.log"][..],
        &["--log", "notes.txt"],
        &["notes.txt"],
        &["run", "--log", "notes.txt"],
        &["-", "--log", "-"],
        &["--log", "notes.txt", "--uri", "mongodb://127.0.0.1:1", "--log", "b"],
    ] {
        let output = explain(&folder).args(arguments).run();
        assert!(matches!(output.code, 2 | 3), "{arguments:?}: {output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{arguments:?}: {output:?}");
        assert_eq!(output.stdout, "", "{arguments:?}");
    }
    // The beginning of a truncated file counts, with a note.
    let cut = explain(&folder).args(["cut.log.gz", "--json"]).run();
    assert!(table(&cut)["count"].as_u64().unwrap() > 10, "{cut:?}");
    assert!(cut.stderr.contains("cannot read the log cut.log.gz to its end"), "{cut:?}");
    // Of five servers, one whose host is masked wrote it: the number and the start of the process are its.
    let all = recordings().display().to_string();
    let servers =
        explain(&folder).args([&all, "--log", "cut.log.gz", "--json"]).run().json()["servers"].clone();
    let with_log = servers.as_array().unwrap().iter().filter(|server| !server["slow_operations"].is_null());
    let directories: Vec<&str> = with_log.filter_map(|server| server["directory"].as_str()).collect();
    assert!(matches!(directories.as_slice(), [one] if one.contains("iops-cap")), "{directories:?}");
}
