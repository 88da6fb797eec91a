//! Ladders on composed series: a queue that limits, one that is merely used, and one whose device is full.

use fathom_record::disk::{DeviceView, Entry, Latency, Operations, Step, Stream};
use fathom_record::{Confidence, Point, SeriesSet};
use fathom_stats::SeededRandom;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// A closed loop of `clients` page reads on a device of `parallel` servers of 200 us behind a queue of `cap`, for 30 s.
fn closed_loop(clients: f64, parallel: f64, cap: f64) -> Evidence {
    let mut series = SeriesSet::default();
    let mut random = SeededRandom::from_seed(5);
    for second in 0..30 {
        let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
        // The demand varies a little, as in practice.
        let asked = clients * (1.0 + 0.05 * random.normal());
        let within = asked.min(cap);
        let per_s = within.min(parallel) * 5000.0;
        let mut put = |name: &str, value: f64| series.add(name, "1", Point { begin_ns, end_ns, value });
        put("device.sdb.reads", per_s);
        put("device.sdb.writes", 0.0);
        put("device.sdb.read_ms", within * 1000.0);
        put("device.sdb.queue.requests", cap);
        put("server.0.wait.page_read_us", asked * 1e6);
        put("server.0.reads.operations", per_s);
        put("server.0.reads.latency_us", asked * 1e6);
        put("server.0.tickets.read.out", asked);
        put("server.0.tickets.read.total", 128.0);
        put("client.in_flight", asked);
        put("client.connections", clients.max(asked));
        put("client.read.per_s", per_s);
        put("client.read.service.mean_ns", asked / per_s * 1e9);
        put("client.read.response.mean_ns", asked / per_s * 1e9);
        for sample in 0..20 {
            let end_ns = begin_ns + (sample + 1) * SECOND / 20;
            series.add(
                "device.sdb.in_flight",
                "1",
                Point { begin_ns: end_ns - 1, end_ns, value: within.floor() },
            );
        }
    }
    Evidence { series, window_ns: (0, 30 * SECOND), seed: 9, ..Evidence::default() }
}

/// A probe's step on the same device.
fn step(depth: u32, parallel: f64, cap: f64) -> Entry {
    let n = f64::from(depth);
    let per_s = n.min(cap).min(parallel) * 5000.0;
    let mean_ns = n / per_s * 1e9;
    let latency = Latency {
        mean_ns,
        min_ns: 1,
        p50_ns: mean_ns as u64,
        p99_ns: None,
        p999_ns: None,
        max_ns: mean_ns as u64,
    };
    let reads = Operations {
        kind: "read".into(),
        count: 10_000,
        per_s,
        mib_per_s: per_s / 256.0,
        latency,
        response: None,
    };
    let stream = Stream {
        pattern: "randread".into(),
        block_bytes: 4096,
        engine: "io_uring".into(),
        depth,
        durable: "none".into(),
        rate_per_s: None,
        operations: vec![reads],
        little_gap: None,
        verified: 0,
    };
    let view = DeviceView {
        name: "sdb".into(),
        reads_per_s: per_s,
        writes_per_s: 0.0,
        flushes_per_s: None,
        r_await_ms: None,
        w_await_ms: None,
        f_await_ms: None,
        aqu_sz: n.min(cap),
        util_pct: 100.0,
    };
    Entry::Step(Step {
        phase: "random reads".into(),
        begin_ns: 0,
        end_ns: 1,
        streams: vec![stream],
        run_queue_wait_pct: None,
        cpu_us_per_operation: None,
        machine_busy_pct: None,
        generator_busy_pct: None,
        ready_after_ns: None,
        devices: vec![view],
        per_interval: Vec::new(),
    })
}

/// The same step with a share of its throughput.
fn short_of(step: Entry, part: f64) -> Entry {
    let Entry::Step(mut step) = step else { return step };
    for reads in step.streams.iter_mut().flat_map(|stream| &mut stream.operations) {
        reads.per_s *= part;
        reads.latency.mean_ns /= part;
    }
    Entry::Step(step)
}

fn probe(parallel: f64, cap: f64) -> Vec<Entry> {
    (0..9).map(|power| step(1 << power, parallel, cap)).collect()
}

fn judged(evidence: &Evidence) -> Judgement {
    let mut judgement = Judgement::default();
    judge(evidence, &mut judgement);
    judgement
}

#[test]
fn a_capped_queue_is_named_with_what_lifting_it_brings() {
    let evidence = Evidence { results: probe(64.0, f64::INFINITY), ..closed_loop(64.0, 64.0, 16.0) };
    let judgement = judged(&evidence);
    let [finding] = judgement.findings.as_slice() else { panic!("{:#?}", judgement.ladders) };
    assert_eq!((finding.id.as_str(), finding.confidence), ("queue-cap", Confidence::Certain), "{finding:#?}");
    assert!(finding.claim.contains("sdb lets 16 requests"), "{finding:#?}");
    assert_eq!(finding.command.as_deref(), Some("echo 64 > /sys/block/sdb/queue/nr_requests"));
    assert_eq!(finding.undo.as_deref(), Some("echo 16 > /sys/block/sdb/queue/nr_requests"));
    // N / X falls from 64 / 80,000 to 64 / 320,000 seconds.
    let gain = finding.gain.as_ref().unwrap();
    assert!((gain.share - 0.75).abs() < 0.03 && gain.interval.0 > 0.7, "{gain:?}");
    let ladder = &judgement.ladders[0];
    assert_eq!(ladder.limiter().map(|rung| rung.name.as_str()), Some("device sdb"));
    assert_eq!(ladder.rungs.len(), 3, "{ladder:#?}");
}

/// A closed loop of as many requests as a device has servers stays below its highest throughput, because of the gap between two
/// requests and other work of the machine in that step. The device then seems to give more still, far beyond the number that waits.
#[test]
fn no_deeper_queue_is_advised_than_what_waits_asks_for() {
    let mut results = probe(32.0, f64::INFINITY);
    results.insert(5, short_of(results[5].clone(), 0.93));
    results.remove(6);
    let evidence = Evidence { results, ..closed_loop(24.0, 32.0, 4.0) };
    let judgement = judged(&evidence);
    let [finding] = judgement.findings.as_slice() else { panic!("{:#?}", judgement.ladders) };
    assert_eq!(
        finding.command.as_deref(),
        Some("echo 32 > /sys/block/sdb/queue/nr_requests"),
        "{finding:#?}"
    );
    let forecast = judgement.ladders[0].forecast.as_ref().unwrap();
    let caps: Vec<f64> = forecast.options.iter().map(|option| option.cap).collect();
    assert_eq!((caps.as_slice(), forecast.flat_from), (&[8.0, 16.0, 32.0, 64.0][..], 64.0));
}

/// Deeper steps were cut short, or a processor limited them: the forecast claims nothing for depths that were not seen.
#[test]
fn of_depths_that_the_probe_did_not_reach_nothing_is_claimed() {
    let results: Vec<Entry> = probe(64.0, f64::INFINITY).into_iter().take(5).collect();
    let judgement = judged(&Evidence { results, ..closed_loop(64.0, 64.0, 4.0) });
    let [finding] = judgement.findings.as_slice() else { panic!("{:#?}", judgement.ladders) };
    let advice = finding.advice.as_deref().unwrap();
    assert_eq!(advice, "Let 16 requests through at once; whether more would help was not measured");
    let evidence = finding.evidence.iter().find(|text| text.starts_with("A request takes")).unwrap();
    assert!(evidence.contains("More than 16 in flight were not measured"), "{evidence}");
}

#[test]
fn a_queue_that_lets_nothing_through_has_no_forecast() {
    let evidence = Evidence { results: probe(32.0, f64::INFINITY), ..closed_loop(24.0, 32.0, 0.0) };
    assert!(judged(&evidence).ladders.iter().all(|ladder| ladder.forecast.is_none()));
}

#[test]
fn a_queue_depth_of_the_device_and_sessions_have_their_own_lines() {
    let mut evidence = Evidence { results: probe(64.0, f64::INFINITY), ..closed_loop(64.0, 64.0, 16.0) };
    for (name, value) in [("queue_depth", "16"), ("nr_requests", "256"), ("transport", "iscsi")] {
        evidence.environment.insert(format!("device.sdb.{name}"), value.to_owned());
    }
    let judgement = judged(&evidence);
    let command = judgement.findings[0].command.as_deref().unwrap();
    assert!(command.starts_with("echo 64 > /sys/block/sdb/device/queue_depth\n#"), "{command}");
    assert!(command.ends_with("nr_sessions -v 4"), "{command}");
}

#[test]
fn queues_that_are_used_and_devices_that_are_full_are_no_queue_cap() {
    let results = probe(64.0, f64::INFINITY);
    for (what, evidence) in [
        ("the control run", closed_loop(12.0, 64.0, 128.0)),
        ("full, but nothing above it", closed_loop(16.0, 64.0, 16.5)),
        ("the device is flat there", closed_loop(64.0, 16.0, 16.0)),
    ] {
        let parallel = if what.contains("flat") { probe(16.0, f64::INFINITY) } else { results.clone() };
        let judgement = judged(&Evidence { results: parallel, ..evidence });
        assert_eq!(judgement.findings, [], "{what}: {:#?}", judgement.ladders);
        assert_eq!(judgement.ladders.len(), 1, "{what}");
    }
}

#[test]
fn without_a_deep_enough_probe_it_says_what_would_tell() {
    let capped_probe = Evidence { results: probe(64.0, 16.0), ..closed_loop(64.0, 64.0, 16.0) };
    for evidence in [closed_loop(64.0, 64.0, 16.0), capped_probe] {
        let judgement = judged(&evidence);
        let [finding] = judgement.findings.as_slice() else { panic!("{:#?}", judgement.ladders) };
        assert_eq!((finding.confidence, &finding.gain), (Confidence::Likely, &None), "{finding:#?}");
        assert!(
            finding.next_look.as_deref().is_some_and(|look| look.contains("fathom disk")),
            "{finding:#?}"
        );
    }
}
