//! The rule of periodic spikes over composed runs: the causes that it names, those that it must not blame, and runs without a finding.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

use std::time::Instant;

use fathom_explain::{Evidence, RULES, judge};
use fathom_record::{Confidence, Finding, Point, Reading, Severity};
use fathom_stats::SeededRandom;

const SECOND_NS: u64 = 1_000_000_000;
const NOISE: f64 = 0.1;

/// A composed run: events that raise latency, and those that a server counts as checkpoints.
struct RunComposition {
    seconds: u64,
    /// Begin, end and the addition to the logarithm of latency.
    raises: Vec<(f64, f64, f64)>,
    checkpoints: Vec<(f64, f64)>,
    /// The values of `syncdelay`, each with its first second.
    syncdelay_s: Vec<(u64, f64)>,
    /// Whether a server is watched, or the client alone.
    server: bool,
}

/// Checkpoints of a duration, each `interval_s` after the last one's end, in `from_s..to_s`.
fn checkpoints(from_s: f64, to_s: f64, interval_s: f64, duration_s: f64) -> Vec<(f64, f64)> {
    let count = ((to_s - from_s) / (interval_s + duration_s)) as usize;
    (0..count)
        .map(|k| from_s + interval_s + k as f64 * (interval_s + duration_s))
        .map(|begin_s| (begin_s, begin_s + duration_s))
        .collect()
}

fn raised(events: &[(f64, f64)], height: f64) -> Vec<(f64, f64, f64)> {
    events.iter().map(|event| (event.0, event.1, height)).collect()
}

impl RunComposition {
    fn with(seconds: u64, checkpoints: Vec<(f64, f64)>, height: f64) -> RunComposition {
        let raises = raised(&checkpoints, height);
        RunComposition { seconds, raises, checkpoints, syncdelay_s: vec![(0, 60.0)], server: true }
    }

    fn evidence(&self, seed: u64) -> Evidence {
        let mut stream = SeededRandom::from_seed(seed);
        let mut readings = Vec::new();
        let mut noise = 0.0;
        for second in 0..self.seconds {
            let (begin_s, end_s) = (second as f64, second as f64 + 1.0);
            let window = (second * SECOND_NS, (second + 1) * SECOND_NS);
            let overlap = |begin: f64, end: f64| (end.min(end_s) - begin.max(begin_s)).max(0.0);
            let raise: f64 =
                self.raises.iter().map(|(begin, end, height)| overlap(*begin, *end) * height).sum();
            noise = 0.5 * noise + NOISE * stream.normal();
            let mut add =
                |name: &str, unit: &str, value: f64| readings.push(Reading::new(name, unit, window, value));
            add("client.operations.per_s", "1/s", 1000.0);
            add("client.update.per_s", "1/s", 1000.0);
            add("client.update.service.mean_ns", "ns", 2e6 * (noise + raise).exp());
            if self.server {
                self.of_server(second, &mut add);
            }
        }
        let environment = [
            ("server.0", "db1.example:27017"),
            ("server.0.engine", "wiredTiger"),
            ("server.0.device", "vda"),
        ];
        Evidence {
            series: readings.iter().collect(),
            environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            window_ns: (0, self.seconds * SECOND_NS),
            seed,
            ..Evidence::default()
        }
    }

    fn of_server(&self, second: u64, add: &mut impl FnMut(&str, &str, f64)) {
        let end_s = second as f64 + 1.0;
        let running = self.checkpoints.iter().any(|event| event.0 < end_s && end_s <= event.1);
        add("server.0.checkpoint.running", "1", f64::from(u8::from(running)));
        let ended = self.checkpoints.iter().filter(|event| event.1 > end_s - 1.0 && event.1 <= end_s);
        let durations_ms: Vec<f64> = ended.map(|event| (event.1 - event.0) * 1e3).collect();
        add("server.0.checkpoint.count", "1", durations_ms.len() as f64);
        add("server.0.checkpoint.total_ms", "ms", durations_ms.iter().sum());
        add("server.0.engine.checkpoint_bytes", "bytes", if running { 1e7 } else { 0.0 });
        let due = self.syncdelay_s.iter().rev().find(|(from, _)| *from <= second);
        if let Some((_, value)) = due.filter(|_| second.is_multiple_of(10)) {
            add("server.0.parameter.syncdelay_s", "s", *value);
        }
    }

    fn findings(&self, seed: u64) -> Vec<Finding> {
        spikes(judge(&self.evidence(seed)).findings)
    }
}

/// The findings of this rule.
fn spikes(findings: Vec<Finding>) -> Vec<Finding> {
    let ids = ["checkpoint-spikes", "periodic-spikes", "ttl-spikes", "checkpoints-run-into-each-other"];
    findings.into_iter().filter(|finding| ids.contains(&finding.id.as_str())).collect()
}

fn only(findings: Vec<Finding>) -> Finding {
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.into_iter().next().unwrap()
}

/// 15 minutes, 6 s in 66, +65 %: 5.6 % of all waiting.
#[test]
fn checkpoints_that_raise_latency_are_named_with_the_test_that_decides() {
    let run = RunComposition::with(960, checkpoints(0.0, 950.0, 60.0, 6.0), 0.5);
    let finding = only(run.findings(1));
    assert_eq!((finding.id.as_str(), finding.severity), ("checkpoint-spikes", Severity::Warning));
    assert_eq!(finding.confidence, Confidence::Likely);
    assert!(
        finding.claim.contains("every 66 s") && finding.claim.contains("wiredTiger"),
        "{}",
        finding.claim
    );
    let gain = finding.gain.unwrap();
    let truth = 0.5f64.exp_m1() * 6.0 * 14.0 / (960.0 + 0.5f64.exp_m1() * 6.0 * 14.0);
    assert!(
        (gain.share / truth - 1.0).abs() < 0.25 && gain.interval.0 < truth && truth < gain.interval.1,
        "{gain:?}"
    );
    let set = |value_s: u32| {
        format!(
            "mongosh --host db1.example:27017 --eval 'db.adminCommand({{ setParameter: 1, syncdelay: {value_s} }})'"
        )
    };
    assert_eq!((finding.command, finding.undo), (Some(set(37)), Some(set(60))));
    assert!(finding.next_look.unwrap().contains("every 43 s"));
    assert!(finding.advice.unwrap().contains("wiredTiger"));
    assert_eq!(finding.windows_ns.len(), 14);
    assert!(finding.series.contains(&"server.0.checkpoint.count".to_owned()));
}

/// Checkpoints that cost nothing, and nothing else: ten runs of 20 minutes.
#[test]
fn a_run_without_spikes_is_quiet() {
    for seed in 0..10 {
        let findings = RunComposition::with(1200, checkpoints(0.0, 1190.0, 60.0, 5.0), 0.0).findings(seed);
        assert!(findings.is_empty(), "{seed}: {findings:#?}");
    }
}

/// Another rhythm every 60 s, while checkpoints come every 66 s.
#[test]
fn another_rhythm_is_found_and_not_blamed_on_the_checkpoint() {
    let decoys: Vec<(f64, f64)> = (0..30).map(|k| 31.0 + 60.0 * f64::from(k)).map(|s| (s, s + 4.0)).collect();
    let run = RunComposition {
        raises: raised(&decoys, 0.7),
        ..RunComposition::with(1800, checkpoints(0.0, 1790.0, 60.0, 6.0), 0.0)
    };
    let finding = only(run.findings(2));
    assert_eq!(finding.id, "periodic-spikes");
    assert!(finding.claim.contains("every 60."), "{}", finding.claim);
    assert!(finding.evidence.iter().any(|sentence| sentence.contains("TTL")), "{finding:#?}");
    assert_eq!(finding.command, None, "checkpoints are counted, and are not suspects");
}

/// Both rhythms at once, independent of each other.
#[test]
fn what_the_checkpoint_explains_is_taken_out_first() {
    let events = checkpoints(0.0, 1790.0, 60.0, 6.0);
    let decoys: Vec<(f64, f64)> = (0..60).map(|k| 7.0 + 30.0 * f64::from(k)).map(|s| (s, s + 3.0)).collect();
    let raises = [raised(&decoys, 0.7), raised(&events, 0.7)].concat();
    let findings = RunComposition { raises, ..RunComposition::with(1800, events, 0.0) }.findings(3);
    let mut ids: Vec<&str> = findings.iter().map(|finding| finding.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["checkpoint-spikes", "periodic-spikes"], "{findings:#?}");
    assert!(findings.iter().any(|finding| finding.claim.contains("every 30.")), "{findings:#?}");
}

#[test]
fn few_cycles_cannot_tell_and_say_what_would() {
    let finding = only(RunComposition::with(360, checkpoints(0.0, 350.0, 60.0, 6.0), 0.6).findings(4));
    assert_eq!((finding.id.as_str(), finding.confidence), ("checkpoint-spikes", Confidence::CannotTell));
    assert!(!finding.is_alarm() && finding.next_look.unwrap().contains("9 checkpoints, about 10 minutes"));
    assert!(RunComposition::with(360, checkpoints(0.0, 350.0, 60.0, 6.0), 0.0).findings(4).is_empty());
}

#[test]
fn checkpoints_without_calm_between_them_are_said_to_be_continuous() {
    let finding = only(RunComposition::with(900, checkpoints(0.0, 890.0, 10.0, 50.0), 0.3).findings(5));
    assert_eq!(
        (finding.id.as_str(), finding.severity),
        ("checkpoints-run-into-each-other", Severity::Warning)
    );
}

/// A value of 60 for a quarter of an hour, then 37: the spikes move with the checkpoints.
#[test]
fn spikes_that_follow_syncdelay_are_certain() {
    let events = [checkpoints(0.0, 900.0, 60.0, 6.0), checkpoints(900.0, 1400.0, 37.0, 6.0)].concat();
    let run = RunComposition {
        syncdelay_s: vec![(0, 60.0), (900, 37.0)],
        ..RunComposition::with(1410, events, 0.5)
    };
    let finding = only(run.findings(6));
    assert_eq!((finding.id.as_str(), finding.confidence), ("checkpoint-spikes", Confidence::Certain));
    let parts = finding.evidence.iter().filter(|sentence| sentence.contains("at syncdelay"));
    assert_eq!(parts.count(), 2, "{finding:#?}");
    assert!(
        finding.command.unwrap().contains("syncdelay: 53") && finding.undo.unwrap().contains("syncdelay: 37")
    );
}

/// 0.4 s every 12.4 s, which the gauge sees seldom: five minutes at syncdelay 12.
#[test]
fn checkpoints_shorter_than_the_sampling_are_found() {
    let events = checkpoints(0.0, 300.0, 12.0, 0.4);
    let raises = events.iter().map(|event| (event.0, event.1, 1.5)).collect();
    let run =
        RunComposition { syncdelay_s: vec![(0, 12.0)], raises, ..RunComposition::with(310, events, 0.0) };
    let findings = run.findings(7);
    let finding = findings.iter().find(|finding| finding.id == "checkpoint-spikes").expect("a finding");
    assert!(finding.claim.contains("every 12 s"), "{}", finding.claim);
}

#[test]
fn a_client_alone_shows_the_rhythm_and_names_no_cause() {
    let events: Vec<(f64, f64)> = (0..29).map(|k| 20.0 + 61.0 * f64::from(k)).map(|s| (s, s + 6.0)).collect();
    let run = RunComposition { server: false, ..RunComposition::with(1800, events, 0.6) };
    let finding = only(run.findings(8));
    assert_eq!((finding.id.as_str(), finding.confidence), ("periodic-spikes", Confidence::Likely));
    assert!(finding.claim.contains("every 61.") || finding.claim.contains("every 60.9"), "{}", finding.claim);
}

/// Durations of 2 to 9 s, and a rise in proportion: the dose is seen.
#[test]
fn larger_checkpoints_with_larger_spikes_are_a_dose() {
    let events: Vec<(f64, f64)> = (0..14)
        .map(|k| (60.0 + 66.0 * f64::from(k), 2.0 + f64::from(k * 5 % 8)))
        .map(|(begin_s, lasts_s)| (begin_s, begin_s + lasts_s))
        .collect();
    let raises = events.iter().map(|event| (event.0, event.1, 0.1 + 0.1 * (event.1 - event.0))).collect();
    let finding = only(RunComposition { raises, ..RunComposition::with(960, events, 0.0) }.findings(10));
    let rho = |of: &str| {
        let sentence = finding.evidence.iter().find(|sentence| sentence.contains(of)).unwrap();
        let (_, rho) = sentence.split_once("rho = ").unwrap();
        rho.split(',').next().unwrap().parse::<f64>().unwrap()
    };
    assert!(rho("duration") > 0.8 && rho("bytes written") > 0.8, "{finding:#?}");
    assert!(finding.series.contains(&"server.0.engine.checkpoint_bytes".to_owned()));
}

/// A counter that rises by so much a second within the stretches.
fn count_within(evidence: &mut Evidence, name: &str, seconds: u64, stretches: &[(f64, f64)], per_s: f64) {
    for second in 0..seconds {
        let at_s = second as f64;
        let is_within = stretches.iter().any(|stretch| stretch.0 <= at_s && at_s < stretch.1);
        let value = if is_within { per_s } else { 0.0 };
        let point = Point { begin_ns: second * SECOND_NS, end_ns: (second + 1) * SECOND_NS, value };
        evidence.series.add(name, "1", point);
    }
}

/// Passes of the TTL monitor every minute and checkpoints of the same period: the one that raises latency is named, whichever it is.
#[test]
fn passes_of_the_ttl_monitor_are_told_from_checkpoints_of_the_same_period() {
    let shifted = |by_s: f64| -> Vec<(f64, f64)> {
        (0..18).map(|k| 60.0 * f64::from(k) + by_s).map(|begin_s| (begin_s, begin_s + 4.0)).collect()
    };
    let (checkpoints, passes) = (shifted(20.0), shifted(50.0));
    for (raising, id) in [(&passes, "ttl-spikes"), (&checkpoints, "checkpoint-spikes")] {
        let run = RunComposition {
            raises: raised(raising, 0.5),
            ..RunComposition::with(1100, checkpoints.clone(), 0.0)
        };
        let mut evidence = run.evidence(12);
        count_within(&mut evidence, "server.0.ttl.deleted", 1100, &passes, 500.0);
        let finding = only(spikes(judge(&evidence).findings));
        assert_eq!(finding.id, id, "{finding:#?}");
        assert_eq!(finding.claim.contains("TTL monitor"), id == "ttl-spikes", "{}", finding.claim);
    }
}

/// An engine without checkpoints: its flushes are named, and nothing is said of syncdelay.
#[test]
fn flushes_of_an_lsm_engine_are_events_too() {
    let flushes = checkpoints(0.0, 1190.0, 40.0, 4.0);
    let run = RunComposition { server: false, ..RunComposition::with(1200, flushes.clone(), 0.5) };
    let mut evidence = run.evidence(11);
    evidence.environment.insert("server.0.engine".into(), "rocksdb".into());
    count_within(&mut evidence, "server.0.flush.written_bytes", 1200, &flushes, 1e7);
    let finding = only(spikes(judge(&evidence).findings));
    assert_eq!(finding.id, "periodic-spikes");
    assert!(finding.claim.contains("flushes its memory to disk, about every 44 s"), "{}", finding.claim);
    assert!(finding.command.is_none() && !format!("{finding:?}").contains("syncdelay"));
}

/// One hour at 1 Hz: this rule's part of the two seconds for all rules. Debug builds optimise only the
/// statistics; the bound leaves room for a loaded machine.
mod timed {
    use super::*;

    #[test]
    fn an_hour_is_judged_in_a_moment() {
        let rule = RULES.iter().find(|rule| rule.name == "spikes").unwrap();
        for (height, server) in [(0.0, true), (0.4, true), (0.4, false)] {
            let run = RunComposition {
                server,
                ..RunComposition::with(3600, checkpoints(0.0, 3590.0, 60.0, 6.0), height)
            };
            let evidence = run.evidence(9);
            let start = Instant::now();
            (rule.judge)(&evidence, &mut fathom_explain::Judgement::default());
            let took = start.elapsed();
            println!("height {height}, server {server}: {} ms", took.as_millis());
            assert!(took.as_secs() < 5, "{took:?}");
        }
    }
}

/// Operations that become due while a checkpoint delays the connections are as quick as others from their send, but not from their due time.
#[test]
fn what_checkpoints_hold_up_before_the_send_is_counted() {
    let run = RunComposition::with(640, checkpoints(0.0, 630.0, 30.0, 0.4), 0.0);
    let mut evidence = run.evidence(3);
    let seconds = run.checkpoints.iter().map(|event| event.1 as u64).collect::<Vec<u64>>();
    for second in 0..run.seconds {
        let (begin_ns, end_ns) = (second * SECOND_NS, (second + 1) * SECOND_NS);
        let value = if seconds.contains(&second) { 12e6 } else { 2e6 };
        evidence.series.add("client.update.response.mean_ns", "ns", Point { begin_ns, end_ns, value });
    }
    let findings = spikes(judge(&evidence).findings);
    let finding = findings.iter().find(|finding| finding.id == "checkpoint-spikes").unwrap();
    // 10 ms in one second of 30.4, over 2 ms in each.
    let expected = 10.0 / (2.0 * 30.4 + 10.0);
    let share = finding.gain.as_ref().unwrap().share;
    assert!((share / expected - 1.0).abs() < 0.1, "{share} {expected}");
    assert!(
        finding.evidence.iter().any(|said| said.contains("time since operations were due")),
        "{finding:#?}"
    );
}
