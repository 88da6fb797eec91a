//! Tests `fathom explain` on run folders of a real mongod under known faults: the right cause, exit code and figures in the first ten lines.
//!
//! The README of the bundles says what was done to the server, and how much its clients felt of it.

use std::path::{Path, PathBuf};

use fathom_explain::{Evidence, Judgement};
use fathom_record::disk::Entry;
use fathom_record::{Confidence, Finding, Point};
use fathom_testkit::{Fathom, Scratch, assert, assert_eq, test};
use serde_json::Value;

/// The bundles of run folders, recorded by `fathom explain --uri` on a mongod 4.0.
fn bundles() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/mongod-runs")
}

/// The verdict of the program on a run folder.
struct JudgedRun {
    /// The first ten lines of the text, as one line.
    first_lines: String,
    /// The whole text, as one line.
    text: String,
    verdict: Value,
    code: i32,
}

impl JudgedRun {
    fn of_bundle(name: &str) -> JudgedRun {
        let bundle = bundles().join(format!("{name}.tar.zst"));
        let scratch = Scratch::new().unwrap();
        let run = |words: &[&str]| {
            let output =
                Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(words).current_dir(scratch.path()).run();
            assert!(!output.stdout.is_empty(), "{output:?}");
            output
        };
        let imported = run(&["runs", "import", &bundle.display().to_string(), "--runs", "runs"]);
        let folder = imported.stdout.lines().last().unwrap_or_default().trim().to_owned();
        assert!(scratch.path().join(&folder).is_dir() || Path::new(&folder).is_dir(), "{imported:?}");
        let (text, json) = (run(&["explain", &folder]), run(&["explain", &folder, "--json"]));
        let lines = text.stdout.lines().take(10).map(str::trim);
        let verdict = json.json()["verdict"].clone();
        JudgedRun {
            first_lines: lines.collect::<Vec<_>>().join(" "),
            text: text.stdout.split_whitespace().collect::<Vec<_>>().join(" "),
            verdict,
            code: text.code,
        }
    }

    fn expect(&self, cause: Option<&str>, code: i32, facts: &[&str]) {
        assert_eq!((self.verdict["cause"].as_str(), self.code), (cause, code), "{}", self.text);
        for fact in facts {
            assert!(
                self.first_lines.contains(fact),
                "'{fact}' is not in the first ten lines:\n{}",
                self.text
            );
        }
        // An interval that takes the sentence back is not printed as a figure.
        assert!(!self.first_lines.contains("(0 to "), "{}", self.text);
    }

    /// The mean cost in milliseconds, which must be within a quarter of what lifting the fault brought.
    fn expect_cost_ms(&self, lift_ms: f64) {
        let cost_ms = self.verdict["cost"]["mean_us"].as_f64().unwrap_or_default() / 1e3;
        assert!(
            (cost_ms / lift_ms - 1.0).abs() <= 0.25,
            "{cost_ms} ms, and the lift is {lift_ms} ms:\n{}",
            self.text
        );
    }
}

#[test]
fn a_calm_server_is_not_held_back() {
    JudgedRun::of_bundle("control").expect(None, 0, &["Not held back"]);
}

#[test]
fn a_cap_on_writes_is_named_with_its_file_and_with_what_queues_outside() {
    let run = JudgedRun::of_bundle("write-cap-journal");
    let facts = [
        "120 writes a second",
        "blkio.throttle.write_iops_device",
        "answered and finished no operation",
        "clients that keep to a rate wait for seconds",
    ];
    run.expect(Some("capped-by-throttle"), 1, &facts);
    run.expect_cost_ms(74.1);
}

#[test]
fn a_cap_on_reads_is_named_with_its_file_and_no_larger_cache() {
    let run = JudgedRun::of_bundle("iops-cap-reads");
    let facts =
        ["120 reads a second", "blkio.throttle.read_iops_device", "connections have an operation under way"];
    run.expect(Some("capped-by-throttle"), 1, &facts);
    run.expect_cost_ms(63.8);
    assert!(!run.text.to_lowercase().contains("enlarge the cache"), "{}", run.text);
}

#[test]
fn a_quota_is_named_on_an_idle_host_with_the_wait_outside_the_server() {
    let run = JudgedRun::of_bundle("cpu-quota");
    let facts = ["a quota of processors", "the host is idle for 96 %", "0.06 processors", "97 % of the time"];
    run.expect(Some("processor-is-short"), 1, &facts);
    run.expect_cost_ms(33.0);
    assert!(!run.text.contains("stop what else runs"), "{}", run.text);
    assert!(run.text.contains("a ping, which does no work, takes"), "{}", run.text);
}

#[test]
fn a_server_that_fills_the_processors_is_named_and_no_loss_is_claimed_from_a_mixed_mean() {
    let run = JudgedRun::of_bundle("missing-index");
    let facts = ["Server 0 itself uses 1.93 of the host's 2 processors".replace('S', "s")];
    let facts: Vec<&str> = facts.iter().map(String::as_str).chain(["for its reads", "writes lose"]).collect();
    run.expect(Some("server-fills-processors"), 4, &facts);
    assert!(!run.text.contains("4.59 ms"), "{}", run.text);
}

#[test]
fn an_index_build_is_named_with_its_time_and_what_others_waited() {
    let run = JudgedRun::of_bundle("index-build");
    let facts = ["createIndexes", "ycsb.usertable", "twice, for 1.17 s and 1.39 s", "waited 43"];
    run.expect(Some("lock-held-by"), 1, &facts);
    run.expect_cost_ms(38.0);
}

#[test]
fn a_bulk_load_is_a_standstill_with_its_seconds_its_cause_and_its_writer() {
    let run = JudgedRun::of_bundle("bulk-load");
    let facts = [
        "For 26 of 45 s",
        "answered and finished no operation",
        "20 write tickets were out",
        "bytes written a second",
        "a checkpoint ran",
        "imports.events",
    ];
    run.expect(Some("operations-stand-still"), 1, &facts);
    run.expect_cost_ms(8600.0);
}

/// Two minutes of a real mongod with what ran on it each second: `$currentOp`, `top` and counters, in the form of a run folder's records.
struct RecordedWork {
    evidence: Evidence,
    judgement: Judgement,
}

impl RecordedWork {
    fn of_fixture(name: &str) -> RecordedWork {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/server-work");
        let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
        let mut evidence = Evidence::default();
        for line in text.lines() {
            let second: Value = serde_json::from_str(line).unwrap();
            let work: fathom_record::ServerWork = serde_json::from_value(second["work"].clone()).unwrap();
            let (begin_ns, end_ns) = (work.begin_ns, work.end_ns);
            for (name, value) in second["series"].as_object().unwrap() {
                let value = value.as_f64().unwrap();
                evidence.series.add(name, "1", Point { begin_ns, end_ns, value });
            }
            evidence.window_ns.1 = end_ns;
            evidence.results.push(Entry::ServerWork(Box::new(work)));
        }
        let judgement = fathom_explain::judge(&evidence);
        RecordedWork { evidence, judgement }
    }

    fn finding(&self, id: &str) -> &Finding {
        let found = self.judgement.findings.iter().find(|one| one.id == id);
        found.unwrap_or_else(|| panic!("{id} is not among {:#?}", self.judgement.findings))
    }
}

#[test]
fn recorded_scans_are_named_and_take_next_to_nothing_from_others() {
    let recorded = RecordedWork::of_fixture("collection-scan");
    let finding = recorded.finding("collection-scan");
    assert!(
        finding.claim.starts_with("Scans of ycsb.usertable without an index take 9"),
        "threads were not read, so the share is one of time: {finding:#?}"
    );
    // The other client's mean was 0.32 ms before and 0.36 ms meanwhile.
    assert!(finding.cost.as_ref().is_none_or(|cost| cost.share < 0.2), "{finding:#?}");
    assert_eq!((finding.confidence, finding.is_alarm()), (Confidence::Likely, false), "{finding:#?}");
    assert!(finding.command.as_deref().unwrap().contains("a proposal"), "{finding:#?}");
    let code = recorded.judgement.verdict.as_ref().unwrap().exit_code();
    assert_eq!(code, 0, "{:#?}", recorded.judgement.verdict);
}

#[test]
fn a_recorded_index_build_is_named_without_a_log() {
    let recorded = RecordedWork::of_fixture("index-build");
    let finding = recorded.finding("lock-held-by");
    assert!(
        finding.claim.starts_with(
            "An index build (createIndexes) on ycsb.usertable held a lock once, for at least 1.11 s"
        ),
        "the other build lay between two readings: {finding:#?}"
    );
    let verdict = recorded.judgement.verdict.as_ref().unwrap();
    assert_eq!((verdict.cause.as_deref(), verdict.exit_code()), (Some("lock-held-by"), 1), "{verdict:#?}");
}

#[test]
fn a_recorded_bulk_load_is_named_with_what_the_other_client_loses() {
    let recorded = RecordedWork::of_fixture("bulk-load");
    let finding = recorded.finding("bulk-writer");
    assert!(finding.claim.starts_with("Inserts into imports.events take"), "{finding:#?}");
    // By the other client's clock 0.41 ms before and 1.6 to 2.0 ms meanwhile; the server's clock sees the part within it.
    // Reads take 673 µs in place of 147 and updates 1,102 in place of 200: 15.4 of 23.2 s of the two minutes.
    let cost = finding.cost.as_ref().unwrap();
    assert!((cost.share - 15.4 / 23.2).abs() < 0.01 && cost.interval.0 > 0.4, "{finding:#?}");
    let verdict = recorded.judgement.verdict.as_ref().unwrap();
    assert_eq!((verdict.cause.as_deref(), verdict.exit_code()), (Some("bulk-writer"), 1), "{verdict:#?}");
}

#[test]
fn work_of_calm_seconds_is_no_finding() {
    let mut recorded = RecordedWork::of_fixture("bulk-load");
    recorded.evidence.window_ns.1 = 28_000_000_000;
    let calm = fathom_explain::judge(&recorded.evidence);
    let ids = ["bulk-writer", "collection-scan", "one-client", "lock-held-by"];
    assert!(!calm.findings.iter().any(|one| ids.contains(&one.id.as_str())), "{:#?}", calm.findings);
}
