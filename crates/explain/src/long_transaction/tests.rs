//! Transactions that stay open, with a loss of other operations and without one, as `$currentOp` and the server's counters show them.

use fathom_record::disk::Entry;
use fathom_record::{OpenTransaction, OperationGroup, Point, ServerWork};

use super::*;

const SECOND: u64 = 1_000_000_000;
const SECONDS: u64 = 60;

/// The transaction of a client, opened at 20 s and idle since then.
fn transaction(second: u64, locks: &[&str]) -> OpenTransaction {
    let open_us = (second - 20) * 1_000_000;
    OpenTransaction {
        session: Some("5f3a01c2".to_owned()),
        open_us,
        active_us: 1500,
        inactive_us: open_us.saturating_sub(1500),
        read_concern: Some("snapshot".to_owned()),
        locks: locks.iter().map(|lock| (*lock).to_owned()).collect(),
        application: Some("checkout".to_owned()),
        client: Some("10.0.0.7".to_owned()),
        connection: Some(17),
        ..OpenTransaction::default()
    }
}

/// Operations that wait for the lock of a collection.
fn waiting(count: u64) -> OperationGroup {
    OperationGroup {
        kind: "find".to_owned(),
        namespace: "shop.orders".to_owned(),
        wait: Some("lock Collection".to_owned()),
        count,
        connections: vec![3, 4],
        ..OperationGroup::default()
    }
}

/// A minute with 400 reads and 400 writes a second of 100 µs each; a second has further figures and its work.
fn evidence(of_second: impl Fn(u64) -> (Vec<(&'static str, f64)>, ServerWork)) -> Evidence {
    let mut evidence = Evidence { window_ns: (0, SECONDS * SECOND), ..Evidence::default() };
    for second in 0..SECONDS {
        let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
        let (series, work) = of_second(second);
        let usual = [
            ("reads.operations", 400.0),
            ("writes.operations", 400.0),
            ("reads.latency_us", 40_000.0),
            ("writes.latency_us", 40_000.0),
            ("wait.lock_us", 0.0),
            ("wait.evict_us", 0.0),
            ("write_conflicts", 0.0),
            ("transactions.pinned_ids", 10.0),
            ("cache.most_bytes", 1e9),
            ("process.cpu_us", 90_000.0),
            ("process.run_wait_us", 0.0),
        ];
        for (name, value) in usual {
            let value = series.iter().find(|(one, _)| *one == name).map_or(value, |(_, value)| *value);
            evidence.series.add(&format!("server.0.{name}"), "1", Point { begin_ns, end_ns, value });
        }
        evidence.series.add("host.cpu.idle_pct", "%", Point { begin_ns, end_ns, value: 90.0 });
        for (name, value) in series.into_iter().filter(|(name, _)| name.starts_with("cache.u")) {
            evidence.series.add(&format!("server.0.{name}"), "1", Point { begin_ns, end_ns, value });
        }
        let work = ServerWork { begin_ns, end_ns, has_read_operations: true, ..work };
        evidence.results.push(Entry::ServerWork(Box::new(work)));
    }
    evidence
}

/// A minute in which the transaction is open from 20 to 50 s.
fn with_transaction(
    locks: &'static [&'static str],
    of_second: impl Fn(u64) -> (Vec<(&'static str, f64)>, Vec<OperationGroup>),
) -> Evidence {
    evidence(|second| {
        if !(21..50).contains(&second) {
            return (Vec::new(), ServerWork::default());
        }
        let (series, operations) = of_second(second);
        let transactions = vec![transaction(second + 1, locks)];
        (series, ServerWork { transactions, operations, ..ServerWork::default() })
    })
}

fn found(judgement: &Judgement) -> &Finding {
    let found = judgement.findings.iter().find(|one| one.id == ID);
    found.unwrap_or_else(|| panic!("{:#?}", judgement.findings))
}

const WRITER: &[&str] = &["Global w", "Database w", "Collection w"];
const READER: &[&str] = &["Global r", "Database r", "Collection r"];

#[test]
fn the_locks_of_an_idle_transaction_cost_what_others_wait_for_them() {
    // From 30 to 40 s two operations wait for the collection, 2 s in each second.
    let evidence = with_transaction(WRITER, |second| {
        let waits = (30..40).contains(&second);
        let lock_us = if waits { 2e6 } else { 0.0 };
        let series = vec![("wait.lock_us", lock_us), ("reads.latency_us", 40_000.0 + lock_us)];
        (series, if waits { vec![waiting(2)] } else { Vec::new() })
    });
    let judgement = crate::judge(&evidence);
    let finding = found(&judgement);
    assert!(
        finding.claim.starts_with(
            "A transaction of checkout on 10.0.0.7 (connection 17, session 5f3a01c2) was open for 30.0 s, idle for 30.0 s of them: operations waited 20.0 s for locks that it holds (lock Collection, shop.orders)"
        ),
        "{finding:#?}"
    );
    // 20 of 24.8 s of all operations.
    let cost = finding.cost.as_ref().unwrap();
    assert!((cost.share - 20.0 / 24.8).abs() < 0.01 && cost.interval.0 > 0.7, "{cost:#?}");
    assert!(
        finding
            .evidence
            .iter()
            .any(|said| said.contains("holds the locks Global w, Database w, Collection w"))
    );
    let verdict = judgement.verdict.as_ref().unwrap();
    assert_eq!((verdict.cause.as_deref(), verdict.exit_code()), (Some(ID), 1), "{verdict:#?}");
    assert!(verdict.sentence.starts_with("Held back by a transaction that stays open: "), "{verdict:#?}");
    let command = finding.command.as_deref().unwrap();
    assert!(command.ends_with("# lists such transactions"), "it has ended: {command}");
}

#[test]
fn a_transaction_that_is_open_at_the_end_has_a_command_that_ends_it() {
    let open = |is_active: bool| {
        evidence(|second| {
            let mut one = transaction(second + 100, WRITER);
            one.is_active = is_active;
            one.operation = is_active.then(|| "4711".to_owned());
            (Vec::new(), ServerWork { transactions: vec![one], ..ServerWork::default() })
        })
    };
    let judgement = crate::judge(&open(false));
    let finding = found(&judgement);
    assert!(finding.claim.contains("has been open for 2.32 min"), "{finding:#?}");
    let command = finding.command.as_deref().unwrap();
    for part in
        ["idleSessions: true", "appName: \"checkout\"", "killAllSessionsByPattern: [{lsid: one.lsid}]"]
    {
        assert!(command.contains(part), "{command}");
    }
    let judgement = crate::judge(&open(true));
    assert!(found(&judgement).command.as_deref().unwrap().contains("db.killOp(4711)"));
}

#[test]
fn versions_that_the_cache_keeps_for_it_cost_what_others_evict() {
    let held = |update_bytes: f64, pinned: f64| {
        with_transaction(READER, move |second| {
            let pinned = if pinned > 0.0 { 400.0 * (second - 19) as f64 } else { 10.0 };
            let series = vec![
                ("transactions.pinned_ids", pinned),
                ("wait.evict_us", 60_000.0),
                ("writes.latency_us", 100_000.0),
                ("cache.update_bytes", update_bytes),
            ];
            (series, Vec::new())
        })
    };
    let judgement = crate::judge(&held(2e8, 1.0));
    let finding = found(&judgement);
    assert!(finding.claim.contains("operations evicted for 1.74 s, because the cache keeps"), "{finding:#?}");
    assert!(
        finding
            .evidence
            .iter()
            .any(|said| said.contains("changes were pinned; 20 % of the cache are updates"))
    );
    // 1.74 of 6.54 s.
    let cost = finding.cost.as_ref().unwrap();
    assert!((cost.share - 1.74 / 6.54).abs() < 0.01, "{cost:#?}");
    assert_eq!(finding.confidence, Confidence::Likely);
    // Nothing that was written is pinned: evictions have another cause.
    let judgement = crate::judge(&held(2e8, 0.0));
    let finding = found(&judgement);
    assert_eq!((finding.cost.as_ref(), finding.is_alarm()), (None, false), "{finding:#?}");
}

#[test]
fn writes_that_collide_with_its_changes_are_its_cost() {
    let evidence = with_transaction(WRITER, |_| {
        (vec![("write_conflicts", 50.0), ("writes.latency_us", 240_000.0)], Vec::new())
    });
    let judgement = crate::judge(&evidence);
    let finding = found(&judgement);
    assert!(finding.claim.contains("writes of documents that it changed took 5.80 s longer"), "{finding:#?}");
    assert!(finding.cost.as_ref().unwrap().share > 0.4, "{finding:#?}");
}

/// Two updates that began at 22 s and do not end, as `$currentOp` shows them.
fn endless_updates(second: u64) -> OperationGroup {
    let longest_us = (second + 1).saturating_sub(22) * 1_000_000;
    OperationGroup {
        kind: "update".to_owned(),
        namespace: "shop.orders".to_owned(),
        count: 2,
        running_us: 2 * longest_us,
        longest_us,
        connections: vec![3, 4],
        ..OperationGroup::default()
    }
}

#[test]
fn writes_that_collide_and_do_not_end_cost_their_time_in_flight() {
    // The server counts their conflicts when they end, so no counter has them.
    let judgement =
        crate::judge(&with_transaction(WRITER, |second| (Vec::new(), vec![endless_updates(second)])));
    let finding = found(&judgement);
    assert!(
        finding.claim.contains("writes of shop.orders that began since wait for no lock"),
        "{finding:#?}"
    );
    // Two of them from 24 s, when they are known to last, to 50 s: 54 s next to the 4.8 s of those that ended.
    let cost = finding.cost.as_ref().unwrap();
    assert!((cost.share - 54.0 / 58.8).abs() < 0.02 && cost.interval.0 > 0.8, "{cost:#?}");
    let verdict = judgement.verdict.as_ref().unwrap();
    assert_eq!((verdict.cause.as_deref(), verdict.exit_code()), (Some(ID), 1), "{verdict:#?}");
}

#[test]
fn long_writes_that_do_not_collide_are_not_its_cost() {
    let cost = |evidence: &Evidence| found(&crate::judge(evidence)).cost.clone();
    let seen = |locks| with_transaction(locks, |second| (Vec::new(), vec![endless_updates(second)]));
    assert_eq!(cost(&seen(READER)), None, "it has changed nothing");
    // Updates of many documents take as long without it.
    let mut usual = seen(WRITER);
    let first = ServerWork {
        end_ns: 15 * SECOND,
        has_read_operations: true,
        operations: vec![OperationGroup { longest_us: 9_000_000, ..endless_updates(30) }],
        ..ServerWork::default()
    };
    usual.results.push(Entry::ServerWork(Box::new(first)));
    assert_eq!(cost(&usual), None);
    // Or their threads work all the time.
    let mut busy = seen(WRITER);
    for entry in &mut busy.results {
        let Entry::ServerWork(work) = entry else { continue };
        let thread = |name: &str| fathom_record::ThreadUse {
            name: name.to_owned(),
            processor_us: 700_000,
            ..fathom_record::ThreadUse::default()
        };
        work.threads = vec![thread("conn3"), thread("conn4")];
    }
    assert_eq!(cost(&busy), None);
}

#[test]
fn a_transaction_that_no_operation_waits_for_is_a_note_that_says_so() {
    let judgement = crate::judge(&with_transaction(WRITER, |_| (Vec::new(), Vec::new())));
    let finding = found(&judgement);
    assert_eq!((finding.cost.as_ref(), finding.is_alarm()), (None, false), "{finding:#?}");
    assert!(
        finding.evidence.iter().any(|said| said.starts_with("No cost of it was measured")),
        "{finding:#?}"
    );
    let verdict = judgement.verdict.as_ref().unwrap();
    assert!(verdict.cause.is_none() && verdict.exit_code() != 1, "{verdict:#?}");
    // Waits for locks that others hold are not its own.
    let evidence = with_transaction(&[], |second| {
        let lock_us = if second == 30 { 20e6 } else { 0.0 };
        (vec![("wait.lock_us", lock_us), ("reads.latency_us", 40_000.0 + lock_us)], vec![waiting(20)])
    });
    assert_eq!(found(&crate::judge(&evidence)).cost, None);
}

#[test]
fn short_transactions_of_one_session_are_no_long_one() {
    let evidence = evidence(|second| {
        let mut one = transaction(second + 20, WRITER);
        // A new one every five seconds.
        one.open_us = (second % 5 + 1) * 1_000_000;
        (Vec::new(), ServerWork { transactions: vec![one], ..ServerWork::default() })
    });
    assert!(!crate::judge(&evidence).findings.iter().any(|one| one.id == ID));
}
