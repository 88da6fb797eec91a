//! Every verb that writes for other programs, run, and what it wrote held against its schema.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fathom_record::Run;
use fathom_record::catalog::kind_of;
use fathom_testkit::{Fathom, LabServer, Need, Scratch, assert, assert_eq, skip, test, write_recording};
use serde_json::Value;

use super::schemas::{assert_valid, assert_valid_lines};
use super::strict::assert_strict;
use crate::clients::{WIRED_TIGER, serve, stop};
use crate::ycsb::{url, ycsb};

fn fathom(words: &[&str]) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(words)
}

/// A few short steps with reads, writes and syncs.
const SHAPE: [&str; 10] =
    ["--pattern", "randrw", "--durable", "fdatasync", "--depth", "1..4", "--time", "200ms", "--size", "16M"];

/// A call that may find something.
fn said(call: Fathom) -> String {
    let output = call.run();
    assert!(matches!(output.code, 0 | 1 | 4), "{output:?}");
    output.stdout
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn only(runs: &Path) -> PathBuf {
    fs::read_dir(runs).unwrap().next().unwrap().unwrap().path()
}

/// All files of a run folder are as their schemas and tables say.
fn assert_folder(folder: &Path) {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let manifest = parsed(&read("manifest.json"));
    assert_valid("manifest", &manifest);
    assert_strict("manifest", &manifest);
    assert_valid_lines("result", &read("results.jsonl"));
    if folder.join("findings.json").exists() {
        assert_valid("findings", &parsed(&read("findings.json")));
    }
    let run = Run::open(folder).unwrap();
    for (name, series) in run.series().unwrap().iter() {
        let kind = kind_of(name).unwrap_or_else(|| panic!("docs/series.md does not know {name}"));
        assert_eq!(series.unit, kind.unit, "{name}");
    }
    assert!(!run.latency_names().unwrap().is_empty());
}

#[test]
fn disks_documents_lines_and_run_folder() {
    let scratch = Scratch::new().unwrap();
    let runs = scratch.path().join("runs");
    let disk = |json: &str| fathom(&["disk", json, "--dir"]).arg(scratch.path()).args(SHAPE);
    let document = parsed(&said(disk("--json").arg("--runs").arg(&runs)));
    assert_valid("disk", &document);
    assert_strict("disk", &document);
    assert_folder(&only(&runs));
    assert_valid_lines("disk-line", &said(disk("--json=lines").arg("--no-record")));
    let fio = parsed(&said(disk("--json=fio").arg("--no-record")));
    assert_valid("fio", &fio);
    assert_strict("fio", &fio);
    let slo =
        ["--pattern", "randread", "--slo", "p99<50ms", "--time", "200ms", "--depth", "8", "--size", "16M"];
    let lines = said(fathom(&["disk", "--json=lines", "--no-record", "--dir"]).arg(scratch.path()).args(slo));
    assert!(lines.contains("\"objective\""), "{lines}");
    assert_valid_lines("disk-line", &lines);
}

#[test]
fn fios_own_reader_makes_a_table_of_each_job() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    let fio = parsed(&said(fathom(&["disk", "--json=fio", "--no-record", "--dir"]).arg(&folder).args(SHAPE)));
    fs::write(folder.join("fio.json"), fio.to_string()).unwrap();
    let reader =
        Command::new("fio_jsonplus_clat2csv").args(["fio.json", "latency.csv"]).current_dir(&folder).output();
    let Ok(output) = reader else { skip!(Need::Program, "no fio_jsonplus_clat2csv on this machine") };
    assert!(output.status.success(), "{output:?}");
    let jobs = fio["jobs"].as_array().unwrap().len();
    assert!(jobs > 0);
    for job in 0..jobs {
        let table = fs::read_to_string(folder.join(format!("latency_job{job}.csv"))).unwrap();
        assert!(table.starts_with("nsec, ") && table.lines().count() > 2, "{table}");
    }
}

#[test]
fn the_hosts_documents() {
    let doctor = parsed(&said(fathom(&["doctor", "--json"])));
    assert_valid("doctor", &doctor);
    assert_strict("doctor", &doctor);
    let scratch = Scratch::new().unwrap();
    let cleanup =
        parsed(&said(fathom(&["cleanup", "--dry-run", "--json"]).state(scratch.path().join("state"))));
    assert_valid("cleanup", &cleanup);
    let recording = scratch.path().join("diagnostic.data");
    write_recording(&recording).unwrap();
    for (action, schema) in [("info", "ftdc-info"), ("metrics", "ftdc-metrics")] {
        let document = parsed(&said(fathom(&["ftdc", action, "--json"]).arg(&recording)));
        assert_valid(schema, &document);
        assert_strict(schema, &document);
    }
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/recordings");
    for name in ["iops-cap", "server-stopped"] {
        let document = parsed(&said(fathom(&["explain", "--json"]).arg(recordings.join(name))));
        assert_valid("ftdc-judgement", &document);
        assert_strict("ftdc-judgement", &document);
    }
    for words in [&["-x"][..], &["-xm"], &["-xs"], &["-d"], &["-m"], &["-xt"], &["--tree", "-x"], &["-c"]] {
        let call = fathom(&["iostat", "-o", "JSON"]).args(words).args(["1", "2"]);
        let document = parsed(&said(call));
        assert_valid("iostat", &document);
    }
}

#[test]
fn mongoperfs_document() {
    let scratch = Scratch::new().unwrap();
    let call = fathom(&["mongoperf", "--seconds", "3", "--json"]).current_dir(scratch.path());
    let output = call.stdin("{nThreads:2,fileSizeMB:16,r:true,w:true}").run();
    if output.stderr.contains("has no direct I/O") {
        skip!(Need::Kernel, "{}", output.stderr);
    }
    let document = output.expect_code(0).json();
    assert_valid("mongoperf", &document);
    assert_strict("mongoperf", &document);
}

/// YCSB's own report as JSON, and the search for the highest rate.
fn report_and_search(scratch: &Scratch, place: &str) {
    let file = scratch.path().join("report.json");
    let exporter = "exporter=site.ycsb.measurements.exporter.JSONArrayMeasurementsExporter";
    let kept = format!("exportfile={}", file.display());
    let words = ["recordcount=1000", "operationcount=500", "--no-record", exporter, &kept];
    said(ycsb("run", "workloada", place, &words));
    let report = parsed(&fs::read_to_string(&file).unwrap());
    assert_valid("ycsb-report", &report);
    assert_strict("ycsb-report", &report);
    let words = ["recordcount=1000", "operationcount=0", "--find-max", "--step 1s", "--json", "--no-record"];
    let found = parsed(&said(ycsb("run", "workloada", place, &words).args(["--slo", "p99<500ms"])));
    assert_valid("ycsb-find-max", &found);
    assert_strict("ycsb-find-max", &found);
}

fn watched(server: &LabServer) {
    let uri = format!("mongodb://127.0.0.1:{}", server.port());
    let lines = said(fathom(&["watch", "--uri", &uri, "--dir", ".", "--for", "5s", "--json"]));
    assert_valid_lines("watch", &lines);
    assert_strict("watch", &parsed(lines.lines().last().unwrap()));
}

/// The recorded runs have what the short ones above lack: findings with gains, checkpoints, a full queue.
#[test]
fn the_recorded_runs_and_what_is_said_of_them() {
    let scratch = Scratch::new().unwrap();
    let kept = scratch.path().join("runs");
    let output = fathom(&["demo", "--json", "--keep"]).arg(&kept).run().expect_code(0);
    let document = output.json();
    assert_valid("explain", &document);
    assert_strict("explain", &document);
    for name in ["before", "after", "probe"] {
        assert_folder(&kept.join(name));
    }
}

mod proof {
    use super::*;
    use fathom_testkit::test;

    #[test]
    fn the_documents_of_a_loaded_server() {
        let scratch = Scratch::new().unwrap();
        let server = serve(WIRED_TIGER, &scratch, &[]);
        let place = url(&server, "shop", "");
        let loaded = said(ycsb("load", "workloada", &place, &["recordcount=1000", "--no-record", "--json"]));
        assert_valid("ycsb", &parsed(&loaded));
        let runs = scratch.path().join("runs");
        let words = [
            "recordcount=1000",
            "operationcount=0",
            "maxexecutiontime=8",
            "-target 300",
            "--watch",
            "--json",
        ];
        let ran = parsed(&said(ycsb("run", "workloada", &place, &words).arg("--runs").arg(&runs)));
        assert_valid("ycsb", &ran);
        assert_strict("ycsb", &ran);
        let folder = only(&runs);
        assert_folder(&folder);
        let explained = parsed(&said(fathom(&["explain", "--json"]).arg(&folder)));
        assert_valid("explain", &explained);
        assert_strict("explain", &explained);
        report_and_search(&scratch, &place);
        watched(&server);
        stop(server);
    }

    #[test]
    fn checkups_document_and_lines() {
        let scratch = Scratch::new().unwrap();
        let checkup = |json: &str| {
            fathom(&["checkup", "--quick", "--no-load", "--size", "16M", "--no-record", json, "--dir"])
                .arg(scratch.path())
        };
        assert_valid("checkup", &parsed(&said(checkup("--json"))));
        assert_valid_lines("checkup-line", &said(checkup("--json=lines")));
    }

    #[test]
    fn a_checkup_of_a_deployment() {
        let scratch = Scratch::new().unwrap();
        let server = serve(WIRED_TIGER, &scratch, &[]);
        let uri = format!("mongodb://127.0.0.1:{}", server.port());
        let runs = scratch.path().join("runs");
        let checkup = |json: &str| fathom(&["checkup", "--for", "5s", "--uri", &uri, json]);
        assert_valid("checkup", &parsed(&said(checkup("--json").arg("--runs").arg(&runs))));
        assert_folder(&only(&runs));
        assert_valid_lines("checkup-line", &said(checkup("--json=lines").arg("--no-record")));
        stop(server);
    }
}
