//! Servers of which it is known whether operations wait.

use fathom_record::SeriesSet;
use fathom_record::budget::Budget;
use fathom_record::verdict::{Cost, LatencyClock};

use super::*;

const SECOND: u64 = 1_000_000_000;

/// The name of a series, and its value by the second.
type SeriesBySecond = (&'static str, fn(u64) -> f64);

/// A minute at 500 operations a second, of which none ends from 20 to 40 s; what else is read each second, by the second.
fn evidence(more: &[SeriesBySecond]) -> Evidence {
    let mut series = SeriesSet::default();
    for second in 0..60u64 {
        let is_still = (20..40).contains(&second);
        let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
        let reads = if is_still { 1.0 } else { 250.0 };
        let writes = if is_still { 0.0 } else { 250.0 };
        for (name, value) in [("reads.operations", reads), ("writes.operations", writes)] {
            series.add(&format!("server.0.{name}"), "1", Point { begin_ns, end_ns, value });
        }
        for (name, value) in more {
            series.add(name, "1", Point { begin_ns, end_ns, value: value(second) });
        }
    }
    Evidence { series, window_ns: (0, 60 * SECOND), ..Evidence::default() }
}

fn judged(evidence: &Evidence, findings: Vec<Finding>) -> Vec<Finding> {
    let budget = Budget {
        member: "0".into(),
        operations: "all".into(),
        count: 20_000.0,
        window_ns: evidence.window_ns,
        client_mean_us: None,
        server_mean_us: 500.0,
        layers: Vec::new(),
        unexplained_us: 0.0,
        closure: 1.0,
        closes: true,
        missing: Vec::new(),
    };
    let mut judgement = Judgement { budgets: vec![budget], findings, ..Judgement::default() };
    judge(evidence, &mut judgement);
    judgement.findings.into_iter().filter(|one| one.id == ID).collect()
}

fn held_tickets(second: u64) -> f64 {
    if (20..40).contains(&second) { 12.0 } else { 0.0 }
}

#[test]
fn operations_that_hold_tickets_and_do_not_end_are_a_standstill_with_its_cost() {
    let mut evidence = evidence(&[
        ("server.0.tickets.write.out", held_tickets),
        ("server.0.checkpoint.running", |second| if second > 18 { 1.0 } else { 0.0 }),
        ("device.sdb.written_bytes", |_| 9.8e6),
        ("device.sdb.reads", |_| 0.0),
        ("device.sdb.cap.write_bytes_per_s", |_| 1e7),
    ]);
    evidence.environment.insert("device.sdb.cap.write_bytes_per_s.file".into(), "/sys/fs/x".into());
    let found = judged(&evidence, Vec::new());
    let [finding] = found.as_slice() else { panic!("{found:#?}") };
    let expected = "For 20 of 60 s (from 20 s on) server 0 answered and finished no operation: 12 write tickets were out; sdb was at its limit of 10,000,000 bytes written a second (/sys/fs/x); a checkpoint ran";
    assert_eq!(finding.claim, expected);
    assert!(
        finding.evidence[0].contains("500 operations a second: at that rate 10,000 were not served"),
        "{finding:#?}"
    );
    // Half of the squares: 200 of 60 s, 3.3 s each.
    let gain = finding.gain.as_ref().unwrap();
    assert!(gain.share > 0.999 && gain.interval.0 > 0.3, "{gain:?}");
}

#[test]
fn a_client_that_pauses_leaves_nothing_under_way() {
    assert_eq!(judged(&evidence(&[]), Vec::new()), []);
    assert_eq!(judged(&evidence(&[("server.0.tickets.read.out", |_| 1.0)]), Vec::new()), []);
}

#[test]
fn operations_that_wait_without_a_ticket_are_seen_when_they_end() {
    let late = |second: u64| if second == 40 { 12.0 * 20e6 } else { 1000.0 };
    let waits = evidence(&[("server.0.reads.latency_us", |_| 100.0), ("server.0.writes.latency_us", late)]);
    assert_eq!(judged(&waits, Vec::new()).len(), 1);
}

#[test]
fn operations_that_run_for_seconds_do_not_stand_still() {
    // One client scans: its operation holds a ticket and uses a processor, and each takes longer than a second.
    let read_tickets = |second: u64| if (20..40).contains(&second) { 2.0 } else { 1.0 };
    let judged = |more: &[SeriesBySecond]| {
        let scan: SeriesBySecond = ("server.0.tickets.read.out", read_tickets);
        self::judged(&evidence(&[&[scan][..], more].concat()), Vec::new()).len()
    };
    let processor: SeriesBySecond = ("server.0.process.cpu_us", |_| 0.9e6);
    assert_eq!(judged(&[]), 1, "without figures of its work it may wait");
    assert_eq!(judged(&[processor]), 0);
    // Of an old recording only the host's processors are known.
    assert_eq!(judged(&[("host.cpu.idle_pct", |_| 70.0), ("host.cpu.count", |_| 4.0)]), 0);
    // It reads the disk; or it waits for the processors that other programs have.
    assert_eq!(judged(&[("server.0.wait.page_read_us", |_| 0.8e6)]), 0);
    let starved: [SeriesBySecond; 2] =
        [("server.0.process.cpu_us", |_| 0.1e6), ("server.0.process.run_wait_us", |_| 0.8e6)];
    assert_eq!(judged(&starved), 0);
    // Another operation queues behind it.
    assert_eq!(judged(&[processor, ("server.0.queue.readers", |_| 1.0)]), 1);
    // Twelve writers wait while the engine's own threads fill two processors.
    let busy: [SeriesBySecond; 3] = [
        ("server.0.tickets.write.out", held_tickets),
        ("server.0.process.cpu_us", |_| 1.9e6),
        ("server.0.process.run_wait_us", |_| 9e6),
    ];
    assert_eq!(judged(&busy), 1);
}

#[test]
fn threads_of_connections_say_whether_operations_run() {
    let with_threads = |processor_us: u64| {
        let mut evidence = evidence(&[
            ("server.0.tickets.write.out", |second| if (20..40).contains(&second) { 2.0 } else { 0.0 }),
            ("server.0.process.cpu_us", |_| 1.9e6),
        ]);
        let thread = |name: &str, processor_us| fathom_record::ThreadUse {
            name: name.to_owned(),
            processor_us,
            ..fathom_record::ThreadUse::default()
        };
        for second in 0..60u64 {
            let work = fathom_record::ServerWork {
                begin_ns: second * SECOND,
                end_ns: (second + 1) * SECOND,
                threads: vec![thread("conn3", processor_us), thread("WTEvict", 1_800_000)],
                ..fathom_record::ServerWork::default()
            };
            evidence.results.push(fathom_record::disk::Entry::ServerWork(Box::new(work)));
        }
        judged(&evidence, Vec::new()).len()
    };
    assert_eq!(with_threads(50_000), 1, "the engine's own threads are no operations");
    assert_eq!(with_threads(1_200_000), 0);
}

#[test]
fn a_lock_that_is_known_explains_it() {
    let lock = Finding::new("fsync-lock", Severity::Warning, "x").window((19 * SECOND, 39 * SECOND));
    assert_eq!(judged(&evidence(&[("server.0.tickets.write.out", held_tickets)]), vec![lock]), []);
}

#[test]
fn a_cap_that_explains_what_ended_explains_the_standstill_too() {
    let cost = |share: f64| Cost {
        clock: LatencyClock::Server,
        share,
        interval: (share, share),
        mean_us: 1000.0,
        p99_us: None,
        unserved_per_s: None,
        basis: String::new(),
    };
    let findings = |share: f64| {
        let still = Finding::new(
            ID,
            Severity::Warning,
            "For 20 of 60 s server 0 finished no operation: sdb was at its limit of 5",
        )
        .cost(cost(0.99));
        let mut findings =
            vec![still, Finding::new(REACHED_ID, Severity::Warning, "A cap").cost(cost(share))];
        join_caps(&mut findings);
        findings
    };
    let joined = findings(0.9);
    assert_eq!(joined[0].cost, None);
    assert_eq!(
        joined[1].claim,
        "A cap. For 20 of 60 s server 0 finished no operation, so clients that keep to a rate wait for seconds"
    );
    assert_eq!(findings(0.05)[0].cost, Some(cost(0.99)), "the cap explains little of what ended");
}
