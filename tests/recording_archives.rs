//! Tests recordings in archives together with the logs and dumps next to them: they count as those in a folder do, each with its server.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bson::doc;
use fathom_testkit::{
    Fathom, Output, RECORDING_BEGIN_MS, RecordedProcess, RecordingTrap, RecordingWriter, Scratch, assert,
    assert_eq, test, write_trap,
};
use serde_json::Value;

/// A tar archive with these files; a name may be any path.
fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    const BLOCK: usize = 512;
    let mut archive = Vec::new();
    for (name, contents) in files {
        let mut header = [0; BLOCK];
        let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, "0000600");
        put(124, &format!("{:011o}", contents.len()));
        put(136, "00000000000");
        put(148, "        ");
        put(156, "0");
        put(257, "ustar\u{0}00");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\u{0} ").as_bytes());
        archive.extend(header);
        archive.extend(*contents);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

fn gzip(contents: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(contents).unwrap();
    encoder.finish().unwrap()
}

fn fathom(arguments: &[&str], folder: &Path) -> Output {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(arguments).current_dir(folder).run()
}

/// The servers in the document of `fathom explain`.
fn servers(arguments: &[&str], folder: &Path) -> Vec<Value> {
    let output = fathom(&[&["explain", "--json"], arguments].concat(), folder);
    output.json()["servers"].as_array().unwrap_or_else(|| panic!("{output:?}")).clone()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/recordings").join(name)
}

/// The table of slow operations of a server, without the names of files.
fn table(server: &Value) -> Value {
    let mut table = server["slow_operations"].clone();
    table.as_object_mut().unwrap_or_else(|| panic!("{server:#}")).remove("files").unwrap();
    table
}

/// The recorded file of the capped server, and its log in two rotated files.
fn capped() -> (Vec<u8>, String, String) {
    let file = fs::read(fixture("iops-cap/diagnostic.data/metrics.2026-11-24T20-20-27Z-00000")).unwrap();
    let mut log = String::new();
    let compressed = fs::read(fixture("iops-cap/mongod.log.gz")).unwrap();
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(&*compressed), &mut log).unwrap();
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let (older, newer) = lines.split_at(lines.len() / 2);
    (file, older.concat(), newer.concat())
}

const METRICS: &str = "metrics.2026-11-24T20-20-27Z-00000";

#[test]
fn logs_in_an_archive_give_the_table_of_a_folder() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    let (file, older, newer) = capped();
    let expected = table(&servers(&["iops-cap"], fixture("iops-cap").parent().unwrap())[0]);
    let metrics = format!("node/diagnostic.data/{METRICS}");
    // The newer log comes first, and the log comes before the recording.
    let plain = tar(&[
        ("node/mongod.log", newer.as_bytes()),
        ("node/mongod.log.2026-11-24T20-22-00.gz", &gzip(older.as_bytes())),
        ("node/app.log", b"an application\n"),
        (&metrics, &file),
    ]);
    let nested = tar(&[("case/node.tar.gz", &gzip(&plain)), ("case/notes.txt", b"hello")]);
    for (name, contents) in [
        ("node.tar", plain.clone()),
        ("node.tgz", gzip(&plain)),
        ("node.tar.zst", zstd::encode_all(plain.as_slice(), 1).unwrap()),
        ("case.tar", nested),
    ] {
        fs::write(folder.join(name), contents).unwrap();
        let found = servers(&[name], &folder);
        assert!(table(&found[0]) == expected, "{name}: {:#}", found[0]["slow_operations"]);
        let files = found[0]["slow_operations"]["files"].as_array().unwrap();
        assert_eq!(files.len(), 2, "{files:?}");
        assert!(files[0].as_str().unwrap().ends_with("node/mongod.log.2026-11-24T20-22-00"), "{files:?}");
    }
    // Nothing is left next to the archives.
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
    // Logs that the user names are the only ones.
    fs::write(folder.join("other.log"), older).unwrap();
    let named = servers(&["node.tar", "--log", "other.log"], &folder);
    assert_eq!(named[0]["slow_operations"]["files"], serde_json::json!(["other.log"]));
}

#[test]
fn nothing_of_an_archive_is_written_under_its_name() {
    let (scratch, elsewhere) = (Scratch::new().unwrap(), Scratch::new().unwrap());
    let folder = scratch.path().join("a/b");
    fs::create_dir_all(&folder).unwrap();
    let (file, older, newer) = capped();
    let absolute = elsewhere.path().join("mongod.log");
    let dump: &[u8] = b"{ host: 'xx:27958', version: '4.0.3', process: 'mongod', uptime: 5 }";
    let archive = tar(&[
        ("../../mongod.log", older.as_bytes()),
        (absolute.to_str().unwrap(), newer.as_bytes()),
        ("../status.json", dump),
        (&format!("../x/{METRICS}"), &file),
    ]);
    fs::write(folder.join("case.tar"), archive).unwrap();
    let found = servers(&["case.tar"], &folder);
    assert!(found[0]["slow_operations"]["count"].as_u64().unwrap() > 1000, "{:#}", found[0]);
    assert_eq!(found[0]["facts"]["dumps"].as_array().unwrap().len(), 1);
    fathom(&["import", "case.tar", "--runs", "runs"], &folder).expect_code(0);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1, "only a/");
    assert_eq!(fs::read_dir(scratch.path().join("a")).unwrap().count(), 1, "only b/");
}

#[test]
fn an_archive_of_logs_alone_is_read_as_logs_are() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    let (_, older, newer) = capped();
    let archive = tar(&[("mongod.log", newer.as_bytes()), ("mongod.log.1", older.as_bytes())]);
    fs::write(folder.join("logs.tar.gz"), gzip(&archive)).unwrap();
    fs::write(folder.join("mongod.log"), older + &newer).unwrap();
    let table_of = |name: &str| {
        let output = fathom(&["explain", name, "--json"], &folder).expect_code(4);
        let mut table = output.json()["slow_operations"].clone();
        table.as_object_mut().unwrap().remove("files");
        table
    };
    assert!(table_of("logs.tar.gz") == table_of("mongod.log"));
    let refused = fathom(&["report", "logs.tar.gz"], &folder).expect_code(2);
    assert!(refused.stderr.contains("needs a recording"), "{refused:?}");
}

#[test]
fn a_torn_log_in_an_archive_counts_with_a_note() {
    let scratch = Scratch::new().unwrap();
    let (file, older, _) = capped();
    let torn = &gzip(older.as_bytes())[..40_000.min(gzip(older.as_bytes()).len() / 2)];
    let archive = tar(&[("mongod.log.gz", torn), (&format!("diagnostic.data/{METRICS}"), &file)]);
    fs::write(scratch.path().join("case.tar"), archive).unwrap();
    let output = fathom(&["explain", "case.tar"], &scratch.path());
    assert!(output.stderr.contains("cannot read the log case.tar/mongod.log to its end"), "{output:?}");
    assert!(output.stdout.contains("Slow operations in the log: "), "{output:?}");
}

/// The recording of a member that serves some reads, and a line of its log at a start.
fn member(host: &str, port: u16, pid: i64) -> (Vec<u8>, String) {
    let mut writer = RecordingWriter::default();
    let process = RecordedProcess { pid, started_ms: RECORDING_BEGIN_MS };
    for second in 0..120 {
        let start_ms = RECORDING_BEGIN_MS + second * 1000;
        let more = doc! {
            "host": format!("{host}:{port}"),
            "opLatencies": { "reads": { "ops": 50 * second, "latency": 9000 * second } },
        };
        writer.sample(start_ms, &process.sample(start_ms, &more)).unwrap();
    }
    writer.end_chunk().unwrap();
    let start = format!(
        r#"{{"t":{{"$date":"2025-07-10T19:28:00.100+00:00"}},"s":"I","c":"CONTROL","id":4615611,"ctx":"initandlisten","msg":"MongoDB starting","attr":{{"pid":{pid},"port":{port},"dbPath":"/d","architecture":"64-bit","host":"{host}"}}}}"#
    );
    (writer.into_bytes(), start + "\n")
}

/// A slow operation on this namespace.
fn slow(namespace: &str) -> String {
    format!(
        r#"{{"t":{{"$date":"2025-07-10T19:28:30.000+00:00"}},"s":"I","c":"COMMAND","id":51803,"ctx":"conn1","msg":"Slow query","attr":{{"type":"command","ns":"{namespace}","command":{{"find":"b"}},"planSummary":"COLLSCAN","durationMillis":199}}}}"#
    ) + "\n"
}

/// The namespaces of slow operations, by the hosts of their servers.
fn namespaces(servers: &[Value]) -> Vec<(String, String)> {
    let of = |server: &Value| {
        let host = server["facts"]["hosts"][0].as_str().unwrap_or_default().to_owned();
        let shapes = server["slow_operations"]["shapes"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = shapes.iter().filter_map(|shape| shape["namespace"].as_str()).collect();
        (host, names.join(" "))
    };
    servers.iter().map(of).collect()
}

#[test]
fn each_log_is_of_its_member() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    let (one, first) = member("db1", 27018, 1);
    let (two, second) = member("db1", 27019, 1);
    let (three, _) = member("db3", 27017, 1);
    let (_, foreign) = member("db9", 27017, 1);
    // The logs of two members are in one folder, that of the third does not say who wrote it, and the fourth is of another server.
    let archive = tar(&[
        ("one/metrics.2025-07-10T19-28-00Z-00000", &one),
        ("two/metrics.2025-07-10T19-28-00Z-00000", &two),
        ("three/metrics.2025-07-10T19-28-00Z-00000", &three),
        ("logs/27018.log", (first.clone() + &slow("a.one")).as_bytes()),
        ("logs/27019.log", (second.clone() + &slow("a.two")).as_bytes()),
        ("three/mongod.log", slow("a.three").as_bytes()),
        ("three/other.log", (foreign + &slow("a.foreign")).as_bytes()),
        ("mongod.log", slow("a.unknown").as_bytes()),
    ]);
    fs::write(folder.join("set.tar"), gzip(&archive)).unwrap();
    let output = fathom(&["explain", "set.tar", "--json"], &folder);
    let expected = [("db1:27018", "a.one"), ("db1:27019", "a.two"), ("db3:27017", "a.three")];
    let expected = expected.map(|(host, name)| (host.to_owned(), name.to_owned()));
    assert_eq!(namespaces(output.json()["servers"].as_array().unwrap()), expected);
    let notes = &output.stderr;
    assert!(notes.contains("other.log was not read: it is of db9:27017"), "{notes}");
    assert!(notes.contains("set.tar/mongod.log was not read: it does not say which of 3 servers"), "{notes}");
    assert_eq!(notes.lines().count(), 2, "{notes}");
    // A terminal shows which member they are of.
    let text = fathom(&["explain", "set.tar"], &folder).stdout;
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
    assert!(at("a.one find") < at("on db1:27018") && at("on db1:27018") < at("a.two find"), "{text}");
    assert!(text.lines().count() <= 40, "{text}");
    // A page without names has none of the server that was not recorded.
    let page = fathom(&["report", "set.tar", "--redact", "--output", "-"], &folder).expect_code(0).stdout;
    assert!(page.contains("was not read: it is of "), "{page}");
    for name in ["db9:", "set.tar/three", "db1:"] {
        assert!(!page.contains(name), "{name}: {page}");
    }
    // Folders, and logs that are named.
    for (name, contents) in [("one", &one), ("two", &two)] {
        fs::create_dir(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("metrics.2025-07-10T19-28-00Z-00000"), contents).unwrap();
    }
    fs::write(folder.join("two/mongod.log"), first + &slow("a.one")).unwrap();
    fs::write(folder.join("one/mongod.log"), second + &slow("a.two")).unwrap();
    assert_eq!(namespaces(&servers(&["one", "two"], &folder)), expected[..2]);
    let named = ["one", "two", "--log", "one/mongod.log", "--log", "two/mongod.log"];
    assert_eq!(namespaces(&servers(&named, &folder)), expected[..2]);
    let log = fs::read(folder.join("two/mongod.log")).unwrap();
    let piped = Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["explain", "one", "two", "--log", "-", "--json"])
        .current_dir(&folder)
        .stdin(log)
        .run();
    let piped = namespaces(piped.json()["servers"].as_array().unwrap());
    assert_eq!(piped, [expected[0].clone(), ("db1:27019".to_owned(), String::new())]);
    fs::write(folder.join("unknown.log"), slow("a.unknown")).unwrap();
    let refused = fathom(&["explain", "one", "two", "--log", "unknown.log"], &folder).expect_code(2);
    assert!(refused.stderr.contains("does not say which of 2 servers wrote it"), "{refused:?}");
}

#[test]
fn an_import_names_the_logs_and_dumps_that_it_leaves() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    let (file, older, newer) = capped();
    let archive = tar(&[
        ("db/mongod.log", newer.as_bytes()),
        ("db/mongod.log.1.gz", &gzip(older.as_bytes())),
        ("db/status.json", b"{ host: 'xx:27958', version: '4.0.3', process: 'mongod', uptime: 5 }"),
        ("db/notes.txt", b"nothing"),
        (&format!("db/diagnostic.data/{METRICS}"), &file),
    ]);
    fs::write(folder.join("case.tar"), archive).unwrap();
    let output = fathom(&["import", "case.tar", "--runs", "runs", "--json"], &folder).expect_code(0).json();
    let run = PathBuf::from(output["run_folder"].as_str().unwrap());
    let run = folder.join(run);
    let manifest: Value = serde_json::from_slice(&fs::read(run.join("manifest.json")).unwrap()).unwrap();
    let note = manifest["environment"]["note.000"].as_str().unwrap_or_else(|| panic!("{manifest:#}"));
    for name in ["case.tar/db/mongod.log,", "case.tar/db/mongod.log.1,", "case.tar/db/status.json"] {
        assert!(note.contains(name), "{note}");
    }
    assert!(!note.contains("notes.txt"), "{note}");
    let page = fathom(&["report", run.to_str().unwrap(), "--redact", "--output", "-"], &folder);
    let page = page.expect_code(0).stdout;
    assert!(page.contains("Not copied") && !page.contains("case.tar/"), "{page}");
    let kept: Vec<PathBuf> =
        fs::read_dir(run.join("recording/000")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(kept, [run.join("recording/000").join(METRICS)]);
}

/// A recording that begins in the middle has no document of the server's options.
#[test]
fn facts_of_a_dump_are_known_to_the_judge() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    write_trap(&folder.join("whole"), RecordingTrap::FullFileSystem).unwrap();
    let whole = fs::read(folder.join("whole/metrics.2025-07-10T19-28-00Z-00000")).unwrap();
    let first = u32::from_le_bytes(whole[..4].try_into().unwrap()) as usize;
    let part = &whole[first..];
    let options = |path: &str| {
        format!(
            "[ {{ argv: ['mongod'], parsed: {{ storage: {{ dbPath: '{path}' }} }} }}, {{ host: 'db1.example.net:27017', version: '7.0.12', process: 'mongod', uptime: 5 }} ]"
        )
    };
    let judged = |name: &str, dump: &str| {
        let archive =
            tar(&[("node/diagnostic.data/metrics.interim", part), ("node/options.json", dump.as_bytes())]);
        fs::write(folder.join(name), archive).unwrap();
        let server = servers(&[name], &folder)[0].clone();
        (server["judgement"]["verdict"]["cause"].clone(), server["facts"]["dumps"].clone())
    };
    let (cause, dumps) = judged("here.tar", &options("/data/db"));
    assert_eq!((cause.as_str(), dumps.as_array().map(Vec::len)), (Some("file-system-full"), Some(1)));
    // The data are in a file system that was not recorded.
    let (cause, _) = judged("elsewhere.tar", &options("/srv/mongodb"));
    assert_eq!(cause, Value::Null);
    let disaggregated =
        "{ argv: ['mongod'], parsed: { setParameter: { disaggregatedStorageEnabled: true } } }";
    let archive = tar(&[("metrics.interim", part), ("options.json", disaggregated.as_bytes())]);
    fs::write(folder.join("apart.tar"), archive).unwrap();
    assert_eq!(servers(&["apart.tar"], &folder)[0]["judgement"]["verdict"]["outcome"], "not_examined");
    let info = fathom(&["ftdc", "info", "here.tar"], &folder).expect_code(0).stdout;
    assert!(info.contains("options.json"), "{info}");
}

/// The output of a verb that reads an archive on standard input.
fn piped(arguments: &[&str], archive: &[u8], folder: &Path) -> Output {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(arguments)
        .current_dir(folder)
        .state(folder.join("state"))
        .stdin(archive)
        .run()
}

#[test]
fn an_archive_on_standard_input_is_read_as_a_file_is() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    let (file, older, newer) = capped();
    let dump: &[u8] = b"{ host: 'xx:27958', version: '4.0.3', process: 'mongod', uptime: 5, wiredTiger: { cache: { 'maximum bytes configured': 268435456 } } }";
    let node = tar(&[
        ("node/mongod.log", newer.as_bytes()),
        (&format!("node/diagnostic.data/{METRICS}"), &file),
        ("node/mongod.log.1.gz", &gzip(older.as_bytes())),
        ("node/status.json", dump),
        ("node/collection-0.wt", &[7; 5000]),
    ]);
    let nested = tar(&[("case/node.tar.gz", &gzip(&node))]);
    // A dump and a log that lie near are of another server.
    fs::write(folder.join("status.json"), "{ version: '9', process: 'mongod', uptime: 5, host: 'x' }")
        .unwrap();
    fs::write(folder.join("mongod.log"), newer.as_bytes()).unwrap();
    fs::write(folder.join("node.tar"), &node).unwrap();
    let expected = servers(&["node.tar"], &folder)[0].clone();
    for archive in [&node, &gzip(&node), &zstd::encode_all(node.as_slice(), 1).unwrap(), &nested] {
        let output = piped(&["explain", "-", "--json"], archive, &folder);
        let found = output.json()["servers"][0].clone();
        assert!(table(&found) == table(&expected), "{output:?}");
        assert_eq!(found["judgement"], expected["judgement"]);
        assert_eq!(found["facts"]["dumps"].as_array().map(Vec::len), Some(1), "{:#}", found["facts"]);
        assert_eq!(found["facts"]["cache_bytes"], expected["facts"]["cache_bytes"]);
        assert_eq!(output.stderr, "");
    }
    let info = piped(&["ftdc", "info", "-"], &node, &folder).expect_code(0).stdout;
    assert!(info.contains("node/status.json"), "{info}");
    let page = piped(&["report", "-", "--output", "-"], &node, &folder).expect_code(0).stdout;
    assert!(page.contains("find { filter: { _id: ? } }"), "{page}");
    let run = piped(&["import", "-", "--runs", "runs", "--json"], &node, &folder).expect_code(0).json();
    let manifest = folder.join(run["run_folder"].as_str().unwrap()).join("manifest.json");
    let manifest = fs::read_to_string(manifest).unwrap();
    assert!(manifest.contains("node/mongod.log,") && manifest.contains("node/status.json"), "{manifest}");
    // A log that is named is the only one; logs alone are read too.
    let named = piped(&["explain", "-", "--log", "mongod.log", "--json"], &node, &folder).json();
    assert_eq!(named["servers"][0]["slow_operations"]["files"], serde_json::json!(["mongod.log"]));
    let logs = tar(&[("mongod.log", newer.as_bytes()), ("mongod.log.1", older.as_bytes())]);
    let only = piped(&["explain", "-", "--json"], &gzip(&logs), &folder).expect_code(4).json();
    assert_eq!(only["slow_operations"]["files"].as_array().map(Vec::len), Some(2), "{only:#}");
}

#[test]
fn a_single_file_on_standard_input_has_no_folder() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    let (file, older, _) = capped();
    fs::write(folder.join("mongod.log"), older).unwrap();
    fs::write(folder.join("status.json"), "{ version: '4.0.3', process: 'mongod', uptime: 5, host: '' }")
        .unwrap();
    for contents in [&file, &gzip(&file)] {
        let output = piped(&["explain", "-", "--json"], contents, &folder).expect_code(1);
        let server = output.json()["servers"][0].clone();
        assert_eq!(server["judgement"]["verdict"]["cause"], "storage-reads", "{server:#}");
        assert_eq!((&server["slow_operations"], &server["facts"]["dumps"]), (&Value::Null, &Value::Null));
    }
    for contents in [&b""[..], b"no recording", &[0; 4096], &gzip(b"no recording"), &tar(&[("a.txt", b"a")])]
    {
        let output = piped(&["explain", "-"], contents, &folder);
        assert!(matches!(output.code, 2 | 3), "{output:?}");
        assert_eq!((output.stdout.as_str(), output.stderr.lines().count()), ("", 1), "{output:?}");
    }
}
