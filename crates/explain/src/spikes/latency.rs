//! The subject of the search for spikes: one server of a run, and the latency of its operations, as the client saw it or else as the
//! server counts it.
//!
//! The client's latency is the users' latency, and is used if one server was watched. Each of several servers is judged by
//! its own counters, because the client's numbers mix them.

use std::collections::BTreeMap;

use fathom_record::{Finding, Point};
use fathom_stats::{EventCycle, LatencyReading};

use crate::Evidence;
use crate::client::{ClientLoads, points};
use crate::windows::in_ns;

const NS_PER_S: f64 = 1e9;

/// Latency over time, in microseconds.
pub(crate) struct LatencySeries {
    /// In the order of their windows.
    pub(crate) readings: Vec<LatencyReading>,
    /// The place at which the latency was measured, for sentences.
    pub(crate) of: &'static str,
    /// The series that it was computed from.
    pub(crate) series: Vec<String>,
}

/// Sums of waiting and of operations, by window.
#[derive(Default)]
struct WindowSums {
    windows: BTreeMap<(u64, u64), (f64, f64)>,
    series: Vec<String>,
}

impl LatencySeries {
    /// The latency of the operations of `member`, one of `members` servers; `None` if nothing was read.
    pub(super) fn from_evidence(evidence: &Evidence, member: &str, members: usize) -> Option<LatencySeries> {
        let client = || match LatencySeries::has_due(evidence) {
            true => LatencySeries::since_due(evidence),
            false => LatencySeries::since_sent(evidence),
        };
        let server = || WindowSums::from_server(evidence, member).into_latency("latency within the server");
        if members <= 1 { client().or_else(server) } else { server().or_else(client) }
    }

    /// At the client from when operations were due, so that operations delayed by a stall count; `None` if no client was watched.
    pub(crate) fn since_due(evidence: &Evidence) -> Option<LatencySeries> {
        WindowSums::from_client(evidence, "response").into_latency("time since operations were due")
    }

    /// Whether the time since operations were due was recorded for all of them.
    fn has_due(evidence: &Evidence) -> bool {
        let client = ClientLoads::from_evidence(evidence);
        client.is_some_and(|client| client.operations.iter().all(|one| one.has_clock(evidence, "response")))
    }

    /// At the client from when operations were sent.
    pub(crate) fn since_sent(evidence: &Evidence) -> Option<LatencySeries> {
        WindowSums::from_client(evidence, "service").into_latency("latency at the client")
    }

    /// The values of each second from the first reading on, as logarithms, and the time at which they begin. `None` if readings
    /// are not about a second long, or if more than a twentieth of them is missing. At most the last `most` seconds.
    pub(super) fn log_seconds(&self, most: usize) -> Option<(f64, Vec<f64>)> {
        let used = || self.readings.iter().filter(|reading| reading.mean > 0.0);
        let begin_s = used().next()?.begin_s.max(used().next_back()?.end_s - most as f64);
        let mut seconds: Vec<Option<f64>> = Vec::new();
        let mut count = 0usize;
        for reading in used().filter(|reading| reading.begin_s >= begin_s - 0.5) {
            if !(0.8..1.25).contains(&(reading.end_s - reading.begin_s)) {
                return None;
            }
            let at = (f64::midpoint(reading.begin_s, reading.end_s) - begin_s).max(0.0) as usize;
            if at >= seconds.len() {
                seconds.resize(at + 1, None);
            }
            if let Some(second) = seconds.get_mut(at) {
                *second = Some(reading.mean.ln());
                count += 1;
            }
        }
        if count * 20 < seconds.len() * 19 {
            return None;
        }
        let mut last = seconds.iter().flatten().next().copied()?;
        let filled = seconds.into_iter().map(|value| {
            last = value.unwrap_or(last);
            last
        });
        Some((begin_s, filled.collect()))
    }
}

impl WindowSums {
    /// All operations of the load by one of its clocks, weighted by their counts.
    fn from_client(evidence: &Evidence, clock: &str) -> WindowSums {
        let mut sums = WindowSums::default();
        for operation in ClientLoads::from_evidence(evidence).iter().flat_map(|client| &client.operations) {
            sums.add(&operation.counts(evidence), &operation.times_us(evidence, clock));
            let names =
                [format!("{}.per_s", operation.prefix), format!("{}.{clock}.mean_ns", operation.prefix)];
            sums.series.extend(names);
        }
        sums
    }

    /// Reads and writes, as the server counts them.
    fn from_server(evidence: &Evidence, member: &str) -> WindowSums {
        let mut sums = WindowSums::default();
        for kind in ["reads", "writes"] {
            let names = ["operations", "latency_us"].map(|last| format!("server.{member}.{kind}.{last}"));
            let [counts, times_us] = names.each_ref().map(|name| points(evidence, name));
            sums.add(counts, times_us);
            sums.series.extend(names);
        }
        sums
    }

    /// Adds operations and the microseconds that they waited, if both were read together.
    fn add(&mut self, counts: &[Point], times_us: &[Point]) {
        let mut counts = counts.iter().peekable();
        for time in times_us {
            while counts.next_if(|count| count.end_ns < time.end_ns).is_some() {}
            let Some(count) = counts.next_if(|count| count.end_ns == time.end_ns) else { continue };
            if time.value.is_finite() && count.value > 0.0 {
                let sums = self.windows.entry((time.end_ns, time.begin_ns)).or_default();
                *sums = (sums.0 + time.value, sums.1 + count.value);
            }
        }
    }

    fn into_latency(self, of: &'static str) -> Option<LatencySeries> {
        let reading =
            |((end_ns, begin_ns), (waited_us, operations)): ((u64, u64), (f64, f64))| LatencyReading {
                begin_s: begin_ns as f64 / NS_PER_S,
                end_s: end_ns as f64 / NS_PER_S,
                mean: waited_us / operations,
                operations,
            };
        let readings: Vec<LatencyReading> = self.windows.into_iter().map(reading).collect();
        (!readings.is_empty()).then_some(LatencySeries { readings, of, series: self.series })
    }
}

/// The subject of a judgement: one server of a run, and the latency of its operations.
pub(crate) struct SpikeSubject<'e> {
    pub(super) evidence: &'e Evidence,
    pub(super) member: &'e str,
    pub(super) latency: &'e LatencySeries,
    /// When its checkpoints ran.
    pub(super) checkpoints: &'e [(f64, f64)],
}

impl SpikeSubject<'_> {
    /// The name of a series of this server.
    pub(super) fn name(&self, last: &str) -> String {
        format!("server.{}.{last}", self.member)
    }

    /// ` on HOST` if there are several servers, for sentences.
    pub(super) fn at(&self) -> String {
        if self.evidence.members().len() < 2 {
            return String::new();
        }
        let host = self.evidence.environment.get(&format!("server.{}", self.member));
        host.map_or_else(|| format!(" on server {}", self.member), |host| format!(" on {host}"))
    }

    /// Adds the series that exist, those of the latency, and the windows of the cycles.
    pub(super) fn cite(
        &self,
        finding: Finding,
        names: impl IntoIterator<Item = String>,
        cycles: &[EventCycle],
    ) -> Finding {
        let there: Vec<String> =
            names.into_iter().filter(|name| self.evidence.series.get(name).is_some()).collect();
        let finding = finding.series(self.latency.series.clone()).series(there);
        cycles.iter().fold(finding, |finding, cycle| finding.window(in_ns(cycle.event_s)))
    }
}
