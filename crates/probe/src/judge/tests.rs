//! Tests the judges on disks whose truth is known: simulated steps, seeded.

use fathom_host::cgroup::{Limit, LimitKind};
use fathom_record::disk::{
    DeviceView, FitnessOutcome, Latency, Layout, Operations, RewriteTimes, Step, Stream,
};
use fathom_record::{Finding, Severity};
use fathom_stats::SeededRandom;

use super::*;

/// A disk that serves `parallel` requests at once, each in `service_s`, under a hard limit of `cap` per second.
struct Disk {
    service_s: f64,
    parallel: f64,
    cap: f64,
    noise: f64,
}

impl Disk {
    fn step(&self, depth: u32, block_bytes: u64, random: &mut SeededRandom) -> Step {
        let truth = (f64::from(depth).min(self.parallel) / self.service_s).min(self.cap);
        let per_interval: Vec<f64> = (0..4).map(|_| truth * (1.0 + self.noise * random.normal())).collect();
        let per_s = per_interval.iter().sum::<f64>() / 4.0;
        let mut step =
            step("randread", block_bytes, depth, "none", &[("read", per_s, f64::from(depth) / per_s * 1e9)]);
        step.per_interval = per_interval;
        step
    }

    fn ladder(&self, block_bytes: u64, seed: u64) -> Vec<Step> {
        let mut random = SeededRandom::from_seed(seed);
        (0..=10).map(|rung| self.step(1 << rung, block_bytes, &mut random)).collect()
    }
}

fn step(pattern: &str, block_bytes: u64, depth: u32, durable: &str, kinds: &[(&str, f64, f64)]) -> Step {
    let operations = kinds.iter().map(|(kind, per_s, mean_ns)| Operations {
        kind: (*kind).into(),
        count: (per_s * 10.0) as u64,
        per_s: *per_s,
        mib_per_s: if *kind == "sync" { 0.0 } else { per_s * block_bytes as f64 / 1_048_576.0 },
        latency: Latency {
            mean_ns: *mean_ns,
            min_ns: (*mean_ns * 0.8) as u64,
            p50_ns: *mean_ns as u64,
            p99_ns: None,
            p999_ns: None,
            max_ns: (*mean_ns * 3.0) as u64,
        },
        response: None,
    });
    let stream = Stream {
        pattern: pattern.into(),
        block_bytes,
        engine: "io_uring".into(),
        depth,
        durable: durable.into(),
        rate_per_s: None,
        operations: operations.collect(),
        little_gap: Some(0.001),
        verified: 0,
    };
    Step {
        phase: "random reads".into(),
        begin_ns: 0,
        end_ns: 10_000_000_000,
        streams: vec![stream],
        run_queue_wait_pct: Some(0.5),
        cpu_us_per_operation: None,
        generator_busy_pct: Some(10.0),
        machine_busy_pct: Some(20.0),
        devices: Vec::new(),
        per_interval: Vec::new(),
        ready_after_ns: None,
    }
}

fn ids(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.id.as_str()).collect()
}

fn judge(steps: &[Step]) -> Vec<Finding> {
    findings(&DiskEvidence { steps, ..DiskEvidence::default() })
}

#[test]
fn a_knee_is_found_where_it_is() {
    let disk = Disk { service_s: 0.000_1, parallel: 16.0, cap: f64::INFINITY, noise: 0.01 };
    let knee = knee("random reads", &disk.ladder(4096, 1)).unwrap();
    assert!((knee.throughput_max_per_s / 160_000.0 - 1.0).abs() < 0.02, "{knee:?}");
    assert!((knee.latency_at_one_ns / 100_000.0 - 1.0).abs() < 0.05);
    assert!((knee.concurrency / 16.0 - 1.0).abs() < 0.06);
    assert_eq!(knee.depth_for_90_pct, Some(16));
    assert_eq!((knee.model.as_str(), knee.withheld.as_deref()), ("cap", None));
    assert!(knee.words.contains("needs 16 in flight"), "{}", knee.words);
}

#[test]
fn a_busy_cpu_withholds_the_verdict() {
    let disk = Disk { service_s: 0.000_1, parallel: 512.0, cap: f64::INFINITY, noise: 0.01 };
    let mut steps = disk.ladder(4096, 2);
    steps.iter_mut().skip(4).for_each(|step| step.run_queue_wait_pct = Some(40.0));
    let knee = knee("random reads", &steps).unwrap();
    assert!(knee.withheld.as_deref().is_some_and(|why| why.contains("from 16 in flight")), "{knee:?}");
    let findings = judge(&steps);
    assert!(ids(&findings).contains(&"cpu-not-disk"));
    assert_eq!(fitness(&findings, Some(&knee)).outcome, FitnessOutcome::CannotTell);
}

#[test]
fn a_saturated_generator_is_a_busy_cpu_too() {
    let disk = Disk { service_s: 0.000_1, parallel: 512.0, cap: f64::INFINITY, noise: 0.01 };
    let mut steps = disk.ladder(4096, 3);
    steps.iter_mut().skip(4).for_each(|step| step.generator_busy_pct = Some(99.0));
    assert!(knee("random reads", &steps).unwrap().withheld.is_some());
}

#[test]
fn caps_are_told_from_disks_that_are_merely_flat() {
    let mut named = 0;
    for (seed, cap) in [(1, 100.0), (2, 500.0), (3, 2_300.0), (4, 3_000.0), (5, 16_000.0)] {
        let disk = Disk { service_s: 0.000_5, parallel: 64.0, cap, noise: 0.004 };
        let mut steps = disk.ladder(4096, seed);
        steps.extend(disk.ladder(32_768, seed + 100));
        let findings = judge(&steps);
        let found = findings.iter().find(|finding| finding.id == "capped-iops");
        named += usize::from(found.is_some_and(|finding| finding.is_alarm()));
        let knee = knee("random reads", &steps[..11]);
        assert_eq!(fitness(&findings, knee.as_ref()).outcome, FitnessOutcome::Spoiled);
    }
    assert_eq!(named, 5);
    // A mechanical disk: flat from few in flight on, but neither steady nor round; 40 seeds, none named.
    for seed in 0..40 {
        let disk = Disk { service_s: 0.008, parallel: 1.7, cap: f64::INFINITY, noise: 0.08 };
        assert_eq!(ids(&judge(&disk.ladder(4096, 1_000 + seed))), Vec::<&str>::new(), "seed {seed}");
    }
    // A fast disk whose own limit is steady and not round.
    let disk = Disk { service_s: 0.000_08, parallel: 37.0, cap: f64::INFINITY, noise: 0.004 };
    assert_eq!(ids(&judge(&disk.ladder(4096, 9))), Vec::<&str>::new());
}

#[test]
fn a_disk_slower_than_its_class_is_named() {
    let found = |service_s, medium| {
        let disk = Disk { service_s, parallel: 4.0, cap: f64::INFINITY, noise: 0.02 };
        let steps = disk.ladder(4096, 7);
        let findings = findings(&DiskEvidence { steps: &steps, medium, ..DiskEvidence::default() });
        findings.iter().any(|finding| finding.id == "slower-than-class" && finding.is_alarm())
    };
    assert!(found(0.000_5, Some(Medium::Nvme)) && !found(0.000_3, Some(Medium::Nvme)));
    assert!(found(0.012, Some(Medium::Other)) && !found(0.004, Some(Medium::Other)));
    assert!(found(0.08, Some(Medium::Rotational)) && !found(0.012, Some(Medium::Rotational)));
    assert!(!found(0.08, None), "nothing is known of the device");
    // For a disk behind a cap that a single read at a time reaches, only the cap is known.
    let disk = Disk { service_s: 0.000_5, parallel: 64.0, cap: 50.0, noise: 0.004 };
    let mut steps = disk.ladder(4096, 1);
    steps.extend(disk.ladder(32_768, 2));
    let medium = Some(Medium::Other);
    let findings = findings(&DiskEvidence { steps: &steps, medium, ..DiskEvidence::default() });
    assert_eq!(ids(&findings), ["capped-iops"]);
}

#[test]
fn a_bandwidth_cap_shows_in_large_blocks() {
    let small = Disk { service_s: 0.000_2, parallel: 10.0, cap: f64::INFINITY, noise: 0.004 };
    let large = Disk { service_s: 0.000_4, parallel: 64.0, cap: 125.0 * 32.0, noise: 0.004 };
    let mut steps = small.ladder(4096, 1);
    steps.iter_mut().for_each(|step| step.streams[0].operations[0].per_s *= 1.17);
    steps.iter_mut().for_each(|step| step.per_interval.iter_mut().for_each(|x| *x *= 1.17));
    steps.extend(large.ladder(32_768, 2));
    let findings = judge(&steps);
    assert_eq!(ids(&findings), ["capped-bandwidth"]);
    assert!(findings[0].claim.contains("125"), "{}", findings[0].claim);
}

#[test]
fn our_own_cgroup_is_named_and_only_when_it_bites() {
    let disk = Disk { service_s: 0.000_5, parallel: 64.0, cap: 100.0, noise: 0.004 };
    let steps = disk.ladder(4096, 1);
    let limit = |value| Limit {
        kind: LimitKind::ReadIops,
        value,
        file: "/sys/fs/cgroup/x/io.max".into(),
        counted: None,
    };
    let with = |value| {
        let limits = vec![("sda".to_owned(), limit(value))];
        findings(&DiskEvidence { steps: &steps, limits, ..DiskEvidence::default() })
    };
    let named = with(100);
    assert_eq!(ids(&named), ["capped-by-cgroup"], "the inferred cap would say the same thing twice");
    assert!(named[0].evidence[0].contains("/sys/fs/cgroup/x/io.max"));
    assert_eq!(with(5_000)[0].severity, Severity::Note);
}

#[test]
fn a_swallowed_flush_is_critical_and_a_fast_one_cannot_be_judged() {
    let journal = |flushes_per_s, sync_ns| {
        let mut step = step(
            "append",
            4096,
            1,
            "fdatasync",
            &[("write", 500.0, 50_000.0), ("sync", 500.0, sync_ns), ("durable", 500.0, sync_ns + 50_000.0)],
        );
        let name = "sda".to_owned();
        step.devices = vec![DeviceView {
            name,
            reads_per_s: 0.0,
            writes_per_s: 500.0,
            flushes_per_s: Some(flushes_per_s),
            r_await_ms: None,
            w_await_ms: Some(0.05),
            f_await_ms: None,
            aqu_sz: 0.1,
            util_pct: 10.0,
        }];
        step
    };
    let judged = |step: Step, volatile| {
        let found = findings(&DiskEvidence {
            steps: &[step],
            cache_is_volatile: volatile,
            ..DiskEvidence::default()
        });
        found.first().map(|finding| (finding.id.clone(), finding.severity))
    };
    assert_eq!(
        judged(journal(0.0, 20_000.0), Some(true)),
        Some(("flush-swallowed".into(), Severity::Critical))
    );
    assert_eq!(
        judged(journal(500.0, 20_000.0), Some(true)),
        Some(("flush-very-fast".into(), Severity::Note))
    );
    assert_eq!(judged(journal(500.0, 2_000_000.0), Some(true)), None);
    assert_eq!(
        judged(journal(0.0, 20_000.0), Some(false)),
        Some(("cache-write-through".into(), Severity::Ok))
    );
    assert_eq!(judged(journal(0.0, 20_000.0), None), None);
}

#[test]
fn a_burst_that_runs_dry_is_seen_and_noise_is_not() {
    let mut random = SeededRandom::from_seed(7);
    let mut long = step("randread", 4096, 32, "none", &[("read", 2_000.0, 1e7)]);
    long.per_interval =
        (0..60).map(|i| if i < 35 { 3_000.0 } else { 300.0 } * (1.0 + 0.03 * random.normal())).collect();
    assert_eq!(ids(&judge(&[long.clone()])), ["burst-exhausted"]);
    for _ in 0..50 {
        long.per_interval = (0..60).map(|_| 3_000.0 * (1.0 + 0.05 * random.normal())).collect();
        assert_eq!(ids(&judge(&[long.clone()])), Vec::<&str>::new());
    }
}

#[test]
fn slower_at_the_end_and_dearer_at_first_are_said() {
    let first = step("randread", 4096, 16, "none", &[("read", 10_000.0, 1.6e6)]);
    let mut last = step("randread", 4096, 16, "none", &[("read", 4_000.0, 4e6)]);
    last.phase = crate::profile::REFERENCE_AGAIN.into();
    assert_eq!(ids(&judge(&[first.clone(), last.clone()])), ["slowed-down"]);
    last.streams[0].operations[0].per_s = 9_500.0;
    assert_eq!(ids(&judge(&[first, last])), Vec::<&str>::new());
    let layout = |first_mib_per_s, second_mib_per_s| Layout {
        bytes: 1 << 30,
        seconds: 10.0,
        mib_per_s: 100.0,
        rewritten: Some(RewriteTimes { bytes: 64 << 20, first_mib_per_s, second_mib_per_s }),
        reused: false,
        cut_short: false,
    };
    let of = |layout: &Layout| {
        ids(&findings(&DiskEvidence { layout: Some(layout), ..DiskEvidence::default() })).len()
    };
    assert_eq!(of(&layout(40.0, 200.0)), 1);
    assert_eq!(of(&layout(190.0, 200.0)), 0);
    assert_eq!(of(&layout(4_000.0, 9_000.0)), 0, "too fast to mean anything");
}

#[test]
fn meanings_show_their_arithmetic() {
    let one = step("randread", 32 << 10, 1, "none", &[("read", 100.0, 1e7)]);
    let journal = step("append", 4096, 1, "fdatasync", &[("durable", 250.0, 4e6)]);
    let meanings = meanings(&[one, journal], None, DatasetSize::default());
    let scan = &meanings[0];
    // 100 million documents of 1 KiB are 3.125 million pages of 32 KiB: at 100 a second, 8.7 hours.
    assert!(scan.sentence.contains("8.7 h"), "{}", scan.sentence);
    assert!(scan.arithmetic.contains("3,125,000 page reads"), "{}", scan.arithmetic);
    assert!(
        meanings
            .iter()
            .any(|meaning| meaning.id == "journaled-commits" && meaning.sentence.contains("250 times"))
    );
    let ids: Vec<&str> = meanings.iter().map(|meaning| meaning.id.as_str()).collect();
    assert_eq!(ids, ["cold-scan", "point-reads", "journaled-commits"]);
}

/// If the processors set a figure, it is not one of the disk, and the sentence on it says so.
#[test]
fn what_the_processors_set_is_said_with_the_figure() {
    let mut journal = step("append", 4096, 1, "fdatasync", &[("durable", 250.0, 4e6)]);
    let sentence =
        |step: &Step| meanings(std::slice::from_ref(step), None, DatasetSize::default())[0].sentence.clone();
    assert!(!sentence(&journal).contains("Not the disk"));
    journal.run_queue_wait_pct = Some(30.0);
    assert!(sentence(&journal).ends_with(" (Not the disk: the CPU set the pace.)"), "{}", sentence(&journal));
}
