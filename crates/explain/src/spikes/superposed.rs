//! All cycles of checkpoints, or of an LSM engine's flushes, laid over each other to show each second of a cycle.
//!
//! It shows and does not judge: the sign-flip test over cycles decides whether the rise at an event is more than noise.

use std::collections::BTreeMap;

use fathom_record::pictures::cycles::{CycleMeasure, SuperposedCycles};
use fathom_record::{Point, read_together};
use fathom_stats::{mean, median, quantile};

use super::events::busy_windows;
use super::latency::LatencySeries;
use crate::Evidence;
use crate::client::points;
use crate::server_devices::{in_flight, tops};

/// The fewest cycles that can be laid over each other.
const MIN_CYCLES: usize = 3;
/// The most steps in which a cycle is shown, each at least a second long.
const MAX_STEPS: f64 = 60.0;
/// The share of a cycle that is shown before the event.
const SHARE_BEFORE_EVENT: f64 = 0.25;
/// The share of cycles that lies within the band.
const BAND_SHARE: f64 = 0.8;
const NS_PER_S: f64 = 1e9;
const MIB: f64 = 1_048_576.0;

/// One value and the middle of its window, in seconds.
type TimedFigure = (f64, f64);

/// The cycles of each server that had enough of them; `checkpoints` says when those of each ran.
pub(crate) fn superposed_cycles(
    evidence: &Evidence,
    checkpoints: &BTreeMap<String, Vec<(f64, f64)>>,
) -> Vec<SuperposedCycles> {
    let members = evidence.members();
    let of = |member: &String| {
        let ran = checkpoints.get(member).map_or(&[][..], Vec::as_slice);
        of_member(evidence, member, members.len(), ran)
    };
    members.iter().filter_map(of).collect()
}

fn of_member(
    evidence: &Evidence,
    member: &str,
    members: usize,
    checkpoints: &[(f64, f64)],
) -> Option<SuperposedCycles> {
    let name = |last: &str| format!("server.{member}.{last}");
    let events = [
        ("checkpoint", checkpoints.to_vec()),
        ("flush", busy_windows(evidence, &name("flush.written_bytes"))),
        ("compaction", busy_windows(evidence, &name("compaction.written_bytes"))),
    ];
    let (event, begins, period_s) = events.into_iter().find_map(|(event, windows)| {
        let begins: Vec<f64> = windows.iter().map(|window| window.0).collect();
        let distances: Vec<f64> =
            begins.windows(2).filter_map(|pair| Some(pair.get(1)? - pair.first()?)).collect();
        let period_s = median(&distances)?;
        (begins.len() >= MIN_CYCLES && period_s >= 4.0).then_some((event, begins, period_s))
    })?;
    let steps = Steps::new(period_s);
    let latency = LatencySeries::from_evidence(evidence, member, members);
    let mut measures = Vec::new();
    if let Some(latency) = &latency {
        let values: Vec<TimedFigure> =
            latency.readings.iter().map(|one| (f64::midpoint(one.begin_s, one.end_s), one.mean)).collect();
        measures.extend(steps.measure("latency", format!("Mean {}", latency.of), "µs", &values, &begins));
    }
    let written = rates(points(evidence, &name("engine.written_bytes")), 1.0 / MIB);
    measures.extend(steps.measure("written", "Written by the engine".into(), "MiB/s", &written, &begins));
    let dirty =
        shares(points(evidence, &name("cache.dirty_bytes")), points(evidence, &name("cache.most_bytes")));
    measures.extend(steps.measure("dirty", "Dirty in the cache".into(), "%", &dirty, &begins));
    let queue = read(&in_flight(evidence, member));
    if !queue.is_empty() {
        let name = format!("Requests in flight on {}", tops(evidence, member).join(" and "));
        measures.extend(steps.measure("queue", name, "requests", &queue, &begins));
    }
    let (cycles, member) = (begins.len(), member.to_owned());
    let offsets_s = steps.offsets_s();
    (!measures.is_empty()).then_some(SuperposedCycles {
        member,
        event,
        cycles,
        period_s,
        offsets_s,
        measures,
    })
}

fn read(points: &[Point]) -> Vec<TimedFigure> {
    points.iter().map(|point| (middle_s(point), point.value)).collect()
}

fn rates(points: &[Point], factor: f64) -> Vec<TimedFigure> {
    points.iter().filter_map(|point| Some((middle_s(point), point.per_s()? * factor))).collect()
}

/// The ratio of two gauges that were read together, in percent.
fn shares(points: &[Point], of: &[Point]) -> Vec<TimedFigure> {
    let both = read_together(points, of).filter(|(_, whole)| whole.value > 0.0);
    both.map(|(point, whole)| (middle_s(point), 100.0 * point.value / whole.value)).collect()
}

fn middle_s(point: &Point) -> f64 {
    f64::midpoint(point.begin_ns as f64, point.end_ns as f64) / NS_PER_S
}

/// The steps of a cycle.
struct Steps {
    first_s: f64,
    step_s: f64,
    count: usize,
}

impl Steps {
    fn new(period_s: f64) -> Steps {
        let step_s = (period_s / MAX_STEPS).max(1.0);
        let before = (SHARE_BEFORE_EVENT * period_s / step_s).round();
        let count = (period_s / step_s).round().max(1.0) as usize;
        Steps { first_s: -before * step_s, step_s, count }
    }

    fn offsets_s(&self) -> Vec<f64> {
        (0..self.count).map(|at| self.first_s + (at as f64 + 0.5) * self.step_s).collect()
    }

    /// A measure over all cycles; `None` if nothing was read. A reading belongs to the cycle whose stretch contains it.
    fn measure(
        &self,
        id: &'static str,
        name: String,
        unit: &'static str,
        values: &[TimedFigure],
        begins: &[f64],
    ) -> Option<CycleMeasure> {
        let mut by_step: Vec<Vec<f64>> = vec![Vec::new(); self.count];
        let mut readings = 0;
        for begin in begins {
            let mut own: Vec<Vec<f64>> = vec![Vec::new(); self.count];
            for (at_s, value) in values.iter().filter(|(_, value)| value.is_finite()) {
                let step = ((at_s - begin - self.first_s) / self.step_s).floor();
                if let Some(step) = (step >= 0.0).then_some(step as usize).and_then(|step| own.get_mut(step))
                {
                    step.push(*value);
                    readings += 1;
                }
            }
            // A cycle counts once in each step, however often it was read.
            for (all, own) in by_step.iter_mut().zip(&own) {
                all.extend(mean(own));
            }
        }
        let edge = (1.0 - BAND_SHARE) / 2.0;
        (readings > 0).then(|| CycleMeasure {
            id,
            name,
            unit,
            readings,
            mean: by_step.iter().map(|cycles| mean(cycles)).collect(),
            low: by_step.iter().map(|cycles| quantile(cycles, edge)).collect(),
            high: by_step.iter().map(|cycles| quantile(cycles, 1.0 - edge)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::Reading;

    use super::super::checkpoints_of_all;
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Twenty cycles of 30 s; the server takes 100 µs, and 500 µs in the 4 s of each checkpoint.
    #[test]
    fn the_cycle_shows_what_each_second_of_it_cost() {
        let mut readings = Vec::new();
        for second in 0..600u64 {
            let running = second >= 10 && (second - 10) % 30 < 4;
            let mut add = |name: &str, value: f64| {
                readings.push(Reading::new(name, "1", (second * SECOND_NS, (second + 1) * SECOND_NS), value));
            };
            add("server.0.checkpoint.running", f64::from(u8::from(running)));
            add("server.0.reads.operations", 100.0);
            // 20 s after the checkpoint began each cycle takes longer than the one before it.
            let cycle = ((second + 20) / 30) as f64;
            let calm = if (second + 20) % 30 == 20 { 10_000.0 + 100.0 * cycle } else { 10_000.0 };
            add("server.0.reads.latency_us", if running { 50_000.0 } else { calm });
            add("server.0.writes.operations", 0.0);
            add("server.0.engine.written_bytes", if running { 4.0 * MIB } else { 0.0 });
            add("device.sda.in_flight", if running { 32.0 } else { 1.0 });
        }
        let environment = BTreeMap::from([("server.0.device".to_owned(), "sda".to_owned())]);
        let evidence = Evidence {
            series: readings.iter().collect(),
            window_ns: (0, 600 * SECOND_NS),
            environment,
            ..Evidence::default()
        };
        let cycles = superposed_cycles(&evidence, &checkpoints_of_all(&evidence));
        let [cycles] = cycles.as_slice() else { panic!("{cycles:#?}") };
        assert_eq!((cycles.event, cycles.cycles, cycles.period_s), ("checkpoint", 20, 30.0));
        let ids: Vec<&str> = cycles.measures.iter().map(|measure| measure.id).collect();
        assert_eq!(ids, ["latency", "written", "queue"]);
        let latency = &cycles.measures[0];
        let at = |offset: f64| cycles.offsets_s.iter().position(|one| (one - offset).abs() < 0.51).unwrap();
        assert_eq!(latency.mean[at(-4.0)], Some(100.0));
        assert_eq!((latency.low[at(2.5)], latency.mean[at(2.5)]), (Some(500.0), Some(500.0)));
        assert_eq!(latency.mean[at(10.0)], Some(100.0));
        let differing = at(20.5);
        let [low, mean, high] =
            [&latency.low, &latency.mean, &latency.high].map(|curve| curve[differing].unwrap());
        assert!(100.0 < low && low + 5.0 < mean && mean + 5.0 < high && high <= 120.0, "{low} {mean} {high}");
        assert_eq!(cycles.measures[2].mean[at(2.5)], Some(32.0));
        assert!(superposed_cycles(&Evidence::default(), &BTreeMap::new()).is_empty());
    }
}
