//! Finds a server that answered nothing for a while, not even pings, and then continued. No client is needed.
//!
//! Each second the samplers ask each server and wait for its answer, so that a reading of a stopped server spans the stop. A stopped
//! host delays the readings of the host as well, and a server that ended is down, not stopped. A reading is late too if one command of the
//! samplers waits, or if the server is overloaded: then pings come back, or operations end and processors are used as at other times.

use fathom_record::{Confidence, Finding, Gain, Point, Severity};
use fathom_stats::{LatencyReading, quantile};

use crate::client::points;
use crate::member::name_of;
use crate::spikes::LatencySeries;
use crate::windows::{Window, in_ns, overlap, spread_where};
use crate::{Evidence, Judgement};

/// The series that it is judged by.
pub(crate) const NEEDS: &[&str] = &[
    "server.{member}.up",
    "server.{member}.ping_us",
    "server.{member}.reads.operations",
    "server.{member}.writes.operations",
    "server.{member}.process.cpu_us",
    "host.cpu.idle_pct",
];

/// A reading that is longer than the usual one by at least this time spans a stop. A server that is only slow answers a ping within this time.
const MIN_STOP_S: f64 = 1.0;
/// The fewest readings for a usual length.
const MIN_READINGS: usize = 10;
/// The largest share of the readings that may span a stop; a larger share means a slow server, or one that is read less often.
const MAX_SHARE_OF_READINGS: f64 = 0.2;
/// The least part of a stop that a ping took which was sent in it: it is sent within the first second.
const MIN_PING_PART: f64 = 0.5;
/// The counters that a server adds to while it works: the operations that ended, and its processor time.
const WORK: [&[&str]; 2] = [&["reads.operations", "writes.operations"], &["process.cpu_us"]];
/// The least part of a reading that must be covered to compare its work with the usual work.
const MIN_COVERED_PART: f64 = 0.5;
/// How many stops are described with their moments.
const MAX_MOMENTS: usize = 5;

/// Adds a finding for each server that answered nothing for a while.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    for member in evidence.members() {
        let stops = stops(evidence, &member);
        if stops.is_empty() {
            continue;
        }
        judgement.findings.push(finding(evidence, judgement, &member, &stops));
    }
}

struct Standstill {
    window_ns: Window,
    length_s: f64,
    /// Whether the host's readings were on time meanwhile; `None` without such readings.
    host_went_on: Option<bool>,
}

fn length_s((begin_ns, end_ns): Window) -> f64 {
    end_ns.saturating_sub(begin_ns) as f64 / 1e9
}

fn usual(readings: &[f64]) -> Option<f64> {
    quantile(readings, 0.5).filter(|_| readings.len() >= MIN_READINGS)
}

fn stops(evidence: &Evidence, member: &str) -> Vec<Standstill> {
    let windows = |name: &str| -> Vec<Window> {
        points(evidence, name).iter().map(|point| (point.begin_ns, point.end_ns)).collect()
    };
    let read = windows(&format!("server.{member}.reads.operations"));
    let lengths_s: Vec<f64> = read.iter().map(|window| length_s(*window)).collect();
    let Some(usual_s) = usual(&lengths_s) else { return Vec::new() };
    let down: Vec<Window> = points(evidence, &format!("server.{member}.up"))
        .iter()
        .filter(|point| point.value < 1.0)
        .map(|point| (point.begin_ns, point.end_ns))
        .collect();
    let host = windows("host.cpu.idle_pct");
    let host_usual_s = usual(&host.iter().map(|window| length_s(*window)).collect::<Vec<_>>());
    let stop = |window: &Window| {
        let length_s = length_s(*window) - usual_s;
        let is_down = down.iter().any(|down| overlap(*down, *window));
        (length_s >= MIN_STOP_S && !is_down).then(|| Standstill {
            window_ns: *window,
            length_s,
            host_went_on: host_usual_s.map(|usual_s| {
                let longest_s = host
                    .iter()
                    .filter(|one| overlap(**one, *window))
                    .map(|one| self::length_s(*one))
                    .fold(0.0, f64::max);
                longest_s < usual_s + MIN_STOP_S / 2.0
            }),
        })
    };
    let mut stops: Vec<Standstill> = read.iter().filter_map(stop).collect();
    if stops.len() as f64 > MAX_SHARE_OF_READINGS * read.len() as f64 {
        return Vec::new();
    }
    stops.retain(|stop| {
        !had_quick_ping(evidence, member, stop) && !was_at_work(evidence, member, stop, usual_s)
    });
    stops
}

/// Whether the pings of a late reading came back soon, on a host that was on time: then one command of the samplers waited, and not the server.
fn had_quick_ping(evidence: &Evidence, member: &str, stop: &Standstill) -> bool {
    let pings = points(evidence, &format!("server.{member}.ping_us"));
    let within = pings.iter().filter(|ping| overlap((ping.begin_ns, ping.end_ns), stop.window_ns));
    let longest_us = within.map(|ping| ping.value).reduce(f64::max);
    stop.host_went_on == Some(true) && longest_us.is_some_and(|us| us < MIN_PING_PART * 1e6 * stop.length_s)
}

/// Whether the server did more in a late reading than a stopped one can: that works for no longer than a usual reading takes.
fn was_at_work(evidence: &Evidence, member: &str, stop: &Standstill, usual_s: f64) -> bool {
    let most_part = (1.0 + usual_s / length_s(stop.window_ns)) / 2.0;
    WORK.iter().any(|tails| {
        let part = work_part(evidence, member, tails, stop.window_ns);
        part.is_some_and(|part| part >= most_part)
    })
}

/// The growth of counters in a window as a part of their usual growth, which is the median of all readings.
fn work_part(evidence: &Evidence, member: &str, tails: &[&str], window: Window) -> Option<f64> {
    let (mut usual_per_s, mut work) = (0.0, 0.0);
    for tail in tails {
        let read = points(evidence, &format!("server.{member}.{tail}"));
        let per_s = |point: &Point| point.value / length_s((point.begin_ns, point.end_ns)).max(1e-9);
        let rates: Vec<f64> = read.iter().filter(|point| point.value.is_finite()).map(per_s).collect();
        usual_per_s += usual(&rates)?;
        work += spread_where(read, &[window], MIN_COVERED_PART).first().copied().flatten()?;
    }
    (usual_per_s > 0.0).then(|| work / (usual_per_s * length_s(window)))
}

fn finding(evidence: &Evidence, judgement: &Judgement, member: &str, stops: &[Standstill]) -> Finding {
    let longest_s = stops.iter().map(|stop| stop.length_s).fold(0.0, f64::max);
    let times = if stops.len() == 1 { "once".to_owned() } else { format!("{} times", stops.len()) };
    let claim = format!(
        "{} answered nothing {times}, not even pings, for up to {longest_s:.1} s",
        name_of(evidence, member)
    );
    let moments: Vec<String> = stops
        .iter()
        .take(MAX_MOMENTS)
        .map(|stop| format!("{:.1} s from {:.0} s on", stop.length_s, stop.window_ns.0 as f64 / 1e9))
        .collect();
    let more = if stops.len() > MAX_MOMENTS { " and later" } else { "" };
    let mut finding = Finding::new("server-stood-still", Severity::Warning, claim)
        .confidence(Confidence::Certain)
        .evidence(format!("{}{more}, since the run's start.", moments.join(", ")))
        .advice("Find what stopped the process at these moments: a debugger or a signal, a pause of its container, swapping, or a snapshot.")
        .next_look("Read the logs of the kernel, the service manager and the server around these moments.")
        .series([format!("server.{member}.reads.operations"), format!("server.{member}.ping_us")]);
    finding = match stops.iter().filter_map(|stop| stop.host_went_on).collect::<Vec<bool>>().as_slice() {
        [] => finding.evidence("The host was not watched, so it is unknown whether it stopped too."),
        went_on if went_on.iter().all(|went_on| *went_on) => {
            finding.evidence("The samplers on its host were on time meanwhile: only the server stopped.")
        }
        _ => finding.evidence("The samplers on this host came late too: the host stopped, or Fathom on it."),
    };
    let windows: Vec<Window> = stops.iter().map(|stop| stop.window_ns).collect();
    let lengths_s: Vec<f64> = stops.iter().map(|stop| stop.length_s).collect();
    finding.gain = gain_of_stops(evidence, judgement, member, &windows)
        .or_else(|| gain_without_client(evidence, judgement, member, &lengths_s, 1.0));
    stops.iter().fold(finding, |finding, stop| finding.window(stop.window_ns))
}

/// The time after a stop, in seconds, in which operations that waited for its end still complete.
const RECOVERY_S: f64 = 5.0;

/// The measured wait of clients behind stops of a server, which is better than any estimate. `None` without a client.
pub(crate) fn gain_of_stops(
    evidence: &Evidence,
    judgement: &Judgement,
    member: &str,
    windows: &[Window],
) -> Option<Gain> {
    let meets = |finding: &&Finding| {
        let stalls = &finding.windows_ns;
        stalls.iter().any(|stall| windows.iter().any(|window| overlap(*stall, *window)))
    };
    let stalls = judgement.findings.iter().filter(|finding| finding.id == "stalls").find(meets);
    if let Some(gain) = stalls.and_then(|stalls| stalls.gain.clone()) {
        return Some(gain);
    }
    // Clients of several servers waited for others too.
    if evidence.members().iter().any(|other| other != member) {
        return None;
    }
    let latency = LatencySeries::since_due(evidence)?;
    let recovery_ns = (RECOVERY_S * 1e9) as u64;
    let is_behind = |reading: &&LatencyReading| {
        let window = in_ns((reading.begin_s, reading.end_s));
        windows.iter().any(|(begin_ns, end_ns)| overlap(window, (*begin_ns, end_ns + recovery_ns)))
    };
    let (behind, calm): (Vec<&LatencyReading>, Vec<&LatencyReading>) =
        latency.readings.iter().partition(is_behind);
    let calm_us = quantile(&calm.iter().map(|reading| reading.mean).collect::<Vec<_>>(), 0.5)?;
    let added_us: f64 =
        behind.iter().map(|reading| (reading.mean - calm_us).max(0.0) * reading.operations).sum();
    let whole_us: f64 = latency.readings.iter().map(|reading| reading.mean * reading.operations).sum();
    let share = (added_us / whole_us).clamp(0.0, 1.0);
    Some(Gain {
        of: format!("mean {}", latency.of),
        share,
        interval: (0.9 * share, share),
        basis:
            "What operations waited in the stops and right behind them, over the median of the other seconds."
                .to_owned(),
    })
}

/// The addition of a server's stops to its mean operation, if `part` of all operations wait for their end. If operations arrive at a rate, those
/// due within a stop wait half of it on average.
pub(crate) fn gain_without_client(
    evidence: &Evidence,
    judgement: &Judgement,
    member: &str,
    lengths_s: &[f64],
    part: f64,
) -> Option<Gain> {
    let budget =
        judgement.budgets.iter().find(|budget| budget.member == member && budget.operations == "all")?;
    let seconds = length_s(evidence.window_ns);
    let half_squares: f64 = lengths_s.iter().map(|length_s| length_s * length_s / 2.0).sum();
    let added_us = 1e6 * part * half_squares / seconds;
    let share = added_us / (added_us + budget.server_mean_us);
    // Clients that wait for each reply lose only the time of the stops.
    let lost = part * lengths_s.iter().sum::<f64>() / seconds;
    Some(Gain {
        of: "mean time since operations were due".to_owned(),
        share,
        interval: (lost.min(share), share),
        basis: "Operations that arrive at a rate wait half of each stop on average; clients that wait for each reply lose its time.".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use fathom_record::{Point, SeriesSet};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A minute in which the server's readings at these seconds take 4 s longer; the host's do too if it stops.
    fn judged(stops: &[u64], host_stops: bool, down: bool) -> Vec<Finding> {
        let mut series = SeriesSet::default();
        let mut put = |name: &str, begin_ns: u64, end_ns: u64, value: f64| {
            series.add(name, "1", Point { begin_ns, end_ns, value });
        };
        let mut begin_ns = 0;
        for second in 0..60 {
            let longer = if stops.contains(&second) { 4 * SECOND } else { 0 };
            let end_ns = begin_ns + SECOND + longer;
            put("server.0.reads.operations", begin_ns, end_ns, 100.0);
            put("server.0.up", begin_ns, end_ns, if down && longer > 0 { 0.0 } else { 1.0 });
            if host_stops {
                put("host.cpu.idle_pct", begin_ns, end_ns, 90.0);
            } else {
                for at_ns in (begin_ns..end_ns).step_by(SECOND as usize) {
                    put("host.cpu.idle_pct", at_ns, at_ns + SECOND, 90.0);
                }
            }
            begin_ns = end_ns;
        }
        let evidence = Evidence { series, window_ns: (0, begin_ns), ..Evidence::default() };
        let mut judgement = Judgement::default();
        judge(&evidence, &mut judgement);
        judgement.findings
    }

    #[test]
    fn a_server_that_stood_still_is_named_without_a_client() {
        let found = judged(&[20, 30, 40], false, false);
        let [finding] = found.as_slice() else { panic!("{found:#?}") };
        assert!(
            finding.claim.contains("answered nothing 3 times, not even pings, for up to 4.0 s"),
            "{finding:#?}"
        );
        assert!(finding.evidence[1].contains("only the server stopped"), "{finding:#?}");
        assert_eq!(finding.windows_ns.len(), 3);
        let host = judged(&[20], true, false);
        assert!(host[0].evidence[1].contains("the host stopped"), "{host:#?}");
    }

    /// A minute of readings of which three are 4 s late, with a ping and the work of each: operations and processor time.
    fn late(ping_us: f64, work_in_late: f64) -> Vec<Finding> {
        let mut series = SeriesSet::default();
        let mut begin_ns = 0;
        for second in 0..60 {
            let is_late = [20, 30, 40].contains(&second);
            let end_ns = begin_ns + if is_late { 5 * SECOND } else { SECOND };
            let work = if is_late { work_in_late } else { 1.0 };
            for (name, value) in [
                ("server.0.reads.operations", 200.0 * work),
                ("server.0.writes.operations", 100.0 * work),
                ("server.0.process.cpu_us", 1.5e6 * work),
                ("server.0.ping_us", if is_late { ping_us } else { 200.0 }),
            ] {
                let begin_ns = if name.ends_with("ping_us") { end_ns - SECOND / 2 } else { begin_ns };
                series.add(name, "1", Point { begin_ns, end_ns, value });
            }
            for at_ns in (begin_ns..end_ns).step_by(SECOND as usize) {
                let end_ns = at_ns + SECOND;
                series.add("host.cpu.idle_pct", "1", Point { begin_ns: at_ns, end_ns, value: 5.0 });
            }
            begin_ns = end_ns;
        }
        let evidence = Evidence { series, window_ns: (0, begin_ns), ..Evidence::default() };
        let mut judgement = Judgement::default();
        judge(&evidence, &mut judgement);
        judgement.findings
    }

    #[test]
    fn an_overloaded_server_did_not_stop() {
        // A stopped process works for the second before its stop, and the ping waits for its end.
        assert_eq!(late(3.6e6, 1.0).len(), 1);
        // An import fills the processors: operations end as at other times, and pings wait for a processor.
        assert_eq!(late(3.6e6, 4.5), []);
        // Another command of the samplers waits, and no operation ends.
        assert_eq!(late(900.0, 0.0), []);
    }

    #[test]
    fn one_that_was_down_or_is_always_slow_did_not() {
        assert_eq!(judged(&[20], false, true), []);
        assert_eq!(judged(&(0..30).map(|k| 2 * k).collect::<Vec<_>>(), false, false), []);
        assert_eq!(judged(&[], false, false), []);
    }
}
