//! Tests `fathom ftdc`: the contents of a recording, and its values in four formats.

use std::collections::HashSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bson::{RawBsonRef, RawDocument, doc};
use fathom_ftdc::{ChunkBuffer, Document, DocumentReader, MetricChunk};
use fathom_testkit::{
    Fathom, Need, Output, RECORDING_BEGIN_MS, RECORDING_SAMPLES, RecordedProcess, RecordingWriter, Scratch,
    assert, assert_eq, skip, test, write_recording,
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
        (&["info", text][..], 2, "is not a recording of a mongod"),
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

/// Fields whose text says which software and which kind of host it is.
const PUBLIC_FIELDS: [&str; 21] = [
    "version",
    "gitVersion",
    "stateStr",
    "javascriptEngine",
    "allocator",
    "openssl",
    "distmod",
    "distarch",
    "target_arch",
    "target_os",
    "cpuArch",
    "cpuString",
    "cpuFeatures",
    "cpuFrequencyMHz",
    "kernelVersion",
    "libcVersion",
    "featureCompatibilityVersion",
    "engine",
    "compressors",
    "clusterRole",
    "readConcernLevel",
];

/// All text of the recordings below a folder, field names included, and a hash for the columns of each chunk.
#[derive(Default)]
struct RecordingText {
    public: HashSet<String>,
    owners: HashSet<String>,
    keys: HashSet<String>,
    chunks: Vec<u64>,
}

impl RecordingText {
    fn below(folder: &Path) -> RecordingText {
        let mut text = RecordingText::default();
        text.add_folder(folder);
        text.chunks.sort_unstable();
        text
    }

    fn add_folder(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.add_folder(&path);
            } else if path.file_name().unwrap().to_string_lossy().starts_with("metrics.") {
                self.add_file(&path);
            }
        }
    }

    fn add_file(&mut self, path: &Path) {
        let mut reader = DocumentReader::new(File::open(path).unwrap());
        let mut buffer = ChunkBuffer::default();
        while let Some(document) = reader.next_document().unwrap() {
            match document {
                Document::Metadata { replies, .. } | Document::Parameters { replies, .. } => {
                    self.add(replies, "");
                }
                Document::Metrics { payload, .. } => {
                    let chunk = MetricChunk::parse(payload, &mut buffer).unwrap();
                    let mut hasher = DefaultHasher::new();
                    chunk.columns(|_| true, |_, column| column.hash(&mut hasher)).unwrap();
                    self.chunks.push(hasher.finish());
                    self.add(chunk.reference(), "");
                }
                Document::Unknown => {}
            }
        }
    }

    fn add(&mut self, document: &RawDocument, parent: &str) {
        for element in document.iter_elements() {
            let element = element.unwrap();
            let key = element.key().as_str();
            self.keys.insert(key.to_owned());
            match element.value() {
                Ok(RawBsonRef::Document(inner)) => self.add(inner, key),
                Ok(RawBsonRef::Array(inner)) => {
                    self.add(RawDocument::from_bytes(inner.as_bytes()).unwrap(), key);
                }
                Ok(RawBsonRef::String(text)) => {
                    let is_public = PUBLIC_FIELDS.contains(&key) || ["storageEngine", "os"].contains(&parent);
                    let (directory, program) = text.rsplit_once(['/', '\\']).unwrap_or(("", text));
                    match (is_public, key) {
                        (true, _) => _ = self.public.insert(text.to_owned()),
                        (false, "process") => {
                            self.owners.insert(directory.to_owned());
                            self.public.insert(program.to_owned());
                        }
                        (false, _) => _ = self.owners.insert(text.to_owned()),
                    }
                }
                _ => {}
            }
        }
    }

    fn words(&self) -> impl Iterator<Item = &String> {
        self.public.iter().chain(&self.owners).chain(&self.keys)
    }
}

/// The names in texts: hosts, namespaces, parts of paths.
fn names<'t>(texts: impl Iterator<Item = &'t String>) -> HashSet<&'t str> {
    let is_name = |c: char| c.is_alphanumeric() || ".-_$%@".contains(c);
    let is_long = |name: &&str| name.len() >= 4 && name.contains(char::is_alphabetic);
    texts.flat_map(|text| text.split(move |c: char| !is_name(c)).filter(is_long)).collect()
}

#[test]
fn a_scrubbed_copy_has_no_name_of_the_owner_in_any_text_or_field() {
    let scratch = Scratch::new().unwrap();
    let mut writer = RecordingWriter::default();
    let program = "C:\\Acme Corp\\bin\\mongod.exe";
    let replies = doc! {
        "buildInfo": { "version": "7.0.12" },
        "process": program,
        "getCmdLineOpts": {
            "argv": [program, "--dbpath", "D:\\payments\\db"],
            "parsed": { "storage": { "dbPath": "D:\\payments\\db" }, "replication": { "replSetName": "invoices" } },
        },
        "comment": "tenants on db1.example.net:27017",
    };
    writer.metadata_of(RECORDING_BEGIN_MS, &replies);
    let process = RecordedProcess { pid: 1, started_ms: RECORDING_BEGIN_MS };
    for second in 0..20 {
        let start_ms = RECORDING_BEGIN_MS + second * 1000;
        let more = doc! { "process": program, "tenants": { "count": second }, "invoices": second };
        let mut sample = process.sample(start_ms, &more);
        sample.insert("local.payments.stats", doc! { "count": 3 * second });
        writer.sample(start_ms, &sample).unwrap();
    }
    writer.end_chunk().unwrap();
    writer.parameters(
        RECORDING_BEGIN_MS,
        0,
        &doc! { "getParameter": { "tlsCAFile": "C:\\Acme Corp\\ca.pem" } },
    );
    let folder = scratch.path().join("diagnostic.data");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("metrics.interim"), writer.into_bytes()).unwrap();
    // A name that mongod does not give is the owner's too.
    let named = scratch.path().join("metrics.acme");
    fs::write(&named, fs::read(folder.join("metrics.interim")).unwrap()).unwrap();

    let copy = scratch.path().join("copy");
    let arguments =
        ["scrub", folder.to_str().unwrap(), named.to_str().unwrap(), "-o", copy.to_str().unwrap()];
    ftdc(&arguments).run().expect_code(0);
    let (original, scrubbed) = (RecordingText::below(&folder), RecordingText::below(&copy));
    assert_eq!(scrubbed.chunks, [original.chunks.clone(), original.chunks].concat());
    for word in scrubbed.words() {
        let word = word.to_lowercase();
        for name in ["acme", "corp", "payments", "invoices", "tenants", "example", "db1", "ca.pem", "27017"] {
            assert!(!word.contains(name), "{name} in {word}");
        }
    }
    // The words of mongod's own stay, so that readers find them.
    for word in ["serverStatus", "opcounters", "mongod.exe", "wiredTiger", "log sync operations"] {
        assert!(scrubbed.words().any(|one| one == word), "{word}");
    }
    let files = ["server-1", "server-2"].map(|server| fs::read_dir(copy.join(server)).unwrap().count());
    assert_eq!(files, [1, 1]);
    assert!(!copy.join("server-2/metrics.acme").exists());
}

#[test]
fn real_recordings_keep_their_columns_and_lose_their_names() {
    let folder = std::env::var_os("FATHOM_RECORDINGS").map(PathBuf::from).filter(|folder| folder.is_dir());
    let folder = folder.unwrap_or_else(|| skip!(Need::Recordings, "FATHOM_RECORDINGS names no folder"));
    let scratch = Scratch::new().unwrap();
    for name in ["cluster-8.0.12", "member-5.0.9", "set-7.0.16", "standalone-3.4.2", "traps"] {
        let copy = scratch.path().join(name);
        ftdc(&["scrub", folder.join(name).to_str().unwrap(), "-o", copy.to_str().unwrap()])
            .run()
            .expect_code(0);
        let (original, scrubbed) = (RecordingText::below(&folder.join(name)), RecordingText::below(&copy));
        assert!(!original.chunks.is_empty() && original.chunks == scrubbed.chunks, "{name}");
        let public = names(original.public.iter());
        let mut left = names(scrubbed.public.iter().chain(&scrubbed.owners));
        left.extend(scrubbed.keys.iter().map(String::as_str));
        // Words that mongod uses as field names too.
        let shared = ["version", "running", "root", "deprecated", "mongod", "mongos"];
        let kept: Vec<&str> = names(original.owners.iter())
            .intersection(&left)
            .filter(|name| !public.contains(**name) && !shared.contains(name))
            .copied()
            .collect();
        assert!(kept.is_empty(), "{name}: {kept:?}");
    }
}
