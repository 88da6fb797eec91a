//! Tests the output and records of `fathom disk`: strict JSON, lines, fio's format compared with fio itself, text that
//! fits a terminal, and a run folder that this and later versions can read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use fathom_record::disk::Entry;
use fathom_record::{Run, SCHEMA, State};
use fathom_testkit::{Need, Scratch, assert, assert_eq, skip, test};
use serde_json::Value;

use crate::disk::{Probe, assert_probed, results};

/// A few short steps with reads, writes and syncs.
const SHAPE: [&str; 10] =
    ["--pattern", "randrw", "--durable", "fdatasync", "--depth", "1..4", "--time", "200ms", "--size", "16M"];

/// Counts by the name of the latency log that must hold them.
fn counts<'a>(steps: impl Iterator<Item = &'a Value>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for step in steps {
        for stream in step["streams"].as_array().unwrap() {
            let text = |key: &str| stream[key].as_str().unwrap().to_owned();
            let phase = step["phase"].as_str().unwrap().replace(' ', "-");
            let kib = stream["block_bytes"].as_u64().unwrap() / 1024;
            for operations in stream["operations"].as_array().unwrap() {
                let kind = operations["kind"].as_str().unwrap();
                let name = format!("{phase}-{}-{kib}k-d{}-{kind}", text("pattern"), stream["depth"]);
                *counts.entry(name).or_default() += operations["count"].as_u64().unwrap();
            }
        }
    }
    counts
}

/// Asserts that the run has the same counts as these steps.
fn assert_logs(run: &Run, counts: &BTreeMap<String, u64>) {
    assert_eq!(run.latency_names().unwrap(), counts.keys().cloned().collect::<Vec<_>>());
    for (name, count) in counts {
        assert_eq!(run.latency(name).unwrap().len(), *count, "{name}");
    }
}

#[test]
fn the_document_is_strict_and_says_what_the_run_folder_says() {
    let scratch = Scratch::new().unwrap();
    let probe = Probe::new(&scratch.path());
    let output = probe.disk().args(SHAPE).arg("--json").run();
    let document = assert_probed(&output);
    assert_eq!(output.stdout.lines().count(), 1);
    let keys: Vec<&String> = document.as_object().unwrap().keys().collect();
    let wanted = ["error", "fathom_version", "findings", "results", "run_folder", "schema", "state", "verb"];
    assert_eq!(keys, wanted);
    assert_eq!([&document["verb"], &document["state"]], ["disk", "complete"]);
    assert_eq!(document["schema"], SCHEMA);

    // Every result is of a known type of the record: no key is lost in reading or writing.
    let entries = document["results"].as_array().unwrap();
    for entry in entries {
        let typed: Entry = serde_json::from_value(entry.clone()).unwrap();
        assert_eq!(serde_json::to_value(&typed).unwrap(), *entry);
    }
    let run = probe.last_run();
    assert_eq!(document["run_folder"].as_str().map(PathBuf::from), probe.run_folders().pop());
    let kept: Vec<Value> =
        run.results().unwrap().iter().map(|entry| serde_json::to_value(entry).unwrap()).collect();
    assert_eq!(&kept, entries);
    let findings = serde_json::to_value(run.findings().unwrap()).unwrap();
    assert_eq!(findings, document["findings"]);
    assert_eq!(run.manifest.state, State::Complete);
    assert_eq!(run.manifest.command_line[1..3], ["disk", "--dir"]);
    assert_logs(&run, &counts(results(&document, "step").into_iter()));
    let readings = run.readings().unwrap();
    assert!(readings.iter().any(|reading| reading.name.ends_with("-sync.per_s")));
    assert!(readings.iter().all(|reading| reading.begin_ns <= reading.end_ns && !reading.unit.is_empty()));
}

#[test]
fn every_line_is_a_document_and_the_last_is_the_end() {
    let scratch = Scratch::new().unwrap();
    let probe = Probe::new(&scratch.path());
    let output = probe.disk().args(SHAPE).arg("--json=lines").run();
    assert!(output.code <= 1, "{output:?}");
    let lines: Vec<Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let (end, entries) = lines.split_last().unwrap();
    assert_eq!(
        [&end["type"], &end["state"], &end["error"]],
        [&"end".into(), &"complete".into(), &Value::Null]
    );
    assert!(end["findings"].is_array() && end.get("results").is_none());
    assert_eq!([&entries[0]["type"], &entries[1]["type"]], ["subject", "layout"]);
    for entry in entries {
        serde_json::from_value::<Entry>(entry.clone()).unwrap();
    }
    assert!(entries.iter().filter(|entry| entry["type"] == "step").count() >= 3);
}

/// The kind of a value, as a reader in another language sees it.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Checks that every common key has the same kind; counts keys, to ensure an overlap.
fn same_shape(ours: &Value, theirs: &Value, path: &str) -> usize {
    assert_eq!(kind(ours), kind(theirs), "{path}");
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let both = ours.iter().filter_map(|(key, ours)| Some((key, ours, theirs.get(key)?)));
            both.map(|(key, ours, theirs)| 1 + same_shape(ours, theirs, &format!("{path}.{key}"))).sum()
        }
        (Value::Array(ours), Value::Array(theirs)) => match (ours.first(), theirs.first()) {
            (Some(ours), Some(theirs)) => same_shape(ours, theirs, &format!("{path}[]")),
            _ => 0,
        },
        _ => 0,
    }
}

/// Checks the fields that fio-plot and similar tools read.
fn assert_fio_job(job: &Value, who: &str) {
    for direction in ["read", "write"] {
        for key in ["iops", "bw", "io_bytes", "total_ios", "bw_bytes", "runtime", "iops_mean", "iops_stddev"]
        {
            assert!(job[direction][key].is_number(), "{who}: {direction}.{key}");
        }
        for key in ["min", "max", "mean", "stddev", "N"] {
            assert!(job[direction]["lat_ns"][key].is_number(), "{who}: {direction}.lat_ns.{key}");
        }
        let clat = &job[direction]["clat_ns"];
        let bins = clat["bins"].as_object().unwrap();
        let total: u64 = bins.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(Some(total), clat["N"].as_u64(), "{who}: {direction}.clat_ns.bins");
        assert!(bins.keys().all(|ns| ns.parse::<u64>().is_ok()));
        for percentile in ["1.000000", "50.000000", "99.000000", "99.990000"] {
            assert!(clat["percentile"][percentile].is_u64(), "{who}: {direction} {percentile}");
        }
    }
    assert!(job["sync"]["lat_ns"]["N"].as_u64().unwrap() > 0, "{who}: {}", job["sync"]);
    for key in ["rw", "bs", "ioengine"] {
        assert!(job["job options"][key].is_string(), "{who}: job options.{key}");
    }
}

/// The document in fio's format; each of its jobs is checked.
fn written_for_fio(probe: &Probe) -> Value {
    let output = probe.disk().args(SHAPE).args(["--engine", "psync", "--json=fio"]).run();
    assert!(output.code <= 1, "{output:?}");
    let document = output.json();
    let jobs = document["jobs"].as_array().unwrap();
    assert!(jobs.len() >= 3, "a job for each step");
    jobs.iter().for_each(|job| assert_fio_job(job, "fathom"));
    document
}

#[test]
fn what_is_written_for_fio_has_the_figures_of_the_record() {
    let scratch = Scratch::new().unwrap();
    let probe = Probe::new(&scratch.path());
    let ours = written_for_fio(&probe);
    let jobs = ours["jobs"].as_array().unwrap();
    let run = probe.last_run();
    let logged = |kind: &str| -> u64 {
        let names = run.latency_names().unwrap();
        let of = names.iter().filter(|name| name.ends_with(kind));
        of.map(|name| run.latency(name).unwrap().len()).sum()
    };
    let told = |key: &str| jobs.iter().map(|job| job[key]["total_ios"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(
        [told("read"), told("write"), told("sync")],
        [logged("-read"), logged("-write"), logged("-sync")]
    );
}

#[test]
fn fios_shape_is_fios() {
    let scratch = Scratch::new().unwrap();
    let fio = Command::new("fio")
        .args(["--name=x", "--size=16M", "--rw=randrw", "--bs=32k", "--direct=1", "--ioengine=psync"])
        .args(["--fdatasync=1", "--runtime=1", "--time_based", "--output-format=json+"])
        .arg(format!("--directory={}", scratch.path().display()))
        .output();
    let fio = match fio {
        Ok(fio) if fio.status.success() => fio,
        Ok(fio) => skip!(Need::Kernel, "fio does not work here: {}", String::from_utf8_lossy(&fio.stderr)),
        Err(error) => skip!(Need::Program, "no fio: {error}"),
    };
    let text = String::from_utf8_lossy(&fio.stdout);
    let theirs: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    assert_fio_job(&theirs["jobs"][0], "fio");
    let ours = written_for_fio(&Probe::new(&scratch.path()));
    let shared = same_shape(&ours, &theirs, "");
    assert!(shared > 120, "only {shared} keys in common");
}

/// A finished run that an earlier version wrote, shortened; each schema keeps one.
fn fixture(schema: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/runs").join(schema)
}

#[test]
fn a_run_of_schema_1_still_opens() {
    let run = Run::open(fixture("schema-1")).unwrap();
    let manifest = &run.manifest;
    assert_eq!((manifest.schema, manifest.verb.as_str(), manifest.state), (1, "disk", State::Complete));
    assert_eq!(manifest.seed, 42);
    assert!(manifest.finished.is_some() && manifest.error.is_none());
    assert_eq!(manifest.command_line[..4], ["fathom", "disk", "--dir", "/data/db"]);

    let results = run.results().unwrap();
    let kinds = |of: fn(&Entry) -> bool| results.iter().filter(|entry| of(entry)).count();
    assert_eq!(kinds(|entry| matches!(entry, Entry::Subject(_))), 1);
    assert_eq!(kinds(|entry| matches!(entry, Entry::Layout(_))), 1);
    let steps: Vec<_> = results
        .iter()
        .filter_map(|entry| if let Entry::Step(step) = entry { Some(step) } else { None })
        .collect();
    assert_eq!(steps.len(), 4);
    assert_eq!(kinds(|entry| matches!(entry, Entry::Knee(_))), 1);
    let values: Vec<Value> = steps.iter().map(|step| serde_json::to_value(step).unwrap()).collect();
    assert_logs(&run, &counts(values.iter()));
    assert_eq!(run.findings().unwrap().len(), 1);
    let readings = run.readings().unwrap();
    assert!(readings.len() > 20);
    let per_s = |name: &str| readings.iter().filter(|reading| reading.name == name).count();
    assert!(per_s("probe.randrw-randrw-32k-d1-read.per_s") > 0, "{:?}", readings[0]);
}

mod proof {
    use super::*;
    use fathom_testkit::{assert, test};

    #[test]
    fn text_fits_a_terminal() {
        let scratch = Scratch::new().unwrap();
        let probe = Probe::new(&scratch.path());
        let shapes: &[&[&str]] = &[
            &["--pattern", "randrw", "--durable", "fdatasync", "--depth", "1..1024", "--time", "50ms"],
            &["--pattern", "append", "--time", "200ms", "--engine", "io_uring"],
            &["--pattern", "checkpoint", "--time", "300ms", "--verify"],
            &["--pattern", "randwrite", "--rate", "200", "--durable", "dsync", "--time", "500ms"],
            &["--pattern", "randread", "--slo", "p99<50ms", "--time", "200ms", "--depth", "8"],
            &["--pattern", "randread", "--engine", "mmap", "--depth", "2", "--time", "100ms", "--buffered"],
            &["--quick"],
        ];
        for shape in shapes {
            let output = probe.disk().args(*shape).args(["--size", "32M", "--no-record"]).run();
            assert!(output.code <= 1, "{output:?}");
            for line in output.stdout.lines() {
                let columns = line.chars().count();
                assert!(columns <= 80, "{columns} columns: {line}");
                assert!(!line.contains('\u{1b}') && !line.contains('\t'), "{line}");
            }
            for nonsense in ["NaN", "inf", "null", "Some("] {
                assert!(!output.stdout.contains(nonsense), "{nonsense}: {}", output.stdout);
            }
        }
        probe.assert_clean();
    }
}
