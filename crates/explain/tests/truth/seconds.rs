//! Sums and gauges of simulated servers, put on seconds as samplers write them.

use std::collections::BTreeMap;

use fathom_explain::Evidence;
use fathom_record::Point;

const SECOND_NS: u64 = 1_000_000_000;

/// The counts of each second, by the series' name.
#[derive(Debug, Default)]
pub(crate) struct Seconds {
    sums: BTreeMap<String, Vec<f64>>,
    gauges: BTreeMap<String, Vec<f64>>,
}

impl Seconds {
    /// Adds to the second of a moment, in microseconds.
    pub(crate) fn add(&mut self, name: &str, at_us: f64, value: f64) {
        let second = (at_us / 1e6) as usize;
        let sums = self.sums.entry(name.to_owned()).or_default();
        sums.resize(sums.len().max(second + 1), 0.0);
        sums[second] += value;
    }

    /// The reading at the end of a second.
    pub(crate) fn read(&mut self, name: &str, second: usize, value: f64) {
        let values = self.gauges.entry(name.to_owned()).or_default();
        values.resize(values.len().max(second + 1), f64::NAN);
        values[second] = value;
    }

    /// An operation as the client records it: its kind, its end, and its duration; it was sent when it was due.
    pub(crate) fn client(&mut self, kind: &str, ended_us: f64, took_us: f64) {
        self.client_late(kind, ended_us, took_us, took_us);
    }

    /// The same for one that was sent later: its duration since then, and since it was due.
    pub(crate) fn client_late(&mut self, kind: &str, ended_us: f64, took_us: f64, since_due_us: f64) {
        self.add(&format!("~{kind}"), ended_us, 1.0);
        self.add(&format!("~{kind}.time"), ended_us, took_us);
        self.add(&format!("~{kind}.due"), ended_us, since_due_us);
        // Under way in each second of its life.
        let mut from_us = ended_us - took_us;
        while from_us < ended_us {
            let to_us = ended_us.min(((from_us / 1e6).floor() + 1.0) * 1e6);
            self.add("~in_flight", from_us, to_us - from_us);
            from_us = to_us;
        }
    }

    /// The evidence of so many seconds, with facts.
    pub(crate) fn evidence(mut self, seconds: usize, facts: &[(String, String)]) -> Evidence {
        let mut evidence =
            Evidence { window_ns: (0, seconds as u64 * SECOND_NS), seed: 7, ..Evidence::default() };
        evidence.environment.extend(facts.iter().cloned());
        let of = |sums: &BTreeMap<String, Vec<f64>>, name: &str, second: usize| {
            sums.get(name).and_then(|all| all.get(second)).copied().unwrap_or(0.0)
        };
        let kinds: Vec<String> = self
            .sums
            .keys()
            .filter_map(|name| {
                name.strip_prefix('~').filter(|kind| !kind.contains('.') && *kind != "in_flight")
            })
            .map(str::to_owned)
            .collect();
        for second in 0..seconds {
            let window = (second as u64 * SECOND_NS, (second as u64 + 1) * SECOND_NS);
            let mut put = |name: &str, value: f64| {
                evidence.series.add(name, "1", Point { begin_ns: window.0, end_ns: window.1, value });
            };
            let mut all = 0.0;
            for kind in &kinds {
                let count = of(&self.sums, &format!("~{kind}"), second);
                let mean_ns =
                    |clock: &str| 1000.0 * of(&self.sums, &format!("~{kind}.{clock}"), second) / count;
                all += count;
                put(&format!("client.{kind}.per_s"), count);
                if count > 0.0 {
                    put(&format!("client.{kind}.service.mean_ns"), mean_ns("time"));
                    put(&format!("client.{kind}.response.mean_ns"), mean_ns("due"));
                }
            }
            put("client.operations.per_s", all);
            put("client.in_flight", of(&self.sums, "~in_flight", second) / 1e6);
            put("client.connections", 64.0);
            put("client.cpu_share", 0.2);
        }
        self.sums.retain(|name, _| !name.starts_with('~'));
        for (all, absent) in [(&self.sums, 0.0), (&self.gauges, f64::NAN)] {
            for (name, values) in all {
                for second in 0..seconds {
                    let value = values.get(second).copied().unwrap_or(absent);
                    let begin_ns = second as u64 * SECOND_NS;
                    evidence.series.add(name, "1", Point { begin_ns, end_ns: begin_ns + SECOND_NS, value });
                }
            }
        }
        evidence
    }
}
