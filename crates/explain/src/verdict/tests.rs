//! The rule on composed budgets: a cause, a cause that is not proven, none, a guard, and nothing to judge.

use fathom_record::budget::Layer;
use fathom_record::verdict::Domain;
use fathom_record::{Gain, Point, SeriesSet};

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
    judge(&evidence(&[("server.0.up", 1.0)]), &mut judgement);
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
        "Held back by slow syncs of the journal: 8.00 ms of the mean time from the send of 10.0 ms, 80 % (72 to 88 %)."
    );
    // One sync of 0.1 ms is what a write takes anyway.
    assert!((verdict.cost.as_ref().unwrap().mean_us - 8000.0).abs() < 1e-9);
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
        verdict.sentence.contains("the largest wait that could go is for the journal, 15 %"),
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
    assert_eq!(costs, [0.8, 0.55]);
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
    assert!((above + own - 0.8).abs() < 1e-6 && (0.15..0.21).contains(own), "{costs:?}");
    assert_eq!(verdict_of(&judgement).cause.as_deref(), Some("capped-by-throttle"));
}
