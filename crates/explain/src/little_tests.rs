//! Little's law on queues whose truth is known, and on records with something missing.

use fathom_record::Point;
use fathom_stats::SeededRandom;

use super::*;

const SECONDS: u64 = 120;

/// An open queue of `servers` with Poisson arrivals; `general` service is half constant, half long. Every `drop_every`th
/// operation is lost from the records. Writes what a client would.
fn queue(servers: usize, general: bool, drop_every: u64) -> Evidence {
    let mut stream = SeededRandom::from_seed(31);
    let (rate_per_s, mean_s) = (200.0 * servers as f64, 0.0035);
    let mut free_s = vec![0.0_f64; servers];
    let (mut now_s, mut number) = (0.0, 0u64);
    let mut area_s = vec![0.0; SECONDS as usize];
    let mut ended = vec![(0.0, 0.0); SECONDS as usize];
    while now_s < SECONDS as f64 {
        now_s += stream.exponential(1.0 / rate_per_s);
        number += 1;
        let first = (0..servers).min_by(|one, other| free_s[*one].total_cmp(&free_s[*other])).unwrap();
        let begin_s = now_s.max(free_s[first]);
        let long_s = if stream.uniform() < 0.1 { 5.5 * mean_s } else { 0.5 * mean_s };
        let end_s = begin_s + if general { long_s } else { stream.exponential(mean_s) };
        free_s[first] = end_s;
        for (second, area) in
            area_s.iter_mut().enumerate().skip(now_s as usize).take((end_s - now_s) as usize + 2)
        {
            *area += (end_s.min(second as f64 + 1.0) - now_s.max(second as f64)).max(0.0);
        }
        let kept = drop_every == 0 || !number.is_multiple_of(drop_every);
        if let Some(sums) = ended.get_mut(end_s as usize).filter(|_| kept) {
            *sums = (sums.0 + 1.0, sums.1 + end_s - now_s);
        }
    }
    let mut evidence = Evidence { window_ns: (0, SECONDS * 1_000_000_000), ..Evidence::default() };
    for (second, (area, (count, time_s))) in area_s.into_iter().zip(ended).enumerate() {
        let begin_ns = second as u64 * 1_000_000_000;
        let mut put = |name: &str, value: f64| {
            evidence.series.add(name, "1", Point { begin_ns, end_ns: begin_ns + 1_000_000_000, value });
        };
        put("client.operations.per_s", count);
        put("client.in_flight", area);
        put("client.read.per_s", count);
        put("client.read.service.mean_ns", time_s / count * 1e9);
    }
    evidence
}

fn findings(evidence: &Evidence) -> Vec<String> {
    let mut judgement = Judgement::default();
    judge(evidence, &mut judgement);
    judgement.findings.into_iter().map(|finding| finding.id).collect()
}

#[test]
fn sound_queues_hold() {
    for (servers, general) in [(1, false), (4, false), (1, true), (8, true)] {
        let evidence = queue(servers, general, 0);
        let rows = client_rows(&evidence, &ClientLoads::from_evidence(&evidence).unwrap());
        let gap = gap_of(&LittleRows::check(&rows.rows));
        println!("{servers} servers, general {general}: gap {:.3} %", 100.0 * gap);
        assert!(gap.abs() < 0.005, "{gap}");
        assert_eq!(findings(&evidence), Vec::<String>::new());
    }
}

#[test]
fn dropped_records_are_caught() {
    for drop_every in [10, 25] {
        assert_eq!(findings(&queue(4, false, drop_every)), ["client-count-does-not-add-up"], "{drop_every}");
    }
}

#[test]
fn a_window_that_drifts_is_not_judged() {
    let mut evidence = queue(4, false, 10);
    for second in 60..SECONDS {
        let begin_ns = second * 1_000_000_000;
        let point = Point { begin_ns, end_ns: begin_ns + 1_000_000_000, value: 60.0 };
        // Another operation begins halfway.
        evidence.series.add("client.update.per_s", "1/s", point);
        evidence.series.add("client.update.service.mean_ns", "ns", Point { value: 1e6, ..point });
    }
    assert_eq!(findings(&evidence), Vec::<String>::new());
}

/// A device whose requests come in bursts that last for part of each second, seen 20 times a second.
fn device(hidden: bool) -> Evidence {
    let mut stream = SeededRandom::from_seed(5);
    let mut evidence = Evidence { window_ns: (0, SECONDS * 1_000_000_000), ..Evidence::default() };
    for second in 0..SECONDS {
        let begin_ns = second * 1_000_000_000;
        let busy = 0.3 + 0.1 * stream.uniform();
        let window = |value| Point { begin_ns, end_ns: begin_ns + 1_000_000_000, value };
        evidence.series.add("device.x.reads", "1", window(busy * 2000.0));
        evidence.series.add("device.x.writes", "1", window(0.0));
        evidence.series.add("device.x.read_ms", "ms", window(busy * 1000.0 * 8.0));
        evidence.series.add("device.x.write_ms", "ms", window(0.0));
        for sample in 0..20u64 {
            let at_ns = begin_ns + (sample + 1) * 50_000_000;
            let in_flight = if stream.uniform() < busy && !hidden { 8.0 } else { 1.0 };
            let value = if hidden { in_flight } else { in_flight - f64::from(u8::from(in_flight < 2.0)) };
            evidence.series.add("device.x.in_flight", "1", Point { begin_ns: at_ns, end_ns: at_ns, value });
        }
    }
    evidence
}

#[test]
fn a_device_holds_within_sampling_error_and_hidden_requests_are_told() {
    assert_eq!(findings(&device(false)), Vec::<String>::new());
    assert_eq!(findings(&device(true)), ["device-count-does-not-add-up"]);
}
