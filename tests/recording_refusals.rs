//! Tests bad recordings with every verb that reads them: one sentence that says what is wrong, or a note, and never a panic or a wrong figure.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bson::Document;
use fathom_testkit::{
    Fathom, Output, RECORDING_BEGIN_MS, RecordedProcess, RecordingTrap, RecordingWriter, Scratch, assert,
    assert_eq, test, write_recording, write_trap,
};
use serde_json::Value;

const METRICS: &str = "metrics.2025-07-10T19-28-00Z-00000";
/// The verbs that read recordings, each with what it needs besides.
const VERBS: [&[&str]; 6] = [
    &["explain"],
    &["report", "--output", "-"],
    &["import", "--runs", "runs"],
    &["watch", "--for", "1s", "--json", "--replay"],
    &["ftdc", "info"],
    &["ftdc", "export"],
];

fn fathom(words: &[&str], folder: &Path) -> Output {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(words)
        .current_dir(folder)
        .state(folder.join("state"))
        .run()
}

/// The begin of a zip file with one stored file, without the table of contents at its end.
fn cut_zip(name: &str, contents: &[u8]) -> Vec<u8> {
    let length = u32::try_from(contents.len()).unwrap().to_le_bytes();
    let mut archive = b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0".to_vec();
    archive.extend([0; 4]);
    archive.extend([length, length].concat());
    archive.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
    archive.extend([0; 2]);
    archive.extend(name.as_bytes());
    archive.extend(contents);
    archive
}

#[test]
fn each_bad_input_is_one_sentence_with_every_verb() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    write_recording(&folder.join("good")).unwrap();
    let whole = fs::read(folder.join("good").join(METRICS)).unwrap();
    for name in ["empty", "other", "zeros", "unended"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    fs::write(folder.join("other/collection-0.wt"), [7; 4096]).unwrap();
    fs::write(folder.join("zeros").join(METRICS), [0; 8192]).unwrap();
    fs::write(folder.join("file-of-zeros"), [0; 8192]).unwrap();
    fs::write(folder.join("no-byte"), []).unwrap();
    // Not one whole document.
    fs::write(folder.join("unended").join(METRICS), &whole[..60]).unwrap();
    fs::write(folder.join("cut.zip"), cut_zip(&format!("diagnostic.data/{METRICS}"), &whole)).unwrap();
    fs::write(folder.join("cut.tar.gz"), [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1]).unwrap();
    for input in
        ["empty", "other", "zeros", "file-of-zeros", "no-byte", "unended", "cut.zip", "cut.tar.gz", "missing"]
    {
        for verb in VERBS {
            let output = fathom(&[verb, &[input]].concat(), &folder);
            let case = format!("{verb:?} {input}: {output:?}");
            assert!(matches!(output.code, 2 | 3), "{case}");
            assert_eq!((output.stdout.as_str(), output.stderr.trim_end().lines().count()), ("", 1), "{case}");
            assert!(output.stderr.starts_with("fathom: ") && !output.stderr.contains("panicked"), "{case}");
            assert!(!input.contains("zeros") || output.stderr.contains("zeros"), "{case}");
        }
    }
    let runs = folder.join("runs");
    assert!(!runs.exists() || fs::read_dir(runs).unwrap().count() == 0);
}

/// The document of `fathom explain`.
fn explained(name: &str, folder: &Path) -> (Value, Output) {
    let output = fathom(&["explain", name, "--json"], folder);
    assert!(matches!(output.code, 0 | 1 | 4), "{output:?}");
    (output.json()["servers"][0].clone(), output)
}

#[test]
fn damaged_parts_are_a_note_and_the_rest_is_judged() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    write_trap(&folder.join("db"), RecordingTrap::FullFileSystem).unwrap();
    let path = folder.join("db").join(METRICS);
    let whole = fs::read(&path).unwrap();
    let (expected, _) = explained("db", &folder);
    assert_eq!(expected["judgement"]["recorded_s"], 899.0);
    // Zeros behind the last document, as a file system leaves them after a loss of power.
    fs::write(&path, [whole.as_slice(), &[0; 4096]].concat()).unwrap();
    let (server, output) = explained("db", &folder);
    assert_eq!(server["judgement"]["recorded_s"], 899.0, "{server:#}");
    assert!(output.stderr.contains("on are not documents"), "{output:?}");
    // A file of zeros next to a good one.
    fs::write(&path, &whole).unwrap();
    fs::write(folder.join("db/metrics.2025-07-10T20-28-00Z-00000"), [0; 4096]).unwrap();
    let (server, output) = explained("db", &folder);
    assert_eq!(server["judgement"]["verdict"], expected["judgement"]["verdict"]);
    let note = "metrics.2025-07-10T20-28-00Z-00000: the 4096 bytes from byte 0 on are not documents";
    assert!(output.stderr.contains(note), "{output:?}");
    // The last document was cut off: 300 samples are in it.
    fs::remove_file(folder.join("db/metrics.2025-07-10T20-28-00Z-00000")).unwrap();
    fs::write(&path, &whole[..whole.len() - 9]).unwrap();
    let (server, output_of_cut) = explained("db", &folder);
    assert_eq!(server["judgement"]["recorded_s"], 599.0, "{server:#}");
    assert_eq!(output_of_cut.stderr, "", "a kill may cut the last document off");
}

/// Holes of a sparse file take no room on the disk, and are read as zeros.
#[test]
fn twenty_gigabytes_of_zeros_are_one_sentence_or_a_note() {
    const BYTES: u64 = 20_000_000_000;
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    let grow = |path: PathBuf| {
        let file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.set_len(BYTES).unwrap();
    };
    fs::create_dir(folder.join("zeros")).unwrap();
    grow(folder.join("zeros").join(METRICS));
    grow(folder.join("file-of-zeros"));
    for input in ["zeros", "file-of-zeros"] {
        for verb in VERBS {
            let output = fathom(&[verb, &[input]].concat(), &folder);
            let case = format!("{verb:?} {input}: {output:?}");
            assert!(matches!(output.code, 2 | 3), "{case}");
            assert_eq!((output.stdout.as_str(), output.stderr.trim_end().lines().count()), ("", 1), "{case}");
            assert!(output.stderr.starts_with("fathom: ") && output.stderr.contains("zeros"), "{case}");
        }
    }
    // Behind good documents they are a note.
    write_trap(&folder.join("db"), RecordingTrap::FullFileSystem).unwrap();
    grow(folder.join("db").join(METRICS));
    let (server, output) = explained("db", &folder);
    assert_eq!(server["judgement"]["recorded_s"], 899.0, "{server:#}");
    assert!(output.stderr.contains("are not documents"), "{output:?}");
}

/// A file with the samples of these seconds.
fn file_of(seconds: std::ops::Range<i64>) -> Vec<u8> {
    let process = RecordedProcess { pid: 1, started_ms: RECORDING_BEGIN_MS };
    let mut writer = RecordingWriter::default();
    for second in seconds {
        let start_ms = RECORDING_BEGIN_MS + second * 1000;
        writer.sample(start_ms, &process.sample(start_ms, &Document::new())).unwrap();
    }
    writer.end_chunk().unwrap();
    writer.into_bytes()
}

/// A mongod appends chunks, replaces its interim file and deletes the oldest file meanwhile. Whatever the order, each sample counts once.
#[test]
fn a_folder_that_changes_meanwhile_is_read_without_an_error() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    let data = folder.join("diagnostic.data");
    fs::create_dir(&data).unwrap();
    let (oldest, newest) = (data.join("metrics.2025-07-10T19-18-00Z-00000"), data.join(METRICS));
    let chunks: Vec<Vec<u8>> = (0..20).map(|number| file_of(number * 100..(number + 1) * 100)).collect();
    let replace = |name: PathBuf, contents: &[u8]| {
        let temporary = data.join("metrics.interim.temp");
        fs::write(&temporary, contents).unwrap();
        fs::rename(&temporary, name).unwrap();
    };
    fs::write(&oldest, file_of(-600..-300)).unwrap();
    fs::write(&newest, &chunks[0]).unwrap();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in (1..20).cycle() {
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
                replace(data.join("metrics.interim"), &chunks[number]);
                // The chunk is half written for a while.
                let (whole, part) = (chunks[..number].concat(), &chunks[number]);
                fs::write(&newest, [&whole[..], &part[..part.len() / 2]].concat()).unwrap();
                fs::write(&newest, [&whole[..], part].concat()).unwrap();
                if number % 2 == 0 {
                    let _ = fs::remove_file(&oldest);
                } else {
                    fs::write(&oldest, file_of(-600..-300)).unwrap();
                }
            }
        });
        let outputs: Vec<Output> =
            (0..6).map(|_| fathom(&["explain", "diagnostic.data", "--json"], &folder)).collect();
        is_done.store(true, Ordering::Relaxed);
        for output in outputs {
            // Between two writes there may be no whole document at all.
            assert!(matches!(output.code, 0 | 1 | 3 | 4), "{output:?}");
            assert!(!output.stderr.contains("panicked"), "{output:?}");
            if output.code != 3 {
                let judgement = output.json()["servers"][0]["judgement"].clone();
                let recorded_s = judgement["recorded_s"].as_f64().unwrap();
                assert!((0.0..=2600.0).contains(&recorded_s), "{judgement:#}");
                let restarts = judgement["restarts_ms"].as_array().unwrap();
                assert!(restarts.is_empty(), "{judgement:#}");
            }
        }
    });
}
