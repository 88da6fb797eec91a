//! Work of each kind that fills a resource, with a loss of the others and without, as `$currentOp`, `top` and threads show it.

use fathom_record::disk::Entry;
use fathom_record::verdict::{LatencyClock, Outcome};
use fathom_record::{CollectionUse, ServerWork, ThreadUse};

use super::*;

const SECOND: u64 = 1_000_000_000;
const SECONDS: u64 = 60;
const TABLE: &str = "ycsb.usertable";

fn group(
    kind: &str,
    namespace: &str,
    plan: Option<&str>,
    application: &str,
    connections: &[u64],
) -> OperationGroup {
    OperationGroup {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        shape: "{ filter: { field1: ? } }".to_owned(),
        plan: plan.map(str::to_owned),
        application: Some(application.to_owned()),
        client: Some("10.0.0.5".to_owned()),
        count: connections.len() as u64,
        longest_us: 100_000,
        longest_operation: Some("4711".to_owned()),
        connections: connections.to_vec(),
        ..OperationGroup::default()
    }
}

fn used(namespace: &str, kind: &str, time_us: u64, count: u64) -> CollectionUse {
    CollectionUse { namespace: namespace.to_owned(), kind: kind.to_owned(), time_us, count }
}

fn thread(name: &str, processor_us: u64, run_wait_us: u64, read: u64, written: u64) -> ThreadUse {
    ThreadUse {
        name: name.to_owned(),
        processor_us,
        run_wait_us,
        read_bytes: Some(read),
        written_bytes: Some(written),
    }
}

/// The evidence of a minute; a second has its figures of series and its work.
fn evidence(of_second: impl Fn(u64) -> (Vec<(&'static str, f64)>, ServerWork)) -> Evidence {
    let mut evidence = Evidence { window_ns: (0, SECONDS * SECOND), ..Evidence::default() };
    for second in 0..SECONDS {
        let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
        let (series, work) = of_second(second);
        for (name, value) in series {
            evidence.series.add(name, "1", Point { begin_ns, end_ns, value });
        }
        let work = ServerWork { begin_ns, end_ns, has_read_operations: true, ..work };
        evidence.results.push(Entry::ServerWork(Box::new(work)));
    }
    evidence
}

/// A server whose processors three scans fill in the chosen seconds. Each of 250 updates a second takes `update_us` then, and 120 µs
/// otherwise; the threads of the others wait `waits_us` a second.
fn scans(runs: impl Fn(u64) -> bool, update_us: u64, waits_us: u64, has_threads: bool) -> Evidence {
    evidence(|second| {
        let runs = runs(second);
        let update_us = 250 * if runs { update_us } else { 120 };
        let queries_us = if runs { 2_700_000 } else { 25_000 };
        let (scan_us, scan_wait_us) = if runs { (620_000, 300_000) } else { (0, 0) };
        let series = vec![
            ("server.0.process.cpu_us", 3.0 * scan_us as f64 + 90_000.0),
            ("server.0.process.run_wait_us", 3.0 * scan_wait_us as f64 + waits_us as f64),
            ("server.0.reads.operations", 250.0),
            ("server.0.writes.operations", 250.0),
            ("server.0.reads.latency_us", queries_us as f64),
            ("server.0.writes.latency_us", update_us as f64),
            ("host.cpu.idle_pct", if runs { 1.0 } else { 90.0 }),
            ("host.cpu.count", 2.0),
            ("host.runnable", if runs { 6.5 } else { 0.5 }),
        ];
        let mut threads: Vec<ThreadUse> =
            (3..6).map(|at| thread(&format!("conn{at}"), scan_us, scan_wait_us, 0, 0)).collect();
        threads.extend((10..14).map(|at| thread(&format!("conn{at}"), 10_000, waits_us / 4, 0, 0)));
        threads.push(thread("WTCheck", 20_000, 0, 0, 0));
        let scan = group("find", TABLE, Some("COLLSCAN"), "nightly", &[3, 4, 5]);
        let work = ServerWork {
            operations: if runs { vec![scan] } else { Vec::new() },
            collections: vec![used(TABLE, "queries", queries_us, 276), used(TABLE, "update", update_us, 250)],
            process: has_threads.then(|| thread("mongod", 3 * scan_us + 90_000, 0, 0, 0)),
            threads: if has_threads { threads } else { Vec::new() },
            ..ServerWork::default()
        };
        (series, work)
    })
}

fn found<'j>(judgement: &'j Judgement, id: &str) -> Option<&'j Finding> {
    judgement.findings.iter().find(|one| one.id == id)
}

#[test]
fn scans_that_hurt_no_other_operation_are_named_and_hold_nothing_back() {
    let judgement = crate::judge(&scans(|_| true, 122, 2000, true));
    let finding = found(&judgement, "collection-scan").unwrap();
    assert!(
        finding.claim.starts_with(
            "Scans of ycsb.usertable without an index from nightly use 1.86 processors, 93 to 100 % of the"
        ),
        "{finding:#?}"
    );
    assert_eq!((finding.confidence, finding.is_alarm()), (Confidence::Likely, false), "{finding:#?}");
    let command = finding.command.as_deref().unwrap();
    assert!(command.contains("createIndex({\"field1\": 1})") && command.contains("a proposal"), "{command}");
    assert!(finding.advice.as_deref().unwrap().contains("db.killOp(4711)"), "{finding:#?}");
    let filled = found(&judgement, SERVER_FILLS).unwrap();
    assert!(filled.claim.contains("; scans of ycsb.usertable without an index"), "{filled:#?}");
    let verdict = judgement.verdict.as_ref().unwrap();
    assert_eq!(verdict.outcome, Outcome::NotHeldBack, "{judgement:#?}");
    assert!(verdict.sentence.contains("and other operations lose at most"), "{}", verdict.sentence);
}

#[test]
fn scans_of_the_log_are_named_if_the_server_was_not_asked_what_runs() {
    let mut evidence = scans(|_| true, 122, 2000, true);
    evidence.results = vec![Entry::SlowOperation(Box::new(fathom_record::SlowOperation {
        namespace: TABLE.to_owned(),
        operation: "find".to_owned(),
        plan: Some("COLLSCAN".to_owned()),
        duration_ms: 140,
        ended_ns: 5 * SECOND,
        ..fathom_record::SlowOperation::default()
    }))];
    let judgement = crate::judge(&evidence);
    let verdict = judgement.verdict.as_ref().unwrap();
    assert_eq!((verdict.cause.as_deref(), verdict.exit_code()), (Some(SERVER_FILLS), 4), "{verdict:#?}");
    let words = "for its reads; its log has scans of ycsb.usertable without an index";
    assert!(verdict.sentence.contains(words), "{}", verdict.sentence);
}

#[test]
fn scans_that_others_wait_for_cost_their_wait_and_not_the_scans_own_time() {
    // Always: each update waits for a processor for half a millisecond or more, and its 1.3 ms are the whole.
    let judgement = crate::judge(&scans(|_| true, 1300, 250_000, true));
    let verdict = judgement.verdict.as_ref().unwrap();
    assert_eq!(
        (verdict.cause.as_deref(), verdict.exit_code()),
        (Some("collection-scan"), 1),
        "{judgement:#?}"
    );
    let cost = verdict.cost.as_ref().unwrap();
    assert!(cost.mean_us < 1300.0 && cost.interval.0 > 0.3 && cost.interval.1 < 0.8, "{cost:#?}");
    // In half of the time: 1,880 of the 2,000 µs, and 120 µs otherwise.
    let judgement = crate::judge(&scans(|second| second >= 30, 2000, 250_000, true));
    let verdict = judgement.verdict.as_ref().unwrap();
    assert_eq!(
        (verdict.cause.as_deref(), verdict.exit_code()),
        (Some("collection-scan"), 1),
        "{judgement:#?}"
    );
    let cost = verdict.cost.as_ref().unwrap();
    assert!((cost.share - 1880.0 / 2120.0).abs() < 0.01 && (cost.mean_us - 940.0).abs() < 20.0, "{cost:#?}");
    assert!(verdict.reasons[0].starts_with("Scans of ycsb.usertable"), "{verdict:#?}");
}

#[test]
fn a_loss_that_may_matter_is_not_called_none() {
    // The waits are between 9 and 21 % of the others' time.
    let judgement = crate::judge(&scans(|_| true, 122, 6400, true));
    let verdict = judgement.verdict.as_ref().unwrap();
    assert_eq!(
        (verdict.cause.as_deref(), verdict.exit_code()),
        (Some("collection-scan"), 4),
        "{judgement:#?}"
    );
    assert!(
        verdict.sentence.starts_with("Cannot tell: perhaps held back by scans without an index:"),
        "{}",
        verdict.sentence
    );
    let cost = verdict.cost.as_ref().unwrap();
    assert!(cost.share < 0.2 && cost.interval.1 >= 0.2, "{cost:#?}");
}

/// Adds a load of 300 reads a second: its mean is `scanned_us` while the scans run, and 150 µs otherwise.
fn with_load(mut evidence: Evidence, runs: impl Fn(u64) -> bool, scanned_us: f64) -> Evidence {
    for second in 0..SECONDS {
        let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
        let mean_us = if runs(second) { scanned_us } else { 150.0 };
        for (name, value) in [
            ("client.operations.per_s", 300.0),
            ("client.read.per_s", 300.0),
            ("client.read.service.mean_ns", 1000.0 * mean_us),
        ] {
            evidence.series.add(name, "1", Point { begin_ns, end_ns, value });
        }
    }
    evidence
}

#[test]
fn a_watched_load_says_what_it_loses() {
    // The server's own time of the updates hardly changes; the load waits before the server sees its operations.
    let runs = |second| second >= 30;
    let judgement = crate::judge(&with_load(scans(runs, 122, 2000, true), runs, 600.0));
    let verdict = judgement.verdict.as_ref().unwrap();
    assert_eq!(
        (verdict.cause.as_deref(), verdict.exit_code()),
        (Some("collection-scan"), 1),
        "{judgement:#?}"
    );
    // 30 s with 600 µs, 27 s without the margin around the scans and the first second with 150 µs.
    let cost = verdict.cost.as_ref().unwrap();
    assert_eq!(cost.clock, LatencyClock::Service);
    assert!((cost.share - 0.6).abs() < 0.05, "{cost:#?}");
    let finding = found(&judgement, "collection-scan").unwrap();
    assert!(
        finding.evidence[0]
            .starts_with("Operations of the watched load take 600 µs on average while it runs"),
        "{finding:#?}"
    );
    let judgement = crate::judge(&with_load(scans(runs, 122, 2000, true), runs, 155.0));
    let verdict = judgement.verdict.as_ref().unwrap();
    assert_eq!(verdict.outcome, Outcome::NotHeldBack, "{judgement:#?}");
    assert!(verdict.sentence.contains("of their time from the send"), "{}", verdict.sentence);
}

#[test]
fn a_load_that_is_the_culprit_does_not_say_what_others_lose() {
    let runs = |second| second >= 30;
    let mut evidence = with_load(scans(runs, 2000, 2000, true), runs, 600.0);
    for entry in &mut evidence.results {
        let Entry::ServerWork(work) = entry else { continue };
        for group in &mut work.operations {
            group.application = None;
            group.driver = Some("fathom 0.1.0".to_owned());
        }
    }
    let judgement = crate::judge(&evidence);
    let finding = found(&judgement, "collection-scan").unwrap();
    assert_eq!(finding.cost.as_ref().unwrap().clock, LatencyClock::Server, "{finding:#?}");
}

#[test]
fn a_loss_that_no_reading_shows_is_not_claimed() {
    let judgement = crate::judge(&scans(|_| true, 122, 2000, false));
    let verdict = judgement.verdict.as_ref().unwrap();
    assert_eq!(
        (verdict.cause.as_deref(), verdict.exit_code()),
        (Some("collection-scan"), 4),
        "{judgement:#?}"
    );
    assert!(
        verdict.sentence.starts_with("Cannot tell who loses by it: scans of ycsb.usertable without an index"),
        "{}",
        verdict.sentence
    );
    assert!(verdict.sentence.contains("% of the time of all operations"), "{}", verdict.sentence);
    assert_eq!(verdict.cost, None);
}

/// A load of inserts together with 300 updates a second that take `update_us` while it runs, and 400 µs otherwise.
fn bulk_load(runs: impl Fn(u64) -> bool, update_us: u64) -> Evidence {
    evidence(|second| {
        let runs = runs(second);
        let update_us = 300 * if runs { update_us } else { 400 };
        let insert_us = if runs { 900_000 } else { 0 };
        let series = vec![
            ("server.0.reads.operations", 10.0),
            ("server.0.reads.latency_us", 1000.0),
            ("server.0.writes.operations", if runs { 450.0 } else { 300.0 }),
            ("server.0.writes.latency_us", (update_us + insert_us) as f64),
        ];
        let written = if runs { 5_000_000 } else { 0 };
        let mut threads: Vec<ThreadUse> =
            (3..7).map(|at| thread(&format!("conn{at}"), 20_000, 0, 0, written)).collect();
        threads.push(thread("conn10", 10_000, 0, 0, 1_000_000));
        threads.push(thread("WTCheck", 20_000, 0, 0, 30_000_000));
        let load = group("insert", "imports.events", None, "loader", &[3, 4, 5, 6]);
        let update = group("update", TABLE, Some("IDHACK"), "shop", &[10]);
        let mut collections = vec![used(TABLE, "update", update_us, 300)];
        if runs {
            collections.push(used("imports.events", "insert", insert_us, 150));
        }
        let work = ServerWork {
            operations: if runs { vec![load, update] } else { vec![update] },
            collections,
            threads,
            ..ServerWork::default()
        };
        (series, work)
    })
}

/// A judgement that already has a finding on a resource.
fn judged(evidence: &Evidence, id: &str) -> Judgement {
    let finding = Finding::new(id, Severity::Warning, "Something is slow.").confidence(Confidence::Likely);
    let mut judgement = Judgement { findings: vec![finding], ..Judgement::default() };
    judge(evidence, &mut judgement);
    judgement
}

#[test]
fn a_bulk_writer_is_named_with_its_share_of_the_bytes_and_what_others_lose() {
    let judgement = judged(&bulk_load(|second| (20..50).contains(&second), 1800), "journal-on-path");
    let finding = found(&judgement, "bulk-writer").unwrap();
    assert!(
        finding.claim.starts_with("Inserts into imports.events from loader wrote 88 to 91 %"),
        "{finding:#?}"
    );
    let cost = finding.cost.as_ref().unwrap();
    // 30 of 60 seconds: 1,400 of 1,800 µs.
    assert!((cost.share - 1400.0 / 2200.0).abs() < 0.02, "{cost:#?}");
    assert!(
        finding.evidence.iter().any(|said| said.contains("The engine's own threads wrote 1.7 GiB")),
        "{finding:#?}"
    );
    let journal = found(&judgement, "journal-on-path").unwrap();
    assert!(journal.claim.starts_with("Something is slow; inserts into imports.events from loader wrote"));
    assert!(is_of_mixed_mean(journal), "its mean holds the inserts' own time: {journal:#?}");
    // A limit is a cause of its own, and keeps its cost.
    let judgement = judged(&bulk_load(|second| (20..50).contains(&second), 1800), "operations-stand-still");
    assert!(!is_of_mixed_mean(found(&judgement, "operations-stand-still").unwrap()), "{judgement:#?}");
}

#[test]
fn writers_that_the_engines_own_threads_work_for_are_named() {
    let mut evidence = bulk_load(|second| (20..50).contains(&second), 1800);
    for second in 0..SECONDS {
        let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
        let value = if (20..50).contains(&second) { 2.0 } else { 90.0 };
        evidence.series.add("host.cpu.idle_pct", "%", Point { begin_ns, end_ns, value });
    }
    for entry in &mut evidence.results {
        let Entry::ServerWork(work) = entry else { continue };
        let imports = work.operations.iter().any(|one| one.namespace == "imports.events");
        for one in &mut work.threads {
            one.processor_us = match one.name.as_str() {
                "WTCheck" => 900_000,
                "conn10" => 50_000,
                _ => 200_000,
            };
            one.processor_us *= u64::from(imports);
        }
    }
    let mut judgement = Judgement::default();
    judge(&evidence, &mut judgement);
    let finding = found(&judgement, "bulk-writer").unwrap();
    assert!(
        finding.claim.starts_with("Inserts into imports.events from loader use 0.40 processors, "),
        "{finding:#?}"
    );
    assert!(finding.cost.as_ref().unwrap().share > 0.5, "{finding:#?}");
}

#[test]
fn stops_of_a_watched_load_are_left_to_the_work_that_makes_them() {
    let cost = |share: f64, clock| fathom_record::verdict::Cost {
        clock,
        share,
        interval: (share, share),
        mean_us: 1000.0,
        p99_us: None,
        unserved_per_s: None,
        basis: String::new(),
    };
    let window = |from: u64, to: u64| (from * SECOND, to * SECOND);
    let joined = |claim: &str, clock, stalled: Window| {
        let stalls = Finding::new("operations-stand-still", Severity::Warning, claim)
            .cost(cost(0.97, LatencyClock::Response))
            .window(stalled);
        let work = Finding::new("bulk-writer", Severity::Warning, "Inserts into imports.events wrote 90 %")
            .confidence(Confidence::Likely)
            .cost(cost(0.9, clock))
            .window(window(10, 30));
        let mut findings = vec![stalls, work];
        join_symptoms(&mut findings);
        findings[0].cost.is_none()
    };
    let still = "server 0 answered and finished no operation";
    assert!(joined(still, LatencyClock::Response, window(12, 20)));
    // Much of it is older than the work; the load was not watched; a limit held the device.
    assert!(!joined(still, LatencyClock::Response, window(2, 20)));
    assert!(!joined(still, LatencyClock::Server, window(12, 20)));
    let limited = format!("{still}: sdb {AT_LIMIT} 5 bytes");
    assert!(!joined(&limited, LatencyClock::Response, window(12, 20)));
}

#[test]
fn a_bulk_load_with_room_is_silent() {
    let mut judgement = Judgement::default();
    judge(&bulk_load(|second| second >= 30, 400), &mut judgement);
    assert_eq!(judgement.findings, []);
    // A finding that was not decided says nothing about a resource.
    let undecided =
        Finding::new("journal-on-path", Severity::Note, "Perhaps.").confidence(Confidence::CannotTell);
    let mut judgement = Judgement { findings: vec![undecided.clone()], ..Judgement::default() };
    judge(&bulk_load(|second| second >= 30, 400), &mut judgement);
    assert_eq!(judgement.findings, [undecided]);
    // If no other operation runs, none loses anything.
    let alone = evidence(|_| {
        let work = ServerWork {
            operations: vec![group("insert", "imports.events", None, "loader", &[3])],
            collections: vec![used("imports.events", "insert", 900_000, 150)],
            ..ServerWork::default()
        };
        (vec![("server.0.writes.operations", 150.0)], work)
    });
    let judgement = judged(&alone, "journal-on-path");
    assert_eq!(judgement.findings.len(), 1, "{judgement:#?}");
    assert!(judgement.findings[0].claim.contains("inserts into imports.events"), "{judgement:#?}");
}

/// Two clients that query one collection by an index, of which one reads past the cache in the chosen seconds.
fn reader(runs: impl Fn(u64) -> bool, update_us: u64) -> Evidence {
    evidence(|second| {
        let runs = runs(second);
        let update_us = 200 * if runs { update_us } else { 300 };
        let report = group("find", TABLE, Some("IXSCAN { day: 1 }"), "report", &[3]);
        let shop = group("find", TABLE, Some("IXSCAN { user: 1 }"), "shop", &[10, 11, 12]);
        let mut threads: Vec<ThreadUse> =
            (10..13).map(|at| thread(&format!("conn{at}"), 20_000, 0, 100_000, 0)).collect();
        threads.push(thread("conn3", 30_000, 0, if runs { 20_000_000 } else { 0 }, 0));
        let work = ServerWork {
            operations: if runs { vec![report, shop] } else { vec![shop] },
            collections: vec![
                used(TABLE, "queries", if runs { 1_000_000 } else { 40_000 }, 210),
                used(TABLE, "update", update_us, 200),
            ],
            threads,
            ..ServerWork::default()
        };
        let series = vec![
            ("server.0.reads.operations", 210.0),
            ("server.0.writes.operations", 200.0),
            ("server.0.writes.latency_us", update_us as f64),
        ];
        (series, work)
    })
}

#[test]
fn one_client_that_reads_most_of_the_bytes_is_named() {
    let judgement = judged(&reader(|second| second % 20 < 10, 900), "cache-misses-on-path");
    let finding = found(&judgement, "one-client").unwrap();
    assert!(
        finding.claim.starts_with("The client report on 10.0.0.5 with 1 connection read 97 % of the bytes"),
        "{finding:#?}"
    );
    // Of 20 seconds 10 have 600 µs more than 300.
    let cost = finding.cost.as_ref().unwrap();
    assert!((cost.share - 0.5).abs() < 0.02, "{cost:#?}");
    assert!(finding.command.as_deref().unwrap().contains("appName: \"report\""), "{finding:#?}");
}

#[test]
fn a_client_that_is_most_of_all_connections_is_not_blamed() {
    let evidence = evidence(|_| {
        let shop = group("find", TABLE, Some("IXSCAN { user: 1 }"), "shop", &[10, 11, 12, 13]);
        let other = group("find", "a.b", Some("IXSCAN { day: 1 }"), "report", &[3]);
        let threads = [3, 10, 11, 12, 13].map(|at| thread(&format!("conn{at}"), 1000, 0, 1_000_000, 0));
        let work = ServerWork {
            operations: vec![shop, other],
            collections: vec![used(TABLE, "queries", 9000, 90), used("a.b", "queries", 9000, 90)],
            threads: threads.to_vec(),
            ..ServerWork::default()
        };
        (vec![("server.0.reads.operations", 180.0)], work)
    });
    let judgement = judged(&evidence, "cache-misses-on-path");
    assert_eq!(judgement.findings.len(), 1, "{judgement:#?}");
    assert!(judgement.findings[0].claim.contains("queries of ycsb.usertable from shop"), "{judgement:#?}");
}

#[test]
fn writes_that_every_client_makes_are_no_bulk_load() {
    let evidence = evidence(|second| {
        let kind = if second % 2 == 0 { "update" } else { "find" };
        let operation = group(kind, TABLE, Some("IDHACK"), "shop", &[10, 11]);
        let threads = [10, 11].map(|at| thread(&format!("conn{at}"), 1000, 0, 0, 5_000_000));
        let work = ServerWork {
            operations: vec![operation],
            collections: vec![used(TABLE, "update", 90_000, 90), used(TABLE, "queries", 9000, 90)],
            threads: threads.to_vec(),
            ..ServerWork::default()
        };
        (vec![("server.0.writes.operations", 90.0)], work)
    });
    let judgement = judged(&evidence, "journal-on-path");
    assert_eq!(judgement.findings.len(), 1, "{judgement:#?}");
}
