//! The rule on composed budgets: a cause, a cause that is not proven, none, a guard, and nothing to judge.

use fathom_record::budget::Layer;
use fathom_record::verdict::Domain;
use fathom_record::{Gain, Point, SeriesSet, Severity};

use super::*;

const SECOND: u64 = 1_000_000_000;

fn evidence(series: &[(&str, f64)]) -> Evidence {
    let mut set = SeriesSet::default();
    for (name, value) in series {
        for second in 0..20 {
            let point = Point { begin_ns: second * SECOND, end_ns: (second + 1) * SECOND, value: *value };
            set.add(name, "1", point);
        }
    }
    Evidence { series: set, window_ns: (0, 20 * SECOND), ..Evidence::default() }
}

/// 2,000 operations of 10 ms at the client, all of them writes, with these layers in microseconds.
fn budget(layers: &[(&str, f64)]) -> Budget {
    let layer = |(name, mean_us): &(&str, f64)| Layer {
        name: (*name).to_owned(),
        mean_us: *mean_us,
        interval_us: Some((0.9 * mean_us, 1.1 * mean_us)),
        share: mean_us / 10_000.0,
        series: Vec::new(),
        within: Vec::new(),
    };
    let sum: f64 = layers.iter().map(|(_, us)| us).sum();
    Budget {
        member: "0".into(),
        operations: "all".into(),
        count: 2000.0,
        window_ns: (0, 20 * SECOND),
        client_mean_us: Some(10_000.0),
        server_mean_us: 9000.0,
        layers: layers.iter().map(layer).collect(),
        unexplained_us: 10_000.0 - sum,
        closure: sum / 10_000.0,
        closes: (sum / 10_000.0 - 1.0).abs() < 0.05,
        missing: vec!["The device was not watched.".into()],
    }
}

fn judged(layers: &[(&str, f64)], findings: Vec<Finding>) -> Judgement {
    let writes = Budget { operations: "writes".into(), ..budget(layers) };
    let mut judgement = Judgement { budgets: vec![budget(layers), writes], findings, ..Judgement::default() };
    judge(&evidence(&[("server.0.process.cpu_us", 50_000.0)]), &mut judgement);
    judgement
}

fn verdict_of(judgement: &Judgement) -> &Verdict {
    judgement.verdict.as_ref().unwrap()
}

fn finding(id: &str) -> Finding {
    Finding::new(id, Severity::Note, "Something is slow").confidence(Confidence::Likely)
}

const SLOW_JOURNAL: [(&str, f64); 3] = [("network", 200.0), ("journal", 8100.0), ("engine", 1700.0)];

#[test]
fn a_named_cause_holds_back_at_its_cost() {
    let judgement = judged(&SLOW_JOURNAL, vec![finding("other"), finding("journal-on-path")]);
    let verdict = verdict_of(&judgement);
    assert_eq!((verdict.outcome, verdict.domain), (Outcome::HeldBack, Some(Domain::Storage)));
    assert!(verdict.is_storage() && verdict.exit_code() == 1);
    assert_eq!(
        verdict.sentence,
        "Held back by slow syncs of the journal: 7.80 ms of the mean time from the send of 10.0 ms, 78 % (70 to 86 %)."
    );
    // A write takes one sync of 0.1 ms and two threads that wake up in any case.
    assert!((verdict.cost.as_ref().unwrap().mean_us - 7800.0).abs() < 1e-9);
    let first = &judgement.findings[0];
    assert_eq!((first.id.as_str(), first.severity), ("journal-on-path", Severity::Warning));
}

#[test]
fn a_limit_that_is_reached_explains_a_wait_better_than_a_slow_device() {
    let capped = finding("capped-by-throttle").series(["device.sdb.cap.write_iops", "device.sdb.writes"]);
    let judgement = judged(&SLOW_JOURNAL, vec![finding("journal-on-path"), capped]);
    let verdict = verdict_of(&judgement);
    assert_eq!(verdict.cause.as_deref(), Some("capped-by-throttle"));
    let reads = finding("capped-by-throttle").series(["device.sdb.cap.read_iops", "device.sdb.reads"]);
    let judgement = judged(&SLOW_JOURNAL, vec![reads, finding("journal-on-path")]);
    assert_eq!(verdict_of(&judgement).cause.as_deref(), Some("journal-on-path"), "reads are not what waits");
}

#[test]
fn what_is_not_proven_is_no_good_news() {
    let unsure = finding("journal-on-path").confidence(Confidence::CannotTell).evidence("It is an estimate.");
    let judgement = judged(&SLOW_JOURNAL, vec![unsure]);
    let verdict = verdict_of(&judgement);
    assert_eq!((verdict.outcome, verdict.exit_code()), (Outcome::CannotTell, 4));
    assert!(verdict.sentence.contains("perhaps held back by slow syncs"), "{}", verdict.sentence);
    assert_eq!(verdict.reasons, ["It is an estimate."]);
    let judgement = judged(&SLOW_JOURNAL, Vec::new());
    assert!(
        verdict_of(&judgement).sentence.starts_with("Cannot tell what makes operations wait for the journal")
    );
}

#[test]
fn short_waits_hold_nothing_back_and_what_was_looked_at_is_said() {
    let layers = [("network", 300.0), ("ticket", 0.0), ("journal", 1600.0), ("engine", 8100.0)];
    let judgement = judged(&layers, vec![finding("journal-on-path")]);
    let verdict = verdict_of(&judgement);
    assert_eq!((verdict.outcome, verdict.exit_code()), (Outcome::NotHeldBack, 0));
    assert!(
        verdict.sentence.contains("the largest wait that could go is for the journal, 13 %"),
        "{verdict:#?}"
    );
    assert_eq!(verdict.reasons, ["Server 0: looked at waits for the journal."]);
    assert!(judgement.findings[0].cost.as_ref().is_some_and(|cost| cost.share < 0.2), "{judgement:#?}");
}

#[test]
fn busy_processors_or_layers_that_do_not_add_up_tell_nothing() {
    let layers = [("network", 300.0), ("engine", 9700.0)];
    let mut judgement = Judgement {
        budgets: vec![budget(&layers)],
        withheld: vec!["the processors are busy.".into()],
        ..Judgement::default()
    };
    judge(&evidence(&[("server.0.up", 1.0)]), &mut judgement);
    assert_eq!(verdict_of(&judgement).outcome, Outcome::CannotTell);
    assert_eq!(verdict_of(&judgement).reasons, ["the processors are busy."]);
    let mut remote = Judgement { budgets: vec![budget(&layers)], ..Judgement::default() };
    judge(&evidence(&[("server.0.up", 1.0)]), &mut remote);
    assert_eq!(verdict_of(&remote).outcome, Outcome::CannotTell);
    assert!(verdict_of(&remote).sentence.contains("97 % of the mean operation pass within server 0"));
    let open = judged(&[("network", 300.0), ("engine", 4000.0)], Vec::new());
    assert_eq!(verdict_of(&open).outcome, Outcome::CannotTell);
    assert!(verdict_of(&open).sentence.contains("add up to 43 %"), "{:#?}", verdict_of(&open));
}

#[test]
fn processors_are_a_cause_where_operations_wait_for_them() {
    let layers = [("network", 300.0), ("engine", 9700.0)];
    let mut judgement = Judgement {
        budgets: vec![budget(&layers)],
        findings: vec![finding("processor-is-short")],
        withheld: vec!["the processors are busy.".into()],
        ..Judgement::default()
    };
    // 100 operations a second, 6 ms of waiting for each.
    judge(&evidence(&[("server.0.process.run_wait_us", 600_000.0)]), &mut judgement);
    let verdict = verdict_of(&judgement);
    assert_eq!((verdict.outcome, verdict.domain), (Outcome::HeldBack, Some(Domain::Processors)));
    assert!((verdict.cost.as_ref().unwrap().share - 0.59).abs() < 1e-9, "{verdict:#?}");
}

#[test]
fn a_share_of_all_waiting_is_a_cost_too() {
    let gain = Gain { of: "x".into(), share: 0.55, interval: (0.5, 0.6), basis: "cycles".into() };
    let spikes = finding("checkpoint-spikes").gain(gain);
    let judgement = judged(&SLOW_JOURNAL, vec![spikes, finding("journal-on-path")]);
    let costs: Vec<f64> =
        judgement.findings.iter().map(|one| one.cost.as_ref().map_or(0.0, |cost| cost.share)).collect();
    assert_eq!(costs, [0.78, 0.55]);
    assert_eq!(verdict_of(&judgement).cause.as_deref(), Some("journal-on-path"));
}

#[test]
fn nothing_to_judge_is_not_examined() {
    let sentence = |series: &[(&str, f64)]| {
        let mut judgement = Judgement::default();
        judge(&evidence(series), &mut judgement);
        let verdict = judgement.verdict.unwrap();
        assert_eq!((verdict.outcome, verdict.exit_code()), (Outcome::NotExamined, 4));
        assert!(verdict.next.is_some());
        verdict.sentence
    };
    assert_eq!(
        sentence(&[("client.operations.per_s", 5.0)]),
        "Not examined: no server was watched in this run."
    );
    assert_eq!(
        sentence(&[("server.0.reads.operations", 0.0)]),
        "Not examined: the servers were idle, with 0 operations a second."
    );
    assert!(sentence(&[("server.0.reads.operations", 50.0)]).contains("too few"));
    assert_eq!(
        sentence(&[("server.0.up", 1.0), ("server.1.up", 0.0)]),
        "Not examined: no counters of operations of any server were read.",
        "they refused, and were not idle"
    );
}

/// A quarter of a sync is the device's own time, which stays when the limit above it is lifted.
#[test]
fn a_limit_above_a_device_costs_no_more_than_the_wait_above_it() {
    let evidence = evidence(&[
        ("server.0.journal.sync_us", 400_000.0),
        ("device.sda.reads", 0.0),
        ("device.sda.write_ms", 100.0),
    ]);
    let cap = finding("capped-by-throttle").series(["device.sda.cap.write_iops"]);
    let writes = Budget { operations: "writes".into(), ..budget(&SLOW_JOURNAL) };
    let mut judgement = Judgement {
        budgets: vec![budget(&SLOW_JOURNAL), writes],
        findings: vec![finding("journal-on-path"), cap],
        ..Judgement::default()
    };
    judge(&evidence, &mut judgement);
    let costs: Vec<(&str, f64)> = judgement
        .findings
        .iter()
        .map(|one| (one.id.as_str(), one.cost.as_ref().map_or(0.0, |cost| cost.share)))
        .collect();
    let [("capped-by-throttle", above), ("journal-on-path", own)] = costs.as_slice() else {
        panic!("{costs:?}")
    };
    assert!((above + own - 0.78).abs() < 1e-6 && (0.15..0.21).contains(own), "{costs:?}");
    assert_eq!(verdict_of(&judgement).cause.as_deref(), Some("capped-by-throttle"));
}

/// 2,000 operations that read 40,000 pages in 5 ms each, of data of so many bytes.
fn page_reads(data_bytes: f64, more: &[(&str, f64)], findings: Vec<Finding>) -> Judgement {
    let layers = [("network", 300.0), ("page_read", 5000.0), ("engine", 4700.0)];
    let mut judgement = Judgement { budgets: vec![budget(&layers)], findings, ..Judgement::default() };
    let series = [
        ("server.0.pages.read", 4000.0),
        ("server.0.storage.logical_bytes", data_bytes),
        ("host.memory.available_bytes", 8e9),
    ];
    judge(&evidence(&[&series, more].concat()), &mut judgement);
    judgement
}

#[test]
fn a_larger_cache_saves_reads_of_a_quick_device_if_memory_holds_the_data() {
    // Four fifths of the layer are what 40 accesses to a device of its class take.
    let judgement = page_reads(1e9, &[], vec![finding("small-cache")]);
    let verdict = verdict_of(&judgement);
    assert_eq!(verdict.cause.as_deref(), Some("small-cache"), "{verdict:#?}");
    assert!((verdict.cost.as_ref().unwrap().share - 0.5).abs() < 1e-9, "{verdict:#?}");
    let judgement = page_reads(6e9, &[], Vec::new());
    let sentence = &verdict_of(&judgement).sentence;
    assert!(sentence.starts_with("Cannot tell whether a larger cache would help"), "{sentence}");
}

#[test]
fn a_small_cache_stands_after_another_cause() {
    let gain = Gain { of: "x".into(), share: 0.3, interval: (0.25, 0.35), basis: "x".into() };
    let stalls = finding("stalls").gain(gain);
    let judgement = page_reads(1e9, &[], vec![finding("small-cache"), stalls]);
    assert_eq!(verdict_of(&judgement).cause.as_deref(), Some("stalls"), "{judgement:#?}");
    let cost = judgement.findings[1].cost.as_ref().unwrap();
    assert!((cost.share - 0.3).abs() < 1e-9 && judgement.findings[1].id == "small-cache", "{judgement:#?}");
}

#[test]
fn under_a_limit_of_memory_reads_are_held_against_the_kernels_cache() {
    let limit = |used: f64| {
        [("server.0.process.memory_limit_bytes", 1e9), ("server.0.process.memory_used_bytes", used)]
    };
    let cost = |judgement: &Judgement| verdict_of(judgement).cost.as_ref().map(|cost| cost.share);
    let reached = page_reads(2e9, &limit(1e9), vec![finding("cache-misses-on-path")]);
    // 40 pages at 20 us remain.
    assert!((cost(&reached).unwrap() - 0.42).abs() < 1e-9, "{:#?}", verdict_of(&reached));
    // A limit that is not reached leaves no memory for a cache of 2 GB, and the device is quick.
    let free = page_reads(2e9, &limit(5e8), vec![finding("cache-misses-on-path")]);
    assert_eq!((cost(&free), verdict_of(&free).outcome), (None, Outcome::CannotTell));
}

#[test]
fn a_journaled_rate_that_syncs_cannot_cover_is_refused_before_any_cause() {
    let rate =
        finding(journal_rate::ID).evidence("More were acknowledged.").next_look("Look at the write concern.");
    let judgement = judged(&SLOW_JOURNAL, vec![finding("journal-on-path"), rate]);
    let verdict = verdict_of(&judgement);
    assert_eq!((verdict.outcome, verdict.exit_code()), (Outcome::CannotTell, 4));
    assert_eq!((verdict.sentence.as_str(), verdict.reasons.len()), (REFUSED_RATE, 1));
}

/// 100 writes a second of 10 ms whose sync takes 4 ms, 1 ms of it at the device, on a host whose processors are busy.
#[test]
fn what_a_sync_takes_above_its_device_is_a_wait_for_a_processor_where_these_are_short() {
    let device = [("device.sda.reads", 0.0), ("device.sda.write_ms", 100.0)];
    let costs = |series: &[(&str, f64)], cap: Option<Finding>| {
        let writes = Budget { operations: "writes".into(), ..budget(&SLOW_JOURNAL) };
        let unsure = finding("journal-on-path").confidence(Confidence::CannotTell);
        let mut judgement = Judgement {
            budgets: vec![budget(&SLOW_JOURNAL), writes],
            findings: [unsure, finding("processor-is-short")].into_iter().chain(cap).collect(),
            withheld: vec!["the processors are busy.".into()],
            ..Judgement::default()
        };
        judge(&evidence(&[series, &[("server.0.journal.sync_us", 400_000.0)]].concat()), &mut judgement);
        let processors = judgement.findings.iter().find(|one| one.id == "processor-is-short").unwrap();
        (processors.cost.as_ref().map(|cost| cost.share), verdict_of(&judgement).cause.clone())
    };
    let (share, cause) = costs(&device, None);
    assert_eq!(cause.as_deref(), Some("processor-is-short"));
    // Three quarters of the layer, less two threads that wake up.
    assert!((share.unwrap() - 0.5875).abs() < 1e-9, "{share:?}");
    // A limit above the device is the better explanation. Without the device's time there is no cost.
    let cap = finding("capped-by-throttle").series(["device.sda.cap.write_iops"]);
    assert_eq!(costs(&device, Some(cap)), (None, Some("capped-by-throttle".to_owned())));
    assert_eq!(costs(&[], None).0, None);
}

/// A client that waits 9 ms of 10 ms to be sent, in one second in which no page was read.
#[test]
fn a_wait_that_fills_the_stalled_seconds_bears_the_wait_to_be_sent() {
    let layers = [("schedule", 9000.0), ("page_read", 800.0), ("engine", 200.0)];
    let stalls = Finding::new("stalls", Severity::Note, "x").window((5 * SECOND, 6 * SECOND));
    let gain = Gain { of: "x".into(), share: 0.9, interval: (0.9, 0.9), basis: "x".into() };
    let judged = |page_read_us: f64| {
        let findings = vec![stalls.clone().gain(gain.clone()), finding("neighbour-io")];
        let mut judgement = Judgement { budgets: vec![budget(&layers)], findings, ..Judgement::default() };
        let series = [
            ("client.connections", 8.0),
            ("server.0.reads.latency_us", 100_000.0),
            ("server.0.wait.page_read_us", page_read_us),
        ];
        judge(&evidence(&series), &mut judgement);
        judgement
    };
    let held = judged(98_000.0);
    let verdict = verdict_of(&held);
    assert_eq!(verdict.cause.as_deref(), Some("neighbour-io"), "{held:#?}");
    // The page reads themselves and 98 % of the wait behind them, less 0.1 ms of a client that wakes up.
    assert!((verdict.cost.as_ref().unwrap().share - (0.08 + 0.98 * 0.89)).abs() < 1e-3, "{verdict:#?}");
    assert_eq!(verdict_of(&judged(20_000.0)).cause.as_deref(), Some("stalls"));
}

/// A majority that waits 8 ms; threads waited 1.5 ms for a processor for each operation of the primary and 3 ms for each entry of the member.
#[test]
fn what_threads_of_a_set_take_to_wake_up_is_no_cause() {
    let layers = [("schedule", 1.0), ("network", 199.0), ("replication", 8000.0), ("engine", 1800.0)];
    let share = |idle_pct: f64| {
        let writes = Budget { operations: "writes".into(), ..budget(&layers) };
        let found = finding("replication-on-path");
        let mut judgement = Judgement {
            budgets: vec![budget(&layers), writes],
            findings: vec![found],
            ..Judgement::default()
        };
        let series = [
            ("host.cpu.idle_pct", idle_pct),
            ("server.0.writes.operations", 100.0),
            ("server.0.process.run_wait_us", 150_000.0),
            ("server.1.replication.applied", 100.0),
            ("server.1.process.run_wait_us", 300_000.0),
        ];
        judge(&evidence(&series), &mut judgement);
        verdict_of(&judgement).cost.as_ref().unwrap().share
    };
    assert!((share(80.0) - (0.8 - 0.01 - 0.05 - 0.45)).abs() < 1e-9, "{}", share(80.0));
    // If processors are short, these waits could go.
    assert!((share(5.0) - (0.8 - 0.12)).abs() < 1e-9, "{}", share(5.0));
}

/// A server alone, whose operations of 12 ms wait for a lock nearly all of the time, with this interval of the wait.
fn alone(interval_us: (f64, f64), findings: Vec<Finding>) -> Judgement {
    let mut budget = Budget {
        client_mean_us: None,
        server_mean_us: 12_000.0,
        ..budget(&[("lock", 11_990.0), ("engine", 10.0)])
    };
    budget.layers[0].interval_us = Some(interval_us);
    let mut judgement = Judgement { budgets: vec![budget], findings, ..Judgement::default() };
    judge(&evidence(&[("server.0.process.cpu_us", 50_000.0)]), &mut judgement);
    judgement
}

#[test]
fn a_lock_of_seconds_costs_seconds_and_not_the_mean_of_what_ended() {
    let gain = Gain {
        of: "mean time since operations were due".into(),
        share: 0.99,
        interval: (0.6, 0.99),
        basis: "x".into(),
    };
    let judgement = alone((11_000.0, 12_000.0), vec![finding("fsync-lock").gain(gain)]);
    let cost = judgement.findings[0].cost.as_ref().unwrap();
    assert_eq!(cost.clock, LatencyClock::Response);
    assert!((cost.mean_us - 1_188_000.0).abs() < 1.0, "{cost:?}");
}

#[test]
fn an_interval_from_nothing_to_all_is_not_printed_as_a_figure() {
    let judgement = alone((0.0, 12_000.0), Vec::new());
    let verdict = verdict_of(&judgement);
    assert_eq!(
        verdict.sentence,
        "Cannot tell what makes operations wait for a lock: how much is not known, at most 100 % of the mean time within the server of 12.0 ms; a few moments hold most of it."
    );
    assert!(verdict.next.as_ref().unwrap().starts_with("Watch the device"), "{verdict:#?}");
}

#[test]
fn reads_that_a_throttle_holds_are_not_answered_with_a_larger_cache() {
    let layers = [("page_read", 9000.0), ("engine", 1000.0)];
    let reads = || finding("cache-misses-on-path").advice("Enlarge the cache");
    let judgement = judged(&layers, vec![reads()]);
    assert_eq!(judgement.findings[0].advice.as_deref(), Some("Enlarge the cache"));
    let mut of_device = budget(&layers);
    of_device.layers[0].within = vec![Layer { name: "device".into(), ..of_device.layers[0].clone() }];
    of_device.layers[0].within[0].mean_us = 50.0;
    let capped = finding("capped-by-throttle").series(["device.sdb.cap.read_iops", "device.sdb.reads"]);
    let mut judgement =
        Judgement { budgets: vec![of_device], findings: vec![reads(), capped], ..Judgement::default() };
    judge(&evidence(&[("server.0.process.cpu_us", 50_000.0)]), &mut judgement);
    let reads = judgement.findings.iter().find(|one| one.id == "cache-misses-on-path").unwrap();
    assert_eq!((reads.advice.as_deref(), reads.severity), (None, Severity::Note), "{reads:#?}");
}

/// Reads past a small cache at the speed of an idle device, below a limit that delays none of them: the interval of their share begins at `low`.
fn reads_below_a_limit(low: f64) -> Verdict {
    let mut whole = budget(&[("network", 300.0), ("page_read", 2100.0), ("engine", 7600.0)]);
    for layer in whole.layers.iter_mut().filter(|layer| layer.name == "page_read") {
        layer.interval_us = Some((10_000.0 * low, 4000.0));
    }
    let limit = Finding::new(
        "cap-not-reached",
        Severity::Note,
        "A control group holds sda at 350 reads a second, and delays no operation",
    );
    let mut judgement = Judgement { budgets: vec![whole], findings: vec![limit], ..Judgement::default() };
    let series = [
        ("server.0.pages.read", 1000.0),
        ("server.0.storage.logical_bytes", 1e9),
        ("server.0.process.cpu_us", 50_000.0),
        ("host.memory.available_bytes", 8e9),
        ("device.sda.reads", 340.0),
        ("device.sda.cap.read_iops", 350.0),
    ];
    judge(&evidence(&series), &mut judgement);
    judgement.verdict.unwrap()
}

/// A verdict that names the wait for a larger cache and adds that nothing explains it contradicts itself.
#[test]
fn a_limit_that_delays_nothing_is_not_held_back_and_no_sentence_denies_its_own_cause() {
    let verdict = reads_below_a_limit(0.02);
    assert_eq!((verdict.outcome, verdict.exit_code()), (Outcome::NotHeldBack, 0), "{verdict:#?}");
    assert!(verdict.sentence.contains("2 to 40 % of the mean"), "{verdict:#?}");
    let verdict = reads_below_a_limit(0.15);
    assert_eq!((verdict.outcome, verdict.exit_code()), (Outcome::CannotTell, 4), "{verdict:#?}");
    assert!(verdict.sentence.starts_with("Cannot tell whether a larger cache would help"), "{verdict:#?}");
    for verdict in [reads_below_a_limit(0.02), reads_below_a_limit(0.15)] {
        let said = format!("{} {}", verdict.sentence, verdict.reasons.join(" "));
        assert!(
            !said.contains("what makes operations wait") && !said.contains("No finding explains"),
            "{said}"
        );
    }
}

/// The verdict on scans that others hardly lose by, next to writes with this cost.
fn scans_and_writes(writes: Option<(f64, f64)>) -> Verdict {
    let cost = |(low, high): (f64, f64)| Cost {
        clock: LatencyClock::Server,
        share: (low + high) / 2.0,
        interval: (low, high),
        mean_us: 100.0,
        p99_us: None,
        unserved_per_s: None,
        basis: String::new(),
    };
    let mut fills = finding(SERVER_FILLS);
    causes::set_mixed_mean(&mut fills, "scans");
    let mut bulk = finding("bulk-writer");
    match writes {
        Some(writes) => bulk = bulk.cost(cost(writes)),
        None => bulk.confidence = Confidence::CannotTell,
    }
    let scans = finding("collection-scan").cost(cost((0.02, 0.08)));
    let judgement = judged(&[("network", 200.0), ("engine", 9800.0)], vec![fills, scans, bulk]);
    verdict_of(&judgement).clone()
}

#[test]
fn of_two_kinds_of_work_the_one_that_may_cost_more_decides() {
    assert_eq!(scans_and_writes(Some((0.01, 0.03))).outcome, Outcome::NotHeldBack);
    let uncertain = scans_and_writes(Some((0.02, 0.25)));
    assert_eq!((uncertain.outcome, uncertain.cause.as_deref()), (Outcome::CannotTell, Some("bulk-writer")));
    let unknown = scans_and_writes(None);
    assert_eq!((unknown.outcome, unknown.cause.as_deref()), (Outcome::CannotTell, Some("bulk-writer")));
    assert!(unknown.sentence.starts_with("Cannot tell who loses by it"), "{}", unknown.sentence);
}
