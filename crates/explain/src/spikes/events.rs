//! The times of checkpoints, and of flushes or compactions of an LSM engine: begin and end of each, from counters read once a
//! second.
//!
//! A gauge shows a checkpoint only if it runs while the gauge is read. So the count of ended checkpoints shows that there
//! was one, the server reports its duration, and the edges of the gauge narrow down its time. The remaining uncertainty is less than
//! the sampling period, and its middle is taken.

use fathom_record::Point;

use crate::Evidence;
use crate::client::points;
use crate::windows::neighbours_as_one;

const NS_PER_S: f64 = 1e9;
const NS_PER_MS: f64 = 1e6;

/// Begin and end of each checkpoint of `member`, in seconds since the run's start; empty if none was counted.
pub(crate) fn checkpoints(evidence: &Evidence, member: &str) -> Vec<(f64, f64)> {
    let name = |last: &str| format!("server.{member}.checkpoint.{last}");
    let running = points(evidence, &name("running"));
    let counts = points(evidence, &name("count"));
    let totals = points(evidence, &name("total_ms"));
    let lasts = points(evidence, &name("last_ms"));
    let duration_ns = |ended: &Point| {
        let at = |points: &[Point]| points.iter().find(|point| point.end_ns == ended.end_ns).map(|p| p.value);
        let mean_ms = at(totals).map(|total_ms| total_ms / ended.value);
        mean_ms.filter(|ms| *ms > 0.0).or_else(|| at(lasts)).map(|ms| ms * NS_PER_MS)
    };
    let ended = || counts.iter().filter(|count| count.value >= 1.0);
    let timed: Option<Vec<(f64, f64)>> =
        ended().map(|count| Some(located(count, duration_ns(count)?, running))).collect();
    match timed {
        Some(events) if !events.is_empty() => events,
        _ => stretches(running),
    }
}

/// The windows in which a counter of an LSM engine rose, with adjacent windows joined.
pub(super) fn busy_windows(evidence: &Evidence, name: &str) -> Vec<(f64, f64)> {
    let risen = points(evidence, name).iter().filter(|point| point.value > 0.0);
    neighbours_as_one(risen.map(|point| (point.begin_ns as f64 / NS_PER_S, point.end_ns as f64 / NS_PER_S)))
}

/// One checkpoint, or several in one window, that ended within the window of `ended` and took `duration_ns` each.
fn located(ended: &Point, duration_ns: f64, running: &[Point]) -> (f64, f64) {
    let (mut earliest, mut latest) = (ended.begin_ns as f64, ended.end_ns as f64);
    if ended.value > 1.0 {
        return (earliest.min(latest - duration_ns) / NS_PER_S, latest / NS_PER_S);
    }
    // It began after the last reading without it and before the first reading with it; its duration is known.
    let until = running.partition_point(|point| point.end_ns < ended.end_ns);
    let before = running.get(..until).unwrap_or(&[]);
    let first_seen = before.iter().rev().take_while(|point| point.value > 0.0).last();
    let not_yet = before.iter().rev().find(|point| point.value <= 0.0);
    let began_after = not_yet.map_or(f64::NEG_INFINITY, |point| point.end_ns as f64 + duration_ns);
    let began_before = first_seen.map_or(f64::INFINITY, |point| point.end_ns as f64 + duration_ns);
    if began_after.max(earliest) <= began_before.min(latest) {
        (earliest, latest) = (began_after.max(earliest), began_before.min(latest));
    }
    let end = f64::midpoint(earliest, latest);
    ((end - duration_ns) / NS_PER_S, end / NS_PER_S)
}

/// From the gauge alone: from the middle between the last reading at 0 and the first at 1 to the middle back.
fn stretches(running: &[Point]) -> Vec<(f64, f64)> {
    let mut events = Vec::new();
    let mut began: Option<f64> = None;
    for pair in running.windows(2) {
        let [before, now] = pair else { continue };
        let middle_s = (before.end_ns as f64 + now.end_ns as f64) / 2.0 / NS_PER_S;
        match (before.value > 0.0, now.value > 0.0) {
            (false, true) => began = Some(middle_s),
            (true, false) => events.extend(began.take().map(|begin_s| (begin_s, middle_s))),
            _ => {}
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use fathom_record::Reading;

    use super::*;

    fn evidence(rows: &[(&str, u64, f64)]) -> Evidence {
        let second = 1_000_000_000;
        let reading = |(name, end_s, value): &(&str, u64, f64)| {
            let name = format!("server.0.checkpoint.{name}");
            Reading::new(name, "1", ((end_s - 1) * second, end_s * second), *value)
        };
        let readings: Vec<Reading> = rows.iter().map(reading).collect();
        Evidence { series: readings.iter().collect(), window_ns: (0, 1000 * second), ..Evidence::default() }
    }

    /// The gauge shows it running at 11 and 12, not at 10, and it ended in the window to 13 after 2.4 s. It began between 10.0 and 10.6,
    /// because it ended by 13.
    #[test]
    fn edges_of_the_gauge_and_the_servers_duration_locate_it() {
        let rows = [("running", 10, 0.0), ("running", 11, 1.0), ("running", 12, 1.0), ("running", 13, 0.0)];
        let ends = [("count", 13, 1.0), ("total_ms", 13, 2400.0), ("last_ms", 13, 2400.0)];
        let events = checkpoints(&evidence(&[&rows[..], &ends[..]].concat()), "0");
        assert_eq!(events.len(), 1);
        assert!((events[0].0 - 10.3).abs() < 1e-6 && (events[0].1 - 12.7).abs() < 1e-6, "{events:?}");
        let by_gauge = checkpoints(&evidence(&rows), "0");
        assert_eq!(by_gauge, [(10.5, 12.5)]);
    }

    /// 0.2 s, never seen by the gauge: in the middle of the window in which it ended.
    #[test]
    fn a_checkpoint_shorter_than_the_sampling_lies_in_its_window() {
        let rows = [
            ("running", 4, 0.0),
            ("running", 5, 0.0),
            ("count", 5, 1.0),
            ("last_ms", 5, 200.0),
            ("count", 6, 0.0),
        ];
        let events = checkpoints(&evidence(&rows), "0");
        assert_eq!(events.len(), 1);
        assert!((events[0].0 - 4.4).abs() < 1e-6 && (events[0].1 - 4.6).abs() < 1e-6, "{events:?}");
    }

    #[test]
    fn nothing_counted_is_no_event() {
        assert!(checkpoints(&evidence(&[("count", 5, 0.0), ("running", 5, 0.0)]), "0").is_empty());
        assert!(checkpoints(&Evidence::default(), "0").is_empty());
    }
}
