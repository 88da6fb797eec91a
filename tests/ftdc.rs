//! Tests `fathom ftdc`: the contents of a recording, and its values in four formats.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fathom_testkit::{
    Fathom, Need, Output, RECORDING_SAMPLES, Scratch, assert, assert_eq, skip, test, write_recording,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

fn ftdc(arguments: &[&str]) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).arg("ftdc").args(arguments)
}

/// A folder with a recording, under a name that output can show.
fn recording() -> (Scratch, PathBuf) {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path().join("diagnostic.data");
    write_recording(&folder).unwrap();
    (scratch, folder)
}

fn in_folder(call: Fathom, folder: &Path) -> Output {
    call.current_dir(folder).run()
}

#[test]
fn info_tells_what_a_recording_holds() {
    let (scratch, _) = recording();
    let text = in_folder(ftdc(&["info", "diagnostic.data"]), &scratch.path()).expect_code(0).stdout;
    insta::assert_snapshot!("ftdc_info", text);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let shifted = in_folder(ftdc(&["info", ".", "--tz", "Etc/GMT-2"]), &scratch.path()).expect_code(0).stdout;
    assert!(shifted.contains("2025-07-10 21:28:00"), "{shifted}");
}

#[test]
fn metrics_are_listed_with_their_ranges() {
    let (scratch, _) = recording();
    let call = ftdc(&["metrics", "diagnostic.data", "--metric", "*opcounters*", "--metric", "*.sda.*"]);
    let text = in_folder(call, &scratch.path()).expect_code(0).stdout;
    insta::assert_snapshot!("ftdc_metrics", text);
    let part = ftdc(&[
        "metrics",
        "diagnostic.data",
        "--metric",
        "*.insert",
        "--from",
        "2025-07-10T19:29",
        "--to",
        "2025-07-10 19:30",
    ]);
    let part = in_folder(part, &scratch.path()).expect_code(0).stdout;
    assert!(part.contains("6000") && part.contains("12000"), "{part}");
}

#[test]
fn values_are_exported_as_csv_and_json_lines() {
    let (scratch, folder) = recording();
    let path = folder.to_str().unwrap();
    let csv = ftdc(&["export", path, "--metric", "*.opcounters.*"]).run().expect_code(0).stdout;
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some("time,server,serverStatus.opcounters.insert,serverStatus.opcounters.query")
    );
    assert_eq!(lines.next(), Some(format!("2025-07-10T19:28:00.000Z,{path},0,0").as_str()));
    assert_eq!(csv.lines().count(), RECORDING_SAMPLES + 1);

    let file = scratch.path().join("values.jsonl");
    let words = ["export", path, "--format", "jsonl", "--metric", "*insert", "-o", file.to_str().unwrap()];
    ftdc(&words).run().expect_code(0);
    let json = fs::read_to_string(&file).unwrap();
    let last: Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!(last["metrics"]["serverStatus.opcounters.insert"], 61_600);
    assert_eq!(
        (last["time"].as_str(), json.lines().count()),
        (Some("2025-07-10T19:38:16.900Z"), RECORDING_SAMPLES)
    );
    // An existing file is kept unless it may be replaced.
    let refused = ftdc(&words).run().expect_code(3);
    assert!(refused.stderr.contains("--force replaces it"), "{refused:?}");
    ftdc(&[&words[..], &["--force"]].concat()).run().expect_code(0);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2, "nothing else is left");
}

#[test]
fn values_are_exported_as_open_metrics_and_parquet() {
    let (scratch, folder) = recording();
    let path = folder.to_str().unwrap();
    let text = ftdc(&["export", path, "--format", "openmetrics", "--metric", "*.insert"])
        .run()
        .expect_code(0)
        .stdout;
    assert!(text.starts_with("# TYPE mongodb_serverstatus_opcounters_insert unknown\n"), "{text}");
    assert!(text.ends_with("# EOF\n") && text.lines().count() == RECORDING_SAMPLES + 2);

    let file = scratch.path().join("all.parquet");
    ftdc(&["export", path, "--format", "parquet", "-o", file.to_str().unwrap()]).run().expect_code(0);
    let reader = SerializedFileReader::new(fs::File::open(&file).unwrap()).unwrap();
    let metrics = ftdc(&["metrics", path, "--json"]).run().expect_code(0).json();
    let samples: i64 =
        metrics["metrics"].as_array().unwrap().iter().map(|one| one["samples"].as_i64().unwrap()).sum();
    assert_eq!(reader.metadata().file_metadata().num_rows(), samples);
}

#[test]
fn a_recording_comes_through_a_pipe() {
    let (scratch, _) = recording();
    let tar = Command::new("tar")
        .args(["cz", "diagnostic.data"])
        .current_dir(scratch.path())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(tar) = tar else { skip!(Need::Program, "no tar on this machine") };
    let archive = tar.wait_with_output().unwrap().stdout;
    let output = ftdc(&["info", "-", "--json"]).stdin(archive).run().expect_code(0);
    assert_eq!(output.json()["servers"][0]["samples"], RECORDING_SAMPLES);
}

#[test]
fn what_cannot_be_read_or_found_is_said_in_a_sentence() {
    let (scratch, folder) = recording();
    let path = folder.to_str().unwrap();
    let text = scratch.path().join("notes.txt");
    fs::write(&text, "hello").unwrap();
    let text = text.to_str().unwrap();
    for (words, code, said) in [
        (&["info", text][..], 2, "is no recording of a mongod"),
        (&["info", "/no/such/folder"], 3, "No such file"),
        (&["info", "/proc/sys"], 3, "no recording of a mongod is in /proc/sys"),
        (&["metrics", path, "--metric", "opcounter"], 2, "no metric matches opcounter"),
        (&["export", path, "--from", "2030-01-01"], 2, "no sample lies between"),
        (&["export", path, "--from", "2026", "--to", "2025-01-01"], 2, "'2026' is not a time"),
        (&["export", path, "--from", "2026-01-01", "--to", "2025-01-01"], 2, "--from is later than --to"),
        (&["export", path, "--format", "parquet"], 2, "name a file with -o"),
        (&["export", "-"], 2, "--format jsonl"),
        (&["info", path, "--tz", "Mars/Olympus"], 2, "not a time zone"),
    ] {
        let output = ftdc(words).run().expect_code(code);
        assert!(output.stderr.contains(said), "{words:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{words:?}: {output:?}");
    }
}

/// No name of the owner is left, and the numbers are the same.
#[test]
fn a_scrubbed_copy_has_the_numbers_and_not_the_names() {
    let (scratch, folder) = recording();
    let copy = scratch.path().join("copy");
    let (path, copied) = (folder.to_str().unwrap(), copy.to_str().unwrap());
    ftdc(&["scrub", path, "-o", copied]).run().expect_code(0);
    let metrics = |path: &str| ftdc(&["metrics", path, "--json"]).run().expect_code(0).json();
    assert_eq!(metrics(path), metrics(copied));
    let info = ftdc(&["info", copied, "--json"]).run().expect_code(0).stdout;
    for name in ["db1", "example", "/data/db", "rs0"] {
        assert!(!info.contains(name), "{name} in {info}");
    }
    assert!(info.contains("7.0.12") && info.contains("wiredTiger"), "{info}");
    let refused = ftdc(&["scrub", path, "-o", copied]).run().expect_code(3);
    assert!(refused.stderr.contains("is not empty"), "{refused:?}");
    let missing = scratch.path().join("other");
    ftdc(&["scrub", "/no/such/folder", "-o", missing.to_str().unwrap()]).run().expect_code(3);
    assert!(!missing.exists());
}
