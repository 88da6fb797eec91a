//! Finds a full device: more requests in flight give no more throughput, only longer times (docs/methods.md#the-knee-of-a-disk).
//!
//! The share of time with a request in flight (`%util`) is not used: a device that serves many requests at once is 100 % busy long
//! before it is full. A full device must also matter: operations wait for pages or the journal, or requests take longer the
//! more of them are in flight. The cap of a queue or of a control group explains the same figures better and comes first. If the
//! processor was short, the verdict is withheld.

use fathom_record::{Confidence, Finding, Severity};
use fathom_stats::median;
use fathom_units::{Nanos, count, decimal};

use crate::path::DeviceSeconds;
use crate::queue::curve_of_reads;
use crate::seconds::{SecondGrid, mean};
use crate::server_devices::leaves;
use crate::{Evidence, Judgement};

/// The series that it is judged by.
pub(crate) const NEEDS: &[&str] = &[
    "device.{device}.reads",
    "device.{device}.writes",
    "device.{device}.read_ms",
    "device.{device}.write_ms",
    "server.{member}.wait.page_read_us",
];

/// The least share of the mean that must be a wait for the device.
const MIN_WAIT_SHARE: f64 = 0.2;
/// The shares of the probe's highest throughput and of the depth at its knee that the run must reach to be past the knee: a mix of requests does not
/// reach the highest throughput of one kind.
const MIN_SHARE_OF_HIGHEST: f64 = 0.8;
const MIN_DEPTH_TO_KNEE: f64 = 1.5;
/// The comparison of the third of the seconds with the least in flight with the third with the most: the least growth of the requests
/// in flight, the most growth of throughput, and the least growth of time.
const MIN_IN_FLIGHT_RATIO: f64 = 2.0;
const MAX_THROUGHPUT_GROWTH: f64 = 1.15;
const MIN_TIME_GROWTH: f64 = 1.5;
const MIN_SECONDS: usize = 15;
/// The findings that explain a full device better than the device does.
const BETTER: &[&str] = &["queue-cap", "capped-by-throttle", "looks-capped", "neighbour-io"];

/// Adds `device-saturated` for each full device.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    let grid = SecondGrid::from_evidence(evidence);
    for member in evidence.members() {
        for device in leaves(evidence, &member) {
            let found = saturated(evidence, judgement, grid, &member, &device);
            let known = |one: &Finding| judgement.findings.iter().any(|other| other.claim == one.claim);
            if let Some(found) = found.filter(|found| !known(found)) {
                judgement.add_unless_withheld(found);
            }
        }
    }
}

fn saturated(
    evidence: &Evidence,
    judgement: &Judgement,
    grid: SecondGrid,
    member: &str,
    device: &str,
) -> Option<Finding> {
    let prefix = format!("device.{device}.");
    let explained = judgement.findings.iter().any(|one| {
        BETTER.contains(&one.id.as_str()) && one.series.iter().any(|name| name.starts_with(&prefix))
    });
    if explained {
        return None;
    }
    let counters = DeviceSeconds::from_evidence(evidence, grid, device)?;
    let waits = waits_for_device(judgement, member);
    let by_probe =
        past_knee(evidence, device, &counters).filter(|_| waits.is_some_and(|share| share >= MIN_WAIT_SHARE));
    let by_growth = grows(&counters).filter(|_| waits.is_none_or(|share| share >= MIN_WAIT_SHARE));
    let certain = by_probe.is_some() && by_growth.is_some();
    let why: Vec<String> = by_probe.into_iter().chain(by_growth).collect();
    if why.is_empty() {
        return None;
    }
    let per_s = mean(counters.requests.iter().flatten().copied())?;
    let claim =
        format!("{device} is full: at {} requests a second more in flight only wait longer", count(per_s));
    let mut finding = Finding::new("device-saturated", Severity::Warning, claim)
        .confidence(if certain { Confidence::Certain } else { Confidence::Likely })
        .advice(
            "Ask less of it for each operation (indexes, compression, the other engine, a larger cache), or spread the data \
             over more or faster devices",
        )
        .next_look("What is written and read for each user byte, and whether another program uses the device too.")
        .source("Lazowska and others, Quantitative System Performance, 1984, chapter 5; docs/methods.md#the-knee-of-a-disk")
        .series(["reads", "writes", "read_ms", "write_ms"].map(|name| format!("device.{device}.{name}")))
        .window(evidence.window_ns);
    finding.evidence = why;
    if let Some(share) = waits {
        finding = finding.evidence(format!(
            "Operations of server {member} wait {:.0} % of their time for pages and the journal",
            100.0 * share
        ));
    }
    Some(finding)
}

/// The part of the mean operation that waits for pages or the journal; `None` without a budget.
fn waits_for_device(judgement: &Judgement, member: &str) -> Option<f64> {
    let (mut part, mut whole) = (0.0, 0.0);
    for budget in judgement.budgets.iter().filter(|budget| budget.member == member) {
        let waits = budget
            .layers
            .iter()
            .filter(|layer| matches!(layer.name.as_str(), "page_read" | "page_write" | "evict" | "journal"));
        part += budget.count * waits.map(|layer| layer.mean_us).sum::<f64>();
        whole += budget.count * budget.whole_us();
    }
    (whole > 0.0).then(|| part / whole)
}

/// Whether the run works past the knee of the probe's curve.
fn past_knee(evidence: &Evidence, device: &str, counters: &DeviceSeconds) -> Option<String> {
    let curve = curve_of_reads(evidence, device)?;
    let (flat_from, seen) = curve.flat_from();
    let highest = curve.highest_per_s();
    let knee = highest * curve.response_us(1.0) / 1e6;
    let per_s = mean(counters.requests.iter().flatten().copied())?;
    let within = mean(counters.within.iter().flatten().copied())?;
    (seen && per_s >= MIN_SHARE_OF_HIGHEST * highest && within >= MIN_DEPTH_TO_KNEE * knee).then(|| {
        format!(
            "By {} it gives at most {} a second, reached with {} in flight (knee at {}); the run had {} in flight and came to {}",
            curve.source,
            count(highest),
            count(flat_from),
            decimal(knee),
            decimal(within),
            count(per_s)
        )
    })
}

/// Whether seconds with more in flight brought no more throughput, only longer times.
fn grows(counters: &DeviceSeconds) -> Option<String> {
    let mut seconds: Vec<(f64, f64, f64)> = counters
        .within
        .iter()
        .zip(&counters.requests)
        .zip(&counters.await_us)
        .filter_map(|((within, per_s), await_us)| Some(((*within)?, (*per_s)?, (*await_us)?)))
        .filter(|(within, ..)| *within >= 1.0)
        .collect();
    if seconds.len() < MIN_SECONDS {
        return None;
    }
    seconds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let third = seconds.len() / 3;
    let of = |part: &[(f64, f64, f64)]| {
        let value = |pick: fn(&(f64, f64, f64)) -> f64| median(&part.iter().map(pick).collect::<Vec<f64>>());
        Some((value(|one| one.0)?, value(|one| one.1)?, value(|one| one.2)?))
    };
    let low = of(seconds.get(..third)?)?;
    let high = of(seconds.get(seconds.len() - third..)?)?;
    let full = high.0 >= MIN_IN_FLIGHT_RATIO * low.0
        && high.1 <= MAX_THROUGHPUT_GROWTH * low.1
        && high.2 >= MIN_TIME_GROWTH * low.2;
    let time = |us: f64| Nanos((us * 1e3) as u64);
    full.then(|| {
        format!(
            "Between the calmest and the busiest third of the seconds it had {} and {} requests in flight, served {} and {} a \
             second, and took {} and {} for one",
            decimal(low.0),
            decimal(high.0),
            count(low.1),
            count(high.1),
            time(low.2),
            time(high.2)
        )
    })
}

#[cfg(test)]
mod tests {
    use fathom_record::budget::{Budget, Layer};
    use fathom_record::{Point, SeriesSet};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A device of `parallel` servers of 1 ms each, with 2 to 40 requests in flight.
    fn run(parallel: f64) -> Evidence {
        let mut series = SeriesSet::default();
        for second in 0..30 {
            let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
            let within = 2.0 + (second * 7 % 20) as f64 * 2.0;
            let mut put = |name: &str, value: f64| series.add(name, "1", Point { begin_ns, end_ns, value });
            put("device.sdb.reads", within.min(parallel) * 1000.0);
            put("device.sdb.read_ms", within * 1000.0);
            put("server.0.up", 1.0);
        }
        Evidence { series, window_ns: (0, 30 * SECOND), ..Evidence::default() }
    }

    fn budget(page_read_share: f64) -> Budget {
        let layer = Layer {
            name: "page_read".into(),
            mean_us: 1000.0 * page_read_share,
            interval_us: None,
            share: page_read_share,
            series: Vec::new(),
            within: Vec::new(),
        };
        Budget {
            member: "0".into(),
            operations: "reads".into(),
            count: 100.0,
            window_ns: (0, 1),
            client_mean_us: Some(1000.0),
            server_mean_us: 900.0,
            layers: vec![layer],
            unexplained_us: 0.0,
            closure: 1.0,
            closes: true,
            missing: Vec::new(),
        }
    }

    fn judged(evidence: &Evidence, mut judgement: Judgement) -> Vec<Finding> {
        judge(evidence, &mut judgement);
        judgement.findings.into_iter().filter(|one| one.id == "device-saturated").collect()
    }

    #[test]
    fn a_full_device_is_named_and_one_with_room_is_not() {
        let found = judged(&run(4.0), Judgement::default());
        let [finding] = found.as_slice() else { panic!("{found:#?}") };
        assert!(finding.claim.contains("sdb is full"), "{finding:#?}");
        assert_eq!(judged(&run(100.0), Judgement::default()), []);
    }

    #[test]
    fn it_must_matter_and_nothing_else_may_explain_it() {
        let with = |share: f64| Judgement { budgets: vec![budget(share)], ..Judgement::default() };
        assert_eq!(judged(&run(4.0), with(0.6)).len(), 1);
        assert_eq!(judged(&run(4.0), with(0.05)), [], "operations hardly wait for it");
        let capped =
            Finding::new("capped-by-throttle", Severity::Warning, "x").series(["device.sdb.cap.read_iops"]);
        let capped = Judgement { findings: vec![capped], ..Judgement::default() };
        assert_eq!(judged(&run(4.0), capped), []);
        let short = Judgement { withheld: vec!["The processor was short.".into()], ..Judgement::default() };
        assert_eq!(judged(&run(4.0), short)[0].confidence, Confidence::CannotTell);
    }
}
