//! Runs whose differences are known.

use std::path::{Path, PathBuf};

use fathom_record::folders::look;
use fathom_record::load::{Load, LoadOperation};
use fathom_record::{Manifest, RunWriter, State};
use fathom_stats::Histogram;

use fathom_record::disk::Entry;

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

/// A load of 24 s at `per_s` reads a second, each taking `latency_ns`.
fn load(parent: &Path, rate: (u64, u64), cpus: &str, findings: &[Finding]) -> PathBuf {
    load_with_failures(parent, rate, 0, cpus, findings)
}

fn load_with_failures(
    parent: &Path,
    (per_s, latency_ns): (u64, u64),
    failed: u64,
    cpus: &str,
    findings: &[Finding],
) -> PathBuf {
    let mut manifest = Manifest::new("ycsb", "0", ["fathom", "ycsb", "run"].map(str::to_owned));
    manifest.environment.insert("cpu.count".to_owned(), cpus.to_owned());
    manifest.environment.insert("kernel".to_owned(), format!("6.{cpus}"));
    manifest.environment.insert("note.000".to_owned(), format!("{per_s}"));
    let mut writer = RunWriter::create(parent, manifest).unwrap();
    let mut whole = Histogram::new();
    for second in 0..24u64 {
        let mut histogram = Histogram::new();
        (0..per_s + second % 3).for_each(|n| histogram.record(latency_ns + n));
        let window = (second * SECOND_NS, (second + 1) * SECOND_NS);
        writer.latency("read.response", window, &histogram).unwrap();
        whole.merge(&histogram);
    }
    let result = Load {
        server: "mongodb://h/".to_owned(),
        workload: "workloada".to_owned(),
        connections: 4,
        seconds: 24.0,
        operations: whole.len(),
        per_s: whole.len() as f64 / 24.0,
        offered_per_s: None,
        by_operation: vec![LoadOperation::new("READ", whole.len(), failed, &whole, &whole)],
        client_cpu_share: 0.1,
        client_limited: false,
    };
    writer.result(&Entry::Load(result)).unwrap();
    writer.findings(findings).unwrap();
    writer.finish(State::Complete, None).unwrap()
}

fn compared(a: &Path, b: &Path) -> Comparison {
    let read = |path: &Path| ReadRun::read(look(path).unwrap(), Run::open(path).unwrap()).unwrap();
    compare(&read(a), &read(b))
}

#[test]
fn figures_have_their_ratio_and_the_noise_of_each_run() {
    let parent = tempfile::tempdir().unwrap();
    let a = load(parent.path(), (1000, 100_000), "2", &[]);
    let b = load(parent.path(), (500, 200_000), "2", &[]);
    let found = compared(&a, &b);
    assert!(found.obstacles.is_empty(), "{:?}", found.obstacles);
    let throughput = found.figures.iter().find(|one| one.metric == "throughput").unwrap();
    assert!((throughput.ratio.unwrap() - 0.5).abs() < 0.01, "{throughput:?}");
    assert_eq!(throughput.beyond_noise, Some(true));
    let noise = throughput.noise_a.unwrap();
    assert!(noise.parts == 12 && noise.low <= 1001.0 && noise.high >= 1000.0, "{noise:?}");
    let median = found.figures.iter().find(|one| one.metric == "read p50").unwrap();
    assert!((median.ratio.unwrap() - 2.0).abs() < 0.02, "{median:?}");
    assert_eq!(median.beyond_noise, Some(true), "{median:?}");
    let same = compared(&a, &a);
    assert!(same.figures.iter().all(|one| one.beyond_noise != Some(true)));
    assert!(found.limits[0].contains("no proof"), "{:?}", found.limits);
}

#[test]
fn failures_have_a_direction_and_withhold_the_verdict_on_speed() {
    let parent = tempfile::tempdir().unwrap();
    let a = load(parent.path(), (1000, 100_000), "2", &[]);
    let b = load_with_failures(parent.path(), (2000, 50_000), 6000, "2", &[]);
    let found = compared(&a, &b);
    let figure = |found: &Comparison, metric: &str| {
        found.figures.iter().find(|one| one.metric == metric).unwrap_or_else(|| panic!("{metric}")).clone()
    };
    let failed = figure(&found, "read failed");
    assert_eq!((failed.ratio, failed.is_better(), failed.beyond_noise), (None, Some(false), Some(true)));
    assert_eq!(figure(&compared(&b, &a), "read failed").is_better(), Some(true));
    let throughput = figure(&found, "throughput");
    assert_eq!(throughput.is_better(), None, "{throughput:?}");
    let reason = "0 % of the operations failed in A, 11 % in B";
    assert!(throughput.withheld.unwrap().contains(reason) && found.obstacles[0].contains(reason));
    // One failure of 24,000 operations is chance.
    let chance = compared(&a, &load_with_failures(parent.path(), (2000, 50_000), 1, "2", &[]));
    assert_eq!(figure(&chance, "throughput").is_better(), Some(true));
    assert!(chance.obstacles.is_empty(), "{:?}", chance.obstacles);
}

#[test]
fn another_machine_comes_first_and_findings_gained_and_lost_are_told() {
    let parent = tempfile::tempdir().unwrap();
    let finding = |id: &str, severity, claim: &str| Finding::new(id, severity, claim);
    let before = [finding("readahead", Severity::Warning, "8192 KiB"), finding("ok", Severity::Ok, "fine")];
    let after = [
        finding("cap", Severity::Critical, "capped at 3000"),
        finding("readahead", Severity::Note, "16 KiB"),
    ];
    let a = load(parent.path(), (1000, 100_000), "2", &before);
    let b = load(parent.path(), (1000, 100_000), "8", &after);
    let found = compared(&a, &b);
    assert!(found.obstacles[0].contains("cpu.count is 2 and 8"), "{:?}", found.obstacles);
    let facts: Vec<&str> = found.environment.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(facts, ["cpu.count", "kernel"]);
    let changes: Vec<_> = found.findings.iter().map(|one| (one.id.as_str(), one.a, one.b)).collect();
    assert_eq!(
        changes,
        [
            ("cap", None, Some(Severity::Critical)),
            ("readahead", Some(Severity::Warning), Some(Severity::Note))
        ]
    );
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[test]
fn options_are_compared_by_name_whatever_their_order() {
    let manifest = |text: &str| Manifest::new("ycsb", "0", words(text));
    let a = manifest("fathom ycsb run mongodb -p recordcount=10 -P workloads/a --watch --threads=4");
    let b = manifest("/usr/bin/fathom ycsb run mongodb --threads=8 -P workloads/a -p recordcount=20");
    let found: Vec<(String, Option<String>, Option<String>)> =
        changed_settings(&a, &b).into_iter().map(|change| (change.name, change.a, change.b)).collect();
    let some = |text: &str| Some(text.to_owned());
    let expected = [
        ("--threads", some("4"), some("8")),
        ("--watch", some("set"), None),
        ("-p recordcount", some("10"), some("20")),
    ];
    assert_eq!(found, expected.map(|(name, a, b)| (name.to_owned(), a, b)));
}

#[test]
fn where_things_go_does_not_make_another_measurement() {
    let one = command_words(&words("fathom disk --dir /data --runs /tmp/x --json --size 1G"));
    assert_eq!(one, "disk --dir /data --size 1G");
    assert_eq!(one, command_words(&words("./fathom disk --dir /data --seed 7 --size 1G --output=x")));
}
