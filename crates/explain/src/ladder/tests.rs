//! Ladders of loads with known laws: a cap, a peak, a peak that must be refused, and a busy client.

use fathom_record::load::LoadOperation;
use fathom_stats::{Histogram, SeededRandom};

use super::*;

fn load(connections: u64, per_s: f64, mean_ns: f64) -> Entry {
    let mut histogram = Histogram::new();
    (0..100).for_each(|_| histogram.record(mean_ns as u64));
    Entry::Load(Load {
        server: "a server".into(),
        workload: "workload C".into(),
        connections,
        seconds: 30.0,
        operations: 1000,
        per_s,
        offered_per_s: None,
        by_operation: vec![LoadOperation::new("READ", 1000, 0, &histogram, &histogram)],
        client_cpu_share: 0.2,
        client_limited: false,
    })
}

/// A ladder of a law with 1 % of noise, each level three times.
fn ladder(levels: &[u64], law: impl Fn(f64) -> f64) -> Evidence {
    let mut random = SeededRandom::from_seed(12);
    let mut results = Vec::new();
    for n in levels {
        for _ in 0..3 {
            let per_s = law(*n as f64) * (1.0 + 0.01 * random.normal());
            results.push(load(*n, per_s, *n as f64 / per_s * 1e9));
        }
    }
    Evidence { results, ..Evidence::default() }
}

fn judged(evidence: &Evidence) -> Vec<Finding> {
    let mut judgement = Judgement::default();
    judge(evidence, &mut judgement);
    judgement.findings
}

fn usl(n: f64) -> f64 {
    1000.0 * n / (1.0 + 0.02 * (n - 1.0) + 0.0004 * n * (n - 1.0))
}

#[test]
fn a_capped_server_has_a_knee_and_no_peak() {
    let found = judged(&ladder(&[1, 2, 4, 8, 16, 32, 64], |n| (1000.0 * n).min(12_000.0)));
    let [finding] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!(finding.id, "load-knee");
    assert!(
        finding.claim.contains("more than about 12 connections") || finding.claim.contains("about 13"),
        "{finding:#?}"
    );
    assert!(finding.evidence.iter().any(|one| one.contains("No peak")), "{finding:#?}");
}

#[test]
fn a_peak_is_claimed_only_where_it_was_passed() {
    let found = judged(&ladder(&[1, 4, 8, 16, 32, 64, 128], usl));
    assert_eq!(found[0].id, "load-peak", "{found:#?}");
    let short = judged(&ladder(&[1, 2, 4, 8, 16, 32], usl));
    assert!(short.iter().all(|finding| finding.id != "load-peak"), "{short:#?}");
}

#[test]
fn a_busy_client_hides_the_knee_and_single_loads_say_nothing() {
    let mut evidence = ladder(&[1, 2, 4, 8], |n| 1000.0 * n);
    for entry in evidence.results.iter_mut().rev().take(3) {
        if let Entry::Load(load) = entry {
            load.client_limited = true;
        }
    }
    assert_eq!(judged(&evidence)[0].id, "load-knee-hidden");
    assert_eq!(judged(&ladder(&[8], |n| 1000.0 * n)), [], "repeats of one load");
    assert_eq!(judged(&Evidence::default()), []);
}

#[test]
fn rates_show_where_time_begins_to_grow_faster_than_throughput() {
    // M/M/1 at 10,000 a second: R / X is least at half of it.
    let results =
        [2000.0, 4000.0, 5000.0, 8000.0, 9500.0].map(|rate| load(64, rate, 1e9 / (10_000.0 - rate))).to_vec();
    let found = judged(&Evidence { results, ..Evidence::default() });
    assert!(found[0].claim.contains("5,000 operations"), "{found:#?}");
    let calm = [2000.0, 3000.0, 4000.0].map(|rate| load(64, rate, 1e9 / (10_000.0 - rate))).to_vec();
    assert_eq!(judged(&Evidence { results: calm, ..Evidence::default() }), []);
}
