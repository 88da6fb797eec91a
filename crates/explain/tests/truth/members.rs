//! A simulated set under writes at majority: the share of the wait, the member that is waited for, the parts of its time, and no named
//! member if all are equal.
//!
//! Writes arrive at random and are in the oplog in order. A member takes all new entries, applies them, syncs its journal and
//! reports; the next batch waits for that. The primary syncs its own journal in the same way. A write is done when the journals of
//! a majority have it.

use fathom_explain::{Evidence, Judgement, judge};
use fathom_record::Finding;
use fathom_stats::SeededRandom;

use crate::seconds::Seconds;

const SECONDS: usize = 120;
const ENGINE_US: f64 = 300.0;
const ROUND_TRIP_US: f64 = 400.0;

/// A member's batch, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Member {
    way_us: f64,
    apply_us: f64,
    journal_us: f64,
}

const fn member(way_us: f64, apply_us: f64, journal_us: f64) -> Member {
    Member { way_us, apply_us, journal_us }
}

struct Truth {
    mean_us: f64,
    replication_us: f64,
    /// Mean time into each journal, the primary's first.
    behind_us: Vec<f64>,
    /// Share of the waiting time in which each completed the majority.
    completes: Vec<f64>,
}

/// The times at which each write is in a member's journal, as the primary knows them; also counts what the member counts.
fn journaled(
    written_us: &[f64],
    member: Member,
    random: &mut SeededRandom,
    mut count: impl FnMut(&str, f64, f64),
) -> Vec<f64> {
    let mut known = Vec::with_capacity(written_us.len());
    let mut now_us = 0.0_f64;
    while known.len() < written_us.len() {
        now_us = now_us.max(written_us[known.len()] + member.way_us);
        let end = written_us.partition_point(|at| at + member.way_us <= now_us).max(known.len() + 1);
        let (apply_us, sync_us) =
            (random.exponential(member.apply_us), random.exponential(member.journal_us));
        now_us += apply_us;
        count("replication.batches", now_us, 1.0);
        count("replication.batch_ms", now_us, apply_us / 1000.0);
        now_us += sync_us;
        count("journal.syncs", now_us, 1.0);
        count("journal.sync_us", now_us, sync_us);
        known.resize(end, now_us + member.way_us);
    }
    known
}

/// Simulates the primary and the other members with the size of a majority and writes a second; `outside`: the collection's latency lacks the wait.
fn simulate(members: &[Member], majority: usize, per_s: f64, outside: bool, seed: u64) -> (Evidence, Truth) {
    let mut random = SeededRandom::from_seed(seed);
    let mut seconds = Seconds::default();
    let mut arrivals = Vec::new();
    let mut now_us = 0.0;
    while now_us < SECONDS as f64 * 1e6 {
        now_us += random.exponential(1e6 / per_s);
        arrivals.push((now_us + random.exponential(ENGINE_US), now_us));
    }
    arrivals.sort_by(|one, other| one.0.total_cmp(&other.0));
    let written: Vec<f64> = arrivals.iter().map(|(written, _)| *written).collect();
    let places: Vec<Vec<f64>> = members
        .iter()
        .enumerate()
        .map(|(number, member)| {
            let count = |what: &str, at_us: f64, value: f64| {
                // The primary applies nothing.
                if number > 0 || what.starts_with("journal") {
                    seconds.add(&format!("server.{number}.{what}"), at_us, value);
                }
            };
            journaled(&written, *member, &mut random, count)
        })
        .collect();
    let mut truth = Truth {
        mean_us: 0.0,
        replication_us: 0.0,
        behind_us: vec![0.0; members.len()],
        completes: vec![0.0; members.len()],
    };
    for (at, (written_us, arrived_us)) in arrivals.iter().enumerate() {
        let mut order: Vec<(f64, usize)> =
            places.iter().enumerate().map(|(who, known)| (known[at], who)).collect();
        order.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (done_us, who) = order[majority - 1];
        let (engine_us, wait_us) = (written_us - arrived_us, (done_us - written_us).max(0.0));
        let took_us = ROUND_TRIP_US + engine_us + wait_us;
        seconds.client("update", done_us + ROUND_TRIP_US / 2.0, took_us);
        for (scope, with_wait) in [("", true), ("collection.", !outside)] {
            let in_server_us = engine_us + if with_wait { wait_us } else { 0.0 };
            seconds.add(&format!("server.0.{scope}writes.operations"), done_us, 1.0);
            seconds.add(&format!("server.0.{scope}writes.latency_us"), done_us, in_server_us);
            seconds.add(&format!("server.0.{scope}reads.operations"), done_us, 0.0);
            seconds.add(&format!("server.0.{scope}reads.latency_us"), done_us, 0.0);
        }
        seconds.add("server.0.wait.replication_us", done_us, wait_us);
        seconds.add("server.0.replication.waits", done_us, 1.0);
        seconds.add("server.0.process.cpu_us", *written_us, engine_us);
        seconds.add("server.0.documents.inserted", *written_us, 1.0);
        truth.mean_us += took_us;
        truth.replication_us += wait_us;
        truth.completes[who] += wait_us;
        truth.behind_us.iter_mut().zip(&places).for_each(|(sum, known)| *sum += known[at] - written_us);
    }
    let count = arrivals.len() as f64;
    truth.completes.iter_mut().for_each(|share| *share /= truth.replication_us);
    truth.mean_us /= count;
    truth.replication_us /= count;
    truth.behind_us.iter_mut().for_each(|sum| *sum /= count);
    let facts = read_members(&mut seconds, &written, &places, per_s, majority);
    (seconds.evidence(SECONDS, &facts), truth)
}

/// The readings of the members each second, and the facts of the configuration.
fn read_members(
    seconds: &mut Seconds,
    written: &[f64],
    places: &[Vec<f64>],
    per_s: f64,
    majority: usize,
) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> = Vec::new();
    for (number, known) in places.iter().enumerate() {
        let state = if number == 0 { 1.0 } else { 2.0 };
        for second in 0..SECONDS {
            // Read somewhere in the second, not at its edge.
            let at_us = (second as f64 + 0.7) * 1e6;
            let reached = |all: &[f64]| all.partition_point(|at| *at <= at_us);
            let behind = reached(written).saturating_sub(reached(known));
            seconds.read(&format!("server.{number}.replication.behind"), second, behind as f64);
            seconds.read(&format!("server.{number}.replication.state"), second, state);
            seconds.read(
                &format!("server.{number}.replication.lag_ms"),
                second,
                1000.0 * behind as f64 / per_s,
            );
            seconds.read(&format!("server.{number}.ping_us"), second, ROUND_TRIP_US);
        }
        for (name, value) in
            [("set", "rs".to_owned()), ("majority", majority.to_string()), ("votes", "1".to_owned())]
        {
            facts.push((format!("server.{number}.{name}"), value));
        }
        facts.push((format!("server.{number}"), format!("db{number}:27017")));
    }
    facts
}

fn replication(judgement: &Judgement) -> &fathom_record::budget::Layer {
    let budget = judgement.budgets.iter().find(|budget| budget.operations == "writes").unwrap();
    assert!(budget.closes, "{budget:#?}");
    budget.layers.iter().find(|layer| layer.name == "replication").unwrap()
}

fn found<'j>(judgement: &'j Judgement, id: &str) -> Option<&'j Finding> {
    judgement.findings.iter().find(|finding| finding.id == id)
}

const FAST: Member = member(100.0, 300.0, 800.0);
const SLOW_DISK: Member = member(100.0, 2000.0, 30_000.0);
const SLOWEST: Member = member(100.0, 2000.0, 300_000.0);
const FAR: Member = member(15_000.0, 300.0, 800.0);

#[test]
fn the_wait_is_within_three_points_and_its_member_is_named() {
    let own = member(0.0, 1.0, 700.0);
    for (name, members, majority, waited, storage) in [
        (
            "two slow of three",
            vec![own, member(100.0, 2000.0, 20_000.0), member(100.0, 2000.0, 90_000.0)],
            2,
            1,
            true,
        ),
        ("one slow that is needed", vec![own, SLOW_DISK], 2, 1, true),
        ("one far away that is needed", vec![own, FAR], 2, 1, false),
        ("five, three needed, three slow", vec![own, FAST, SLOW_DISK, SLOWEST, SLOWEST], 3, 2, true),
    ] {
        for outside in [false, true] {
            let (evidence, truth) = simulate(&members, majority, 400.0, outside, 11);
            let judgement = judge(&evidence);
            let layer = replication(&judgement);
            let true_share = truth.replication_us / truth.mean_us;
            println!(
                "{name}: true {:.1} %, found {:.1} %, completes {:?}, behind {:?} us; {:?}",
                100.0 * true_share,
                100.0 * layer.share,
                truth.completes,
                truth.behind_us,
                layer.within.iter().map(|part| (part.name.as_str(), part.mean_us)).collect::<Vec<_>>()
            );
            assert!((layer.share - true_share).abs() < 0.03, "{name}: {layer:#?}");
            assert!(
                truth.completes[waited] > 0.8,
                "{name}: the simulation must make the case: {:?}",
                truth.completes
            );
            let finding = found(&judgement, "replication-on-path").unwrap();
            assert!(
                finding.claim.starts_with(&format!("Writes wait for server {waited} ")),
                "{name}: {finding:#?}"
            );
            assert_eq!(finding.claim.contains("storage"), storage, "{name}: {finding:#?}");
            let parts = |word: &str| -> f64 {
                layer.within.iter().filter(|part| part.name.starts_with(word)).map(|part| part.mean_us).sum()
            };
            let whole: f64 = layer.within.iter().map(|part| part.mean_us).sum();
            assert!((whole / layer.mean_us - 1.0).abs() < 1e-6, "{name}: parts add up: {layer:#?}");
            if storage {
                assert!(
                    parts("journal") > parts("apply") && parts("journal") > 0.4 * layer.mean_us,
                    "{layer:#?}"
                );
            } else {
                assert!(layer.share > 0.5 && layer.mean_us > 10_000.0, "{name}: {layer:#?}");
                assert!(parts("the way") > 0.7 * layer.mean_us, "{name}: {layer:#?}");
                let last = layer.within.last().unwrap();
                assert_eq!(last.name, "the way and the rest", "{name}: {layer:#?}");
            }
        }
    }
}

#[test]
fn an_even_set_has_no_member_to_name() {
    let own = member(0.0, 1.0, 700.0);
    let mut named = 0;
    for seed in 0..12 {
        let (evidence, truth) = simulate(&[own, FAST, FAST], 2, 300.0, false, seed);
        let judgement = judge(&evidence);
        assert!(found(&judgement, "member-lags").is_none(), "{:#?}", judgement.findings);
        if let Some(finding) = found(&judgement, "replication-on-path") {
            named += usize::from(finding.claim.contains("completes"));
            assert!(truth.replication_us / truth.mean_us > 0.3, "{finding:#?}");
        }
    }
    // The lower bound at 95 % exceeds a half, although the truth is a half, in one of forty cases by chance.
    assert!(named <= 2, "{named} of 12 even sets had a member named");
}

#[test]
fn one_slow_member_of_three_lags_and_nobody_waits_for_it() {
    let own = member(0.0, 1.0, 700.0);
    let (evidence, truth) = simulate(&[own, FAST, member(100.0, 50_000.0, 200_000.0)], 2, 400.0, false, 5);
    let judgement = judge(&evidence);
    assert!(truth.completes[2] < 0.01, "{:?}", truth.completes);
    let lags = found(&judgement, "member-lags").unwrap();
    for words in ["erver 2 ", "db2:27017", "no write waits"] {
        assert!(lags.claim.contains(words), "{words}: {lags:#?}");
    }
    assert!(!lags.is_alarm(), "it does not get worse: {lags:#?}");
    if let Some(finding) = found(&judgement, "replication-on-path") {
        assert!(!finding.claim.contains("server 2"), "{finding:#?}");
    }
    // A member that never catches up lags more and more, which is an alarm.
    let mut worse = evidence.clone();
    worse.series = Default::default();
    for (name, series) in evidence.series.iter() {
        for (at, point) in series.points.iter().enumerate() {
            let grows = name.starts_with("server.2.replication.")
                && (name.ends_with("behind") || name.ends_with("lag_ms"));
            let value = if grows { 200.0 * at as f64 + point.value } else { point.value };
            worse.series.add(name, &series.unit, fathom_record::Point { value, ..*point });
        }
    }
    let judgement = judge(&worse);
    assert!(found(&judgement, "member-lags").unwrap().is_alarm(), "{:#?}", judgement.findings);
}

#[test]
fn a_set_of_one_waits_for_its_own_journal() {
    let (evidence, truth) = simulate(&[member(0.0, 1.0, 4000.0)], 1, 300.0, false, 3);
    let judgement = judge(&evidence);
    let budget = judgement.budgets.iter().find(|budget| budget.operations == "writes").unwrap();
    assert!(budget.layers.iter().all(|layer| layer.name != "replication"), "{budget:#?}");
    let journal = budget.layers.iter().find(|layer| layer.name == "journal").unwrap();
    assert!((journal.share - truth.replication_us / truth.mean_us).abs() < 0.03, "{journal:#?}");
    assert!(found(&judgement, "replication-on-path").is_none(), "{:#?}", judgement.findings);
    assert!(found(&judgement, "journal-on-path").is_some(), "{:#?}", judgement.findings);
}
