//! Caps on composed series: a cap that holds, one without waits, one that does not hold, and no cap.

use fathom_record::{Point, SeriesSet};
use fathom_stats::SeededRandom;

use super::*;

const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy)]
struct DeviceLoad {
    /// Device reads a second, and their variation.
    per_s: f64,
    varies: f64,
    /// Operations in page reads, their variation from second to second, and requests within the device.
    waiting: f64,
    swings: f64,
    within: f64,
    cap: Option<f64>,
    in_flight: f64,
}

fn run(load: &DeviceLoad) -> Evidence {
    let mut series = SeriesSet::default();
    let mut random = SeededRandom::from_seed(8);
    for second in 0..40 {
        let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
        let per_s = load.per_s * (1.0 + load.varies * random.normal());
        let mut put = |name: &str, value: f64| series.add(name, "1", Point { begin_ns, end_ns, value });
        put("device.sdb.reads", per_s);
        put("device.sdb.writes", 0.0);
        put("device.sdb.read_ms", load.within * 1000.0);
        let swing = if second % 2 == 0 { load.swings } else { -load.swings };
        put("server.0.wait.page_read_us", (load.waiting + swing) * 1e6);
        put("client.in_flight", load.in_flight);
        put("client.connections", 8.0);
        if let Some(cap) = load.cap {
            put("device.sdb.cap.read_iops", cap);
        }
    }
    Evidence { series, window_ns: (0, 40 * SECOND), ..Evidence::default() }
}

fn judged(load: &DeviceLoad) -> Vec<Finding> {
    let mut judgement = Judgement::default();
    judge(&run(load), &mut judgement);
    judgement.findings
}

const HELD: DeviceLoad = DeviceLoad {
    per_s: 298.0,
    varies: 0.003,
    waiting: 7.5,
    swings: 0.0,
    within: 0.3,
    cap: Some(300.0),
    in_flight: 8.0,
};

#[test]
fn a_cap_that_holds_is_named_with_its_figure_and_whose_it_is() {
    let found = judged(&HELD);
    let [finding] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!(finding.id, "capped-by-throttle");
    assert!(finding.claim.contains("control group holds sdb at 300 reads"), "{finding:#?}");
    assert!(finding.evidence.iter().any(|one| one.contains("7.50 operations")), "{finding:#?}");
    assert_eq!(finding.command, None, "which file holds the cap was not read");
    let mut evidence = run(&HELD);
    let file = "/sys/fs/cgroup/db.slice/io.max";
    evidence.environment.insert("device.sdb.cap.read_iops.file".to_owned(), file.to_owned());
    let mut judgement = Judgement::default();
    judge(&evidence, &mut judgement);
    let finding = &judgement.findings[0];
    let line = |limit: &str| Some(format!("echo \"$(cat /sys/block/sdb/dev) riops={limit}\" > {file}"));
    assert_eq!((finding.command.clone(), finding.undo.clone()), (line("max"), line("300")));
}

/// The closed loop of a search has five seconds, and the throttle lets 50 more requests pass in the first.
#[test]
fn a_burst_in_the_first_second_hides_no_cap() {
    let mut evidence = run(&HELD);
    evidence.window_ns = (0, 5 * SECOND);
    let burst = Point { begin_ns: 0, end_ns: SECOND, value: 350.0 };
    let calm =
        (1..5).map(|second| Point { begin_ns: second * SECOND, end_ns: (second + 1) * SECOND, value: 298.0 });
    evidence.series.extend("device.sdb.throttle_reads", "1", std::iter::once(burst).chain(calm));
    let mut judgement = Judgement::default();
    judge(&evidence, &mut judgement);
    assert_eq!(judgement.findings[0].id, "capped-by-throttle", "{:#?}", judgement.findings);
}

/// A real mongod's count under a cap of 120: single seconds are up to a fifth above it.
#[test]
fn a_count_that_jitters_around_the_cap_is_held_by_it() {
    let mut evidence = run(&DeviceLoad { per_s: 120.0, cap: Some(120.0), ..HELD });
    let counts = [97.0, 143.0, 118.0, 137.0, 105.0].into_iter().cycle();
    let points = (0..40).zip(counts).map(|(second, value)| Point {
        begin_ns: second * SECOND,
        end_ns: (second + 1) * SECOND,
        value,
    });
    evidence.series.extend("device.sdb.throttle_reads", "1", points);
    let mut judgement = Judgement::default();
    judge(&evidence, &mut judgement);
    assert_eq!(judgement.findings[0].id, "capped-by-throttle", "{:#?}", judgement.findings);
}

/// Version 1 of control groups counts buffered writes when they are submitted: a writeback of five seconds at once.
#[test]
fn buffered_writes_are_held_to_the_cap_at_the_device() {
    let evidence = capped_writes(298.0, Some(|second| if second % 10 == 0 { 3_000.0 } else { 0.0 }));
    let mut judgement = Judgement::default();
    judge(&evidence, &mut judgement);
    let finding = &judgement.findings[0];
    assert_eq!(finding.id, "capped-by-throttle", "{:#?}", judgement.findings);
    assert!(finding.evidence[0].contains("by the device's counter"), "{finding:#?}");
}

#[test]
fn a_cap_that_nobody_waits_for_or_that_does_not_hold_is_no_finding() {
    for (what, load) in [
        ("not reached", DeviceLoad { per_s: 217.0, ..HELD }),
        ("nobody waits", DeviceLoad { waiting: 0.3, in_flight: 1.0, ..HELD }),
        ("it does not hold these", DeviceLoad { per_s: 900.0, ..HELD }),
        ("the control run", DeviceLoad { per_s: 2317.0, varies: 0.08, cap: None, ..HELD }),
        (
            "a load held to its rate",
            DeviceLoad { per_s: 3000.0, cap: None, in_flight: 1.2, waiting: 0.4, ..HELD },
        ),
        ("flat, but not round", DeviceLoad { per_s: 2717.0, cap: None, ..HELD }),
    ] {
        let found = judged(&load);
        let ids: Vec<&str> = found.iter().map(|finding| finding.id.as_str()).collect();
        // A cap that is set is named even then.
        let expected: &[&str] = if load.cap.is_some() { &["cap-not-reached"] } else { &[] };
        assert_eq!(ids, expected, "{what}");
        assert!(found.iter().all(|finding| finding.severity == Severity::Note), "{what}");
    }
}

/// 185 writes and 110 flushes a second under a cap of 300, with a journal that is synced all the time.
fn capped_writes(written: f64, counted: Option<fn(u64) -> f64>) -> Evidence {
    let mut series = SeriesSet::default();
    for second in 0..40 {
        let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
        let mut put = |name: &str, value: f64| series.add(name, "1", Point { begin_ns, end_ns, value });
        put("device.vda.reads", 0.0);
        put("device.vda.writes", written);
        put("device.vda.cap.write_iops", 300.0);
        if let Some(counted) = counted {
            put("device.vda.throttle_writes", counted(second));
        }
        put("server.0.journal.syncs", 110.0);
        put("server.0.journal.sync_us", 900_000.0);
    }
    let facts = [
        ("device.vda.number", "254:0"),
        ("device.vda.cap.write_iops.file", "/sys/fs/cgroup/blkio/db/blkio.throttle.write_iops_device"),
    ];
    let environment = facts.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    Evidence { series, environment, window_ns: (0, 40 * SECOND), ..Evidence::default() }
}

#[test]
fn flushes_count_against_a_cap_on_writes_as_the_throttle_counts_them() {
    let found = |counted: bool| {
        let mut judgement = Judgement::default();
        judge(&capped_writes(185.0, counted.then_some(|_| 295.0)), &mut judgement);
        judgement.findings
    };
    let counted = found(true);
    let [finding] = counted.as_slice() else { panic!("{counted:#?}") };
    assert_eq!(finding.id, "capped-by-throttle");
    assert!(
        finding.claim.contains("300 writes a second, which was reached 100 % of the time"),
        "{finding:#?}"
    );
    assert!(finding.evidence[0].contains("98 % were used on average"), "{finding:#?}");
    assert!(
        finding.evidence.iter().any(|one| one.contains("synced 90 % of those seconds, 8.18 ms")),
        "{finding:#?}"
    );
    // The real file, and the kernel's word for no limit in version 1.
    let file = "/sys/fs/cgroup/blkio/db/blkio.throttle.write_iops_device";
    assert_eq!(finding.command, Some(format!("echo \"254:0 0\" > {file}")));
    assert_eq!(finding.undo, Some(format!("echo \"254:0 300\" > {file}")));
    let device = found(false);
    assert_eq!(device[0].id, "cap-not-reached", "the device's own counter cannot show it");
    assert!(device[0].evidence[0].contains("62 % were used on average"), "{device:#?}");
    assert!(device[0].evidence[0].contains("holds neither flushes"), "{device:#?}");
}

#[test]
fn a_flat_round_ceiling_looks_like_a_cap() {
    let swinging = DeviceLoad { per_s: 3000.0, cap: None, swings: 4.0, ..HELD };
    let found = judged(&swinging);
    let [finding] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!((finding.id.as_str(), finding.confidence), ("looks-capped", Confidence::Likely));
    assert!(finding.claim.contains("stops at 3,000 requests"), "{finding:#?}");
    let mut judgement =
        Judgement { withheld: vec!["The processor was short.".into()], ..Judgement::default() };
    judge(&run(&swinging), &mut judgement);
    assert_eq!(judgement.findings[0].confidence, Confidence::CannotTell);
    // With a constant demand a slow device gives a flat rate too.
    let steady = judged(&DeviceLoad { swings: 0.0, ..swinging });
    assert_eq!((steady[0].severity, steady[0].confidence), (Severity::Note, Confidence::CannotTell));
}

#[test]
fn round_numbers_are_those_that_are_sold() {
    for level in [300.0, 3000.0, 16_000.0 * 0.9375, 2298.0, 125.0 * 1_048_576.0 * 1.2, 1e8, 999.0] {
        assert!(is_round(level), "{level}");
    }
    for level in [0.0, 271.0, 5500.0, 9000.0, f64::NAN] {
        assert!(!is_round(level), "{level}");
    }
}
