//! Formats that must not change unnoticed: one of each record, the form of a latency log, columns, fio's document, tables of docs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine;
use fathom_record::catalog::{Additivity, CATALOG};
use fathom_record::disk::{Entry, Step};
use fathom_record::{Finding, LatencyLog, Manifest, Reading, RunWriter, State};
use fathom_report::{FioStep, fio_json};
use fathom_stats::Histogram;
use fathom_testkit::{Fathom, Scratch};
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::schemas::{all, assert_valid, docs};
use super::strict::assert_strict;

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/formats");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// A document that is read and written again is unchanged.
#[track_caller]
fn assert_round_trip<T: Serialize + DeserializeOwned>(document: &Value) -> T {
    let typed: T =
        serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{error}: {document:#}"));
    assert_eq!(serde_json::to_value(&typed).unwrap(), *document);
    typed
}

#[test]
fn one_of_each_record_is_read_and_written_without_loss() {
    let manifest: Value = serde_json::from_str(&fixture("manifest.json")).unwrap();
    assert_valid("manifest", &manifest);
    assert_round_trip::<Manifest>(&manifest);
    let findings: Value = serde_json::from_str(&fixture("findings.json")).unwrap();
    assert_valid("findings", &findings);
    assert_round_trip::<Vec<Finding>>(&findings);
    let mut kinds = BTreeSet::new();
    for line in fixture("results.jsonl").lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        assert_valid("result", &entry);
        assert_round_trip::<Entry>(&entry);
        kinds.insert(entry["type"].as_str().unwrap().to_owned());
    }
    let known = all()["result"]["oneOf"].as_array().unwrap().len();
    assert_eq!(kinds.len(), known, "one of each: {kinds:?}");
}

#[test]
fn a_study_is_read_and_written_without_loss_and_no_field_of_it_may_be_spoiled() {
    let study: Value = serde_json::from_str(&fixture("../studies/file-systems.json")).unwrap();
    assert_valid("result", &study);
    assert_round_trip::<Entry>(&study);
    assert_strict("result", &study);
}

/// Known latencies: 1,000 from 10 us on in steps of 1 us.
fn even() -> Histogram {
    let mut histogram = Histogram::new();
    (0..1000).for_each(|number| histogram.record(10_000 + number * 1_000));
    histogram
}

#[test]
fn a_latency_log_has_the_form_that_readers_know() {
    let scratch = Scratch::new().unwrap();
    let path = scratch.path().join("read.service.hlog");
    let second = 1_000_000_000;
    let mut log =
        LatencyLog::create(path.clone(), UNIX_EPOCH + Duration::from_millis(1_500_000_000_250)).unwrap();
    log.add((0, second), &even()).unwrap();
    log.add((second, 2 * second), &even()).unwrap();
    let text = fs::read_to_string(path).unwrap();
    let mut lines = Vec::new();
    for line in text.lines() {
        let Some((head, payload)) = line.split_once(",HISTFAAAA").filter(|_| !line.starts_with('#')) else {
            lines.push(line.to_owned());
            continue;
        };
        // How the payload is compressed is its library's business; what is in it is ours.
        lines.push(format!("{head},<payload>"));
        let bytes = base64::engine::general_purpose::STANDARD.decode(format!("HISTFAAAA{payload}")).unwrap();
        let counts: hdrhistogram::Histogram<u64> =
            hdrhistogram::serialization::Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!((counts.len(), counts.max()), (1000, even().counts().max()));
    }
    insta::assert_snapshot!("hlog", lines.join("\n"));
}

#[test]
fn series_are_in_the_columns_that_the_docs_name() {
    let scratch = Scratch::new().unwrap();
    let mut writer =
        RunWriter::create(&scratch.path(), Manifest::new("disk", "0.0.0", ["fathom".to_owned()])).unwrap();
    writer.readings(&[Reading::new("host.busy_pct", "%", (0, 1_000_000_000), 12.5)]).unwrap();
    let folder = writer.finish(State::Complete, None).unwrap();
    let file = fs::File::open(folder.join("series.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let columns: Vec<String> = reader
        .metadata()
        .file_metadata()
        .schema_descr()
        .columns()
        .iter()
        .map(|column| {
            let repetition = column.self_type().get_basic_info().repetition();
            format!("| `{}` | {} {repetition} |", column.name(), column.physical_type())
        })
        .collect();
    insta::assert_snapshot!("parquet_columns", columns.join("\n"));
    let text = fs::read_to_string(docs().join("formats.md")).unwrap();
    for column in columns {
        assert!(text.contains(&column), "docs/formats.md lacks {column}");
    }
}

#[test]
fn the_table_of_series_is_the_programs() {
    let text = fs::read_to_string(docs().join("series.md")).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    let known: Vec<String> = CATALOG
        .iter()
        .map(|series| {
            let kind = match series.kind {
                Additivity::Sum => "sum",
                Additivity::Gauge => "gauge",
            };
            format!("| `{}` | {} | {kind} | {} |", series.name, series.unit, series.meaning.replace('|', "/"))
        })
        .collect();
    for (row, known) in rows.iter().zip(&known) {
        assert_eq!(row, known, "docs/series.md differs from the catalog");
    }
    assert_eq!(rows.len(), known.len());
}

#[test]
fn fios_document_of_known_latencies() {
    let line =
        fixture("results.jsonl").lines().find(|line| line.contains("\"type\":\"step\"")).unwrap().to_owned();
    let mut step: Step = serde_json::from_str(&line).unwrap();
    (step.begin_ns, step.end_ns, step.streams[0].block_bytes) = (0, 2_000_000_000, 4096);
    let steps =
        [FioStep { step, stream: 0, reads: even(), writes: Histogram::new(), syncs: Histogram::new() }];
    let mut document = fio_json(&steps, "0.0.0", "/data", 1 << 30, 1_500_000_000_250);
    assert_valid("fio", &document);
    // A thousand bins say no more than three.
    let bins = document.pointer_mut("/jobs/0/read/clat_ns/bins").and_then(Value::as_object_mut).unwrap();
    let kept: Vec<String> = bins.keys().take(3).cloned().collect();
    bins.retain(|ns, _| kept.contains(ns));
    insta::assert_json_snapshot!("fio", document);
}

fn demo(scratch: &Scratch) -> PathBuf {
    let kept = scratch.path().join("run");
    Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["demo", "--no-watch", "--keep"])
        .arg(&kept)
        .run()
        .expect_code(0);
    kept.join("report.html")
}

/// Each chart's data: a head, then rows of as many cells, the first a number, the others a number or nothing.
#[test]
fn the_pages_csv_is_a_table() {
    let scratch = Scratch::new().unwrap();
    let page = fs::read_to_string(demo(&scratch)).unwrap();
    let blocks: Vec<&str> = page.split("<pre class=\"csv\" tabindex=\"0\">").skip(1).collect();
    assert!(blocks.len() > 10, "{}", blocks.len());
    for block in blocks {
        let text = block.split("</pre>").next().unwrap();
        let (head, rows) = text.split_once('\n').unwrap();
        // No line of the recorded run has a comma in its name.
        let columns = head.split(',').count();
        assert!(columns >= 2, "{head}");
        for row in rows.lines() {
            let cells: Vec<&str> = row.split(',').collect();
            assert_eq!(cells.len(), columns, "{head}\n{row}");
            assert!(cells[0].parse::<f64>().is_ok(), "{head}\n{row}");
            assert!(cells.iter().all(|cell| cell.is_empty() || cell.parse::<f64>().is_ok()), "{head}\n{row}");
        }
    }
}

/// The names and kinds of all fields of the recorded run's judgement: what a script may rely on.
#[test]
fn the_shape_of_what_explain_says() {
    let scratch = Scratch::new().unwrap();
    let document = Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["demo", "--json"])
        .state(scratch.path())
        .run()
        .expect_code(0)
        .json();
    let mut shape = BTreeSet::new();
    add_shape(&document, "", &mut shape);
    insta::assert_snapshot!("explain_shape", shape.into_iter().collect::<Vec<_>>().join("\n"));
}

fn add_shape(value: &Value, at: &str, shape: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) if at.ends_with("by_sampler") => {
            object.values().for_each(|inner| add_shape(inner, &format!("{at}.*"), shape));
        }
        Value::Object(object) => {
            object.iter().for_each(|(key, inner)| add_shape(inner, &format!("{at}.{key}"), shape));
        }
        Value::Array(list) => list.iter().for_each(|inner| add_shape(inner, &format!("{at}[]"), shape)),
        Value::Null => {}
        Value::Bool(_) => _ = shape.insert(format!("{at}: boolean")),
        Value::Number(_) => _ = shape.insert(format!("{at}: number")),
        Value::String(_) => _ = shape.insert(format!("{at}: string")),
    }
}
