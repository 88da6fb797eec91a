//! The rungs of a server's ladder, from the client down to one of its devices.

use fathom_record::queue::{QueueForecast, QueueLadder};
use fathom_stats::{SeededRandom, coefficient_of_variation};

use crate::Evidence;
use crate::path::{DeviceSeconds, Seconds, client_gauge, client_mean_us, operation_us, server_mean_us};
use crate::seconds::{SecondGrid, mean, total, zip};
use crate::server_devices::leaves;

use super::backlog::{above, backlog};
use super::rung::{MIN_FILL_OF_CAP, RungReadings, judge};
use super::{curve, forecast};

/// A ladder for each device of a server; one without a device if none was watched.
pub(super) fn ladders(evidence: &Evidence, member: &str) -> Vec<QueueLadder> {
    let grid = SecondGrid::from_evidence(evidence);
    let mut stream = SeededRandom::from_seed(evidence.seed).split(3);
    let upper: Vec<_> = [
        crate::member::meets_clients(evidence, member).then(|| connections(evidence, grid)).flatten(),
        tickets(evidence, grid, member, "read"),
        tickets(evidence, grid, member, "write"),
    ]
    .into_iter()
    .flatten()
    .filter_map(|seen| judge(&seen, &mut stream))
    .collect();
    let ladder = |device: Option<String>| QueueLadder {
        member: member.to_owned(),
        device,
        window_ns: evidence.window_ns,
        rungs: upper.clone(),
        forecast: None,
    };
    let devices = leaves(evidence, member);
    let all = total(
        devices
            .iter()
            .filter_map(|device| Some(DeviceSeconds::from_evidence(evidence, grid, device)?.requests)),
    );
    let mut ladders = Vec::new();
    for device in devices {
        let mut one = ladder(Some(device.clone()));
        if let Some(bottom) =
            DeviceQueue::from_evidence(evidence, grid, member, &device, all.as_deref().unwrap_or(&[]))
        {
            one.rungs.extend(judge(&bottom.seen, &mut stream));
            one.forecast = bottom.forecast(evidence, &mut stream);
        }
        ladders.push(one);
    }
    if ladders.is_empty() && !upper.is_empty() {
        ladders.push(ladder(None));
    }
    ladders.retain(|ladder| !ladder.rungs.is_empty());
    ladders
}

/// The values of a gauge within the window.
fn values(evidence: &Evidence, name: &str) -> Vec<(u64, f64)> {
    let (begin_ns, end_ns) = evidence.window_ns;
    let points = evidence.series.get(name).map_or(&[][..], |series| series.within(begin_ns, end_ns));
    points.iter().filter(|point| point.value.is_finite()).map(|point| (point.end_ns, point.value)).collect()
}

/// Share of a second's samples at which a queue was full, from gauges of a second each.
fn full(value: &[Option<f64>], cap: f64) -> Seconds {
    value.iter().map(|value| value.map(|value| f64::from(u8::from(value >= MIN_FILL_OF_CAP * cap)))).collect()
}

/// The client's connections: above them are the operations that are due and not sent yet.
fn connections(evidence: &Evidence, grid: SecondGrid) -> Option<RungReadings> {
    let value = client_gauge(evidence, grid, "in_flight")?;
    let cap = client_gauge(evidence, grid, "connections").and_then(|cap| mean(cap.into_iter().flatten()));
    let response = client_mean_us(evidence, grid, "response");
    let service = client_mean_us(evidence, grid, "service");
    let (wait_us, per_s) = match (response, service) {
        (Some((response, per_s)), Some((service, _))) => {
            (zip(&response, &service, |response, service| Some((response - service).max(0.0))), per_s)
        }
        _ => (vec![None; grid.len()], vec![None; grid.len()]),
    };
    // Little's law: operations that are due and not sent.
    let above = zip(&wait_us, &per_s, |wait_us, per_s| Some(wait_us * per_s / 1e6));
    Some(RungReadings {
        name: "connections".to_owned(),
        cap,
        values: value.iter().flatten().copied().collect(),
        full: full(&value, cap.unwrap_or(f64::INFINITY)),
        above,
        wait_us,
        per_s,
    })
}

/// Tickets of a kind: above them are the operations that the server queues, or that the client has under way.
fn tickets(evidence: &Evidence, grid: SecondGrid, member: &str, kind: &str) -> Option<RungReadings> {
    let gauge = |name: &str| grid.means_of(evidence, &format!("server.{member}.{name}"));
    let value = gauge(&format!("tickets.{kind}.out"))?;
    let cap = gauge(&format!("tickets.{kind}.total")).and_then(|cap| mean(cap.into_iter().flatten()));
    let clients = || {
        let client = client_gauge(evidence, grid, "in_flight")?;
        Some(zip(&client, &value, |client, value| Some((client - value).max(0.0))))
    };
    let queued = if kind == "read" { "queue.readers" } else { "queue.writers" };
    let above = gauge(queued).or_else(clients);
    let (_, per_s) = server_mean_us(evidence, grid, member).unwrap_or((Vec::new(), vec![None; grid.len()]));
    let waited = grid.sums_of(evidence, &format!("server.{member}.wait.ticket_us"));
    let wait_us = waited.map_or_else(
        || vec![None; grid.len()],
        |waited| zip(&waited, &per_s, |waited, per_s| (per_s > 0.0).then(|| waited / per_s)),
    );
    Some(RungReadings {
        name: format!("{kind} tickets"),
        cap,
        values: value.iter().flatten().copied().collect(),
        full: full(&value, cap.unwrap_or(f64::INFINITY)),
        above: above.unwrap_or_else(|| vec![None; grid.len()]),
        wait_us,
        per_s,
    })
}

/// The queue of a device.
struct DeviceQueue {
    device: String,
    seen: RungReadings,
    counters: DeviceSeconds,
    /// Samples of the requests in flight, by second.
    samples: Vec<Vec<f64>>,
    /// The method of counting those above.
    how: Option<String>,
}

impl DeviceQueue {
    /// `None` if its requests in flight were not sampled, or its counters not read.
    fn from_evidence(
        evidence: &Evidence,
        grid: SecondGrid,
        member: &str,
        device: &str,
        all: &[Option<f64>],
    ) -> Option<DeviceQueue> {
        let points = values(evidence, &format!("device.{device}.in_flight"));
        let counters = DeviceSeconds::from_evidence(evidence, grid, device)?;
        let cap = mean(
            values(evidence, &format!("device.{device}.queue.requests")).into_iter().map(|(_, cap)| cap),
        );
        let mut samples = vec![Vec::new(); grid.len()];
        for (end_ns, value) in &points {
            if let Some(second) = grid.at(*end_ns).and_then(|at| samples.get_mut(at)) {
                second.push(*value);
            }
        }
        let line = MIN_FILL_OF_CAP * cap.unwrap_or(f64::INFINITY);
        let share = |second: &Vec<f64>| {
            (!second.is_empty())
                .then(|| second.iter().filter(|n| **n >= line).count() as f64 / second.len() as f64)
        };
        let part = zip(&counters.requests, all, |here, all| Some(if all > 0.0 { here / all } else { 1.0 }));
        let found = above(evidence, grid, member, &counters, &part);
        let operation = operation_us(evidence, grid, member).unwrap_or_else(|| vec![None; grid.len()]);
        let seen = RungReadings {
            name: format!("device {device}"),
            cap,
            values: points.into_iter().map(|(_, value)| value).collect(),
            full: samples.iter().map(share).collect(),
            above: found.as_ref().map_or_else(|| vec![None; grid.len()], |found| found.waiting.clone()),
            wait_us: operation,
            per_s: counters.requests.clone(),
        };
        Some(DeviceQueue {
            device: device.to_owned(),
            seen,
            counters,
            samples,
            how: found.map(|found| found.how),
        })
    }

    /// The gain of another cap; `None` if the cap or the device's curve is not known, or the queue was never full.
    fn forecast(&self, evidence: &Evidence, stream: &mut SeededRandom) -> Option<QueueForecast> {
        let cap = self.seen.cap.filter(|cap| *cap >= 1.0)?;
        let often = self.seen.values.iter().filter(|value| **value >= MIN_FILL_OF_CAP * cap).count();
        if often == 0 {
            return None;
        }
        let count = |seconds: &Seconds| seconds.iter().flatten().sum::<f64>();
        let writes = count(&self.counters.reads) * 2.0 < count(&self.counters.requests);
        let curve = curve::from_steps(&evidence.results, &self.device, cap, writes)
            .or_else(|| curve::from_steps(&evidence.results, &self.device, cap, !writes))
            .or_else(|| curve::from_seconds(&self.own_seconds()))?;
        let backlog = backlog(&self.samples, cap, &self.seen.above);
        let mut found = forecast::forecast(&curve, &backlog, cap, stream)?;
        found.basis.extend(self.how.clone());
        Some(found)
    }

    fn own_seconds(&self) -> Vec<curve::OwnSecond> {
        let seconds = self.samples.iter().zip(&self.counters.requests).zip(&self.counters.await_us);
        seconds
            .filter_map(|((samples, per_s), await_us)| {
                let spread = coefficient_of_variation(samples)?;
                Some((mean(samples.iter().copied())?, spread, (*per_s)?, (*await_us)?))
            })
            .collect()
    }
}
