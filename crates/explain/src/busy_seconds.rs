//! Seconds in which other programs took the processors, on a host that has enough of them otherwise.
//!
//! Operations take longer in such a second, and they queue if their rate is near the host's capacity. The means of the whole run show mostly
//! idle processors, so without this rule these seconds look like stops of the server.

use fathom_record::verdict::MIN_COST_SHARE;
use fathom_record::{Gain, Point};

use crate::client::points;
use crate::standstill::gain_of_stops;
use crate::windows::{Window, spread};
use crate::{Evidence, Judgement};

/// Idle time below which all processors are in use, in percent.
const MAX_IDLE_PCT: f64 = 10.0;
/// The least additional share of all processor time that other programs use in these seconds.
const MIN_TAKEN_SHARE: f64 = 0.2;
/// The largest share of the run; the means show a host that is busy for longer.
const MAX_SHARE_OF_SECONDS: f64 = 0.5;

/// Seconds in which other programs used the processors.
pub(crate) struct BusySeconds {
    pub(crate) gain: Gain,
    pub(crate) evidence: String,
}

/// Finds these seconds. `None` if they cost less than a fifth of all waiting, or if several servers were watched.
pub(crate) fn find(evidence: &Evidence, judgement: &Judgement) -> Option<BusySeconds> {
    let members = evidence.members();
    let [member] = members.as_slice() else { return None };
    let processors = evidence.mean("host.cpu.count")?;
    let idle = points(evidence, "host.cpu.idle_pct");
    let windows: Vec<Window> = idle.iter().map(|point| (point.begin_ns, point.end_ns)).collect();
    let iowait = points(evidence, "host.cpu.iowait_pct");
    let own = spread(points(evidence, &format!("server.{member}.process.cpu_us")), &windows);
    let seconds: Vec<HostSecond> = idle
        .iter()
        .zip(own)
        .filter_map(|(idle, own_us)| HostSecond::new(idle, iowait, own_us?, processors))
        .collect();
    let (busy, calm): (Vec<&HostSecond>, Vec<&HostSecond>) =
        seconds.iter().partition(|second| second.idle_pct < MAX_IDLE_PCT);
    let mean = |of: &[&HostSecond], value: fn(&HostSecond) -> f64| {
        fathom_stats::mean(&of.iter().map(|second| value(second)).collect::<Vec<_>>())
    };
    let taken = mean(&busy, |second| second.others)? - mean(&calm, |second| second.others)?;
    if taken < MIN_TAKEN_SHARE || busy.len() as f64 > MAX_SHARE_OF_SECONDS * seconds.len() as f64 {
        return None;
    }
    let windows: Vec<Window> = busy.iter().map(|second| second.window).collect();
    let gain = gain_of_stops(evidence, judgement, member, &windows)?;
    let said = format!(
        "Other programs took the processors in {} of {} seconds, which were idle for {:.0} % then and for {:.0} % otherwise.",
        busy.len(),
        seconds.len(),
        mean(&busy, |second| second.idle_pct)?,
        mean(&calm, |second| second.idle_pct)?
    );
    (gain.share >= MIN_COST_SHARE).then_some(BusySeconds { gain, evidence: said })
}

/// One reading of the host, about a second long.
struct HostSecond {
    window: Window,
    idle_pct: f64,
    /// The share of all processor time that was neither idle nor the server's.
    others: f64,
}

impl HostSecond {
    fn new(idle: &Point, iowait: &[Point], own_us: f64, processors: f64) -> Option<HostSecond> {
        let at = iowait.partition_point(|point| point.end_ns < idle.end_ns);
        let waits =
            iowait.get(at).filter(|point| point.end_ns == idle.end_ns).map_or(0.0, |point| point.value);
        let idle_pct = idle.value + waits;
        let all_us = idle.end_ns.saturating_sub(idle.begin_ns) as f64 / 1e3 * processors;
        (idle_pct.is_finite() && all_us > 0.0).then(|| HostSecond {
            window: (idle.begin_ns, idle.end_ns),
            idle_pct,
            others: 1.0 - idle_pct / 100.0 - own_us / all_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::SeriesSet;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A minute on two processors. In three seconds of it the host has no idle time, and operations take 60 times as long. The server
    /// takes `own_us` in these seconds.
    fn evidence(own_us: f64) -> Evidence {
        let mut series = SeriesSet::default();
        for second in 0..60 {
            let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
            let is_busy = (20..23).contains(&second);
            for (name, value) in [
                ("host.cpu.count", 2.0),
                ("host.cpu.idle_pct", if is_busy { 0.0 } else { 50.0 }),
                ("server.0.process.cpu_us", if is_busy { own_us } else { 600_000.0 }),
                ("client.operations.per_s", 500.0),
                ("client.read.per_s", 500.0),
                ("client.read.response.mean_ns", if is_busy { 30e6 } else { 0.5e6 }),
                ("client.read.service.mean_ns", 0.5e6),
            ] {
                series.add(name, "1", Point { begin_ns, end_ns, value });
            }
        }
        Evidence { series, window_ns: (0, 60 * SECOND), ..Evidence::default() }
    }

    #[test]
    fn seconds_that_others_take_cost_what_operations_wait_in_them() {
        let found = find(&evidence(600_000.0), &Judgement::default()).unwrap();
        assert!((0.7..0.8).contains(&found.gain.share), "{:?}", found.gain);
        assert!(found.evidence.contains("in 3 of 60 seconds"), "{}", found.evidence);
    }

    #[test]
    fn seconds_that_the_server_takes_are_its_own() {
        assert!(find(&evidence(1_600_000.0), &Judgement::default()).is_none());
    }
}
