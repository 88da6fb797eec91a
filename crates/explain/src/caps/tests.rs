//! Caps on composed series: one that holds, one that nobody waits for, one that does not hold, and none.

use fathom_record::{Point, SeriesSet};
use fathom_stats::Seeded;

use super::*;

const SECOND: u64 = 1_000_000_000;

struct Load {
    /// Device reads a second, and how they vary.
    per_s: f64,
    varies: f64,
    /// Operations in page reads, and requests within the device.
    waiting: f64,
    within: f64,
    cap: Option<f64>,
    /// Of 8 connections.
    in_flight: f64,
}

fn run(load: &Load) -> Evidence {
    let mut series = SeriesSet::default();
    let mut random = Seeded::from_seed(8);
    for second in 0..40 {
        let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
        let per_s = load.per_s * (1.0 + load.varies * random.normal());
        let mut put = |name: &str, value: f64| series.add(name, "1", Point { begin_ns, end_ns, value });
        put("device.sdb.reads", per_s);
        put("device.sdb.writes", 0.0);
        put("device.sdb.read_ms", load.within * 1000.0);
        put("server.0.wait.page_read_us", load.waiting * 1e6);
        put("client.in_flight", load.in_flight);
        put("client.connections", 8.0);
        if let Some(cap) = load.cap {
            put("device.sdb.cap.read_iops", cap);
        }
    }
    Evidence { series, window_ns: (0, 40 * SECOND), ..Evidence::default() }
}

fn judged(load: &Load) -> Vec<Finding> {
    let mut judgement = Judgement::default();
    judge(&run(load), &mut judgement);
    judgement.findings
}

const HELD: Load =
    Load { per_s: 298.0, varies: 0.003, waiting: 7.5, within: 0.3, cap: Some(300.0), in_flight: 8.0 };

#[test]
fn a_cap_that_holds_is_named_with_its_figure_and_whose_it_is() {
    let found = judged(&HELD);
    let [finding] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!(finding.id, "capped-by-throttle");
    assert!(finding.claim.contains("control group holds sdb at 300 reads"), "{finding:#?}");
    assert!(finding.evidence.iter().any(|one| one.contains("7.50 operations")), "{finding:#?}");
    assert!(finding.command.as_deref().is_some_and(|line| line.contains("riops=max")), "{finding:#?}");
}

#[test]
fn a_cap_that_nobody_waits_for_or_that_does_not_hold_is_no_finding() {
    for (what, load) in [
        ("not reached", Load { per_s: 217.0, ..HELD }),
        ("nobody waits", Load { waiting: 0.3, in_flight: 1.0, ..HELD }),
        ("it does not hold these", Load { per_s: 900.0, ..HELD }),
        ("the control run", Load { per_s: 2317.0, varies: 0.08, cap: None, ..HELD }),
        ("a load held to its rate", Load { per_s: 3000.0, cap: None, in_flight: 1.2, waiting: 0.4, ..HELD }),
        ("flat, but not round", Load { per_s: 2717.0, cap: None, ..HELD }),
    ] {
        assert_eq!(judged(&load), [], "{what}");
    }
}

#[test]
fn a_flat_round_ceiling_looks_like_a_cap() {
    let found = judged(&Load { per_s: 3000.0, cap: None, ..HELD });
    let [finding] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!((finding.id.as_str(), finding.confidence), ("looks-capped", Confidence::Likely));
    assert!(finding.claim.contains("stops at 3,000 requests"), "{finding:#?}");
    let mut judgement =
        Judgement { withheld: vec!["The processor was short.".into()], ..Judgement::default() };
    judge(&run(&Load { per_s: 3000.0, cap: None, ..HELD }), &mut judgement);
    assert_eq!(judgement.findings[0].confidence, Confidence::CannotTell);
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
