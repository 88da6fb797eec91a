//! Tests `fathom import` of recordings: the run folder holds the recording's own files, and all verbs read it.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_testkit::{Fathom, Scratch, assert, assert_eq, test};
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/recordings")
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// The bytes of all files below a folder, without pages that were made of it.
fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let bytes = |entry: fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => bytes_of(&entry.path()),
        false if entry.path().extension().is_some_and(|ending| ending == "html") => 0,
        false => entry.metadata().unwrap().len(),
    };
    entries.map(bytes).sum()
}

#[test]
fn an_import_keeps_the_recording_itself_and_reads_it_with_all_verbs() {
    let scratch = Scratch::new().unwrap();
    let runs = scratch.path().join("runs");
    let fathom = |arguments: &[&str]| {
        Fathom::new(env!("CARGO_BIN_EXE_fathom"))
            .args(arguments)
            .args(if arguments[0] == "watch" { Vec::new() } else { vec!["--runs", runs.to_str().unwrap()] })
            .current_dir(fixtures())
            .state(scratch.path().join("state"))
            .run()
    };
    let imported = |arguments: &[&str]| {
        let output = fathom(&[&["import", "--json"], arguments].concat()).expect_code(0).json();
        PathBuf::from(text(&output, "run_folder"))
    };
    for name in ["iops-cap/diagnostic.data", "standalone-7.0.0"] {
        let folder = imported(&[name]);
        assert!(!folder.join("series.parquet").exists(), "{name}");
        let (of_run, of_recording) = (bytes_of(&folder), bytes_of(&fixtures().join(name)));
        assert!(of_run as f64 <= 1.2 * of_recording as f64, "{name}: {of_run} of {of_recording}");
        let kept = bytes_of(&folder.join("recording"));
        let copied = Fathom::new(env!("CARGO_BIN_EXE_fathom"))
            .args(["ftdc", "info", "--json"])
            .arg(folder.join("recording"));
        let info = copied.run().expect_code(0).json();
        assert_eq!(info["servers"].as_array().unwrap().len(), 1, "{info:#}");
        assert!(kept <= of_recording, "{name}");
    }
    let folder = imported(&["iops-cap", "--from", "2026-11-24T20:21:40", "--to", "2026-11-24T20:23:00"]);
    let folder_text = folder.to_str().unwrap();
    let words = fathom(&["runs", "show", folder_text]).expect_code(0).stdout;
    assert!(words.contains("wait for pages to be read"), "{words}");
    fathom(&["runs", "verify", folder_text]).expect_code(0);
    fathom(&["runs", "diff", folder_text, folder_text, "--json"]).expect_code(0);
    let bundle = scratch.path().join("run.tar.zst");
    fathom(&["runs", "export", folder_text, "--output", bundle.to_str().unwrap()]).expect_code(0);
    let explain = |folder: &Path| {
        let mut document = fathom(&["explain", folder.to_str().unwrap(), "--json"]).json();
        document.as_object_mut().unwrap().remove("run_folder");
        document
    };
    let before = explain(&folder);
    fs::remove_dir_all(&folder).unwrap();
    fathom(&["runs", "import", bundle.to_str().unwrap()]).expect_code(0);
    assert_eq!(explain(&folder), before);

    let kept = fs::read_dir(folder.join("recording/000")).unwrap().next().unwrap().unwrap().path();
    let manifest: Value = serde_json::from_slice(&fs::read(folder.join("manifest.json")).unwrap()).unwrap();
    let sum = text(&manifest["recording"]["files"][0], "sha256");
    let mut bytes = fs::read(&kept).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&kept, bytes).unwrap();
    for arguments in
        [&["explain", folder_text][..], &["report", folder_text], &["watch", "--replay", folder_text]]
    {
        let damaged = fathom(arguments);
        assert_eq!((damaged.code, damaged.stdout.as_str()), (1, ""), "{damaged:?}");
        assert!(damaged.stderr.contains(sum) && damaged.stderr.contains("metrics."), "{damaged:?}");
    }
    assert_eq!(fathom(&["runs", "verify", folder_text]).code, 1);
    fs::remove_file(&kept).unwrap();
    let missing = fathom(&["explain", folder_text]);
    assert!(
        missing.code == 1 && missing.stderr.contains(sum) && missing.stderr.contains("missing"),
        "{missing:?}"
    );
}

#[test]
fn judging_a_recording_writes_nothing_but_the_answer() {
    let scratch = Scratch::new().unwrap();
    fs::create_dir(scratch.path().join("diagnostic.data")).unwrap();
    for entry in fs::read_dir(fixtures().join("control/diagnostic.data")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), scratch.path().join("diagnostic.data").join(entry.file_name())).unwrap();
    }
    let before = bytes_of(&scratch.path());
    let state = scratch.path().join("state");
    Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["explain", "diagnostic.data"])
        .current_dir(scratch.path())
        .state(&state)
        .run()
        .expect_code(0);
    let runs = state.join("runs");
    assert!(!runs.exists() || fs::read_dir(&runs).unwrap().count() == 0);
    assert_eq!(bytes_of(&scratch.path()), before);
}

#[test]
fn an_imported_part_is_a_run_like_any_other() {
    let scratch = Scratch::new().unwrap();
    let runs = scratch.path().join("runs");
    let fathom = |arguments: &[&str]| {
        Fathom::new(env!("CARGO_BIN_EXE_fathom"))
            .args(arguments)
            .current_dir(fixtures())
            .state(scratch.path().join("state"))
            .run()
    };
    let directory = runs.to_str().unwrap();
    let part = ["import", "iops-cap", "--from", "2026-11-24T20:21:40", "--to", "2026-11-24T20:23:00"];
    let output = fathom(&[&part[..], &["--runs", directory, "--json"]].concat()).expect_code(0).json();
    let folder = text(&output, "run_folder").to_owned();
    assert!(text(&output, "first") == "2026-11-24T20:21:40.000Z" && output["servers"] == 1, "{output:#}");
    let manifest: Value =
        serde_json::from_str(&fs::read_to_string(Path::new(&folder).join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["started"], "2026-11-24T20:21:40Z");
    assert_eq!(manifest["environment"]["server.0.version"], "4.0.3");
    let judged = fathom(&["explain", &folder, "--no-report"]);
    // The rules for runs see the wait; they learn the usual values only from longer recordings.
    assert_eq!(judged.code, 4, "{judged:?}");
    assert!(judged.stdout.contains("wait for pages to be read"), "{}", judged.stdout);
    fathom(&["report", &folder]).expect_code(0);
    assert!(Path::new(&folder).join("report.html").exists());
    let replay =
        ["watch", "--replay", &folder, "--speed", "60", "--interval", "250ms", "--for", "2s", "--json"];
    let replay = fathom(&replay).expect_code(0);
    assert!(replay.stdout.contains("page read"), "{replay:?}");
    // A whole day is too long for a run folder, and nothing is left of the attempt.
    let long = fathom(&["import", ".", "--runs", directory]);
    assert_eq!(long.code, 2, "{long:?}");
    assert!(long.stderr.contains("--from and --to"), "{long:?}");
    assert_eq!(fs::read_dir(&runs).unwrap().count(), 1);
}
