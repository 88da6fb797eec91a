//! Little's law as an audit of what was measured: the number under way equals throughput times time (docs/methods.md#littles-law).
//!
//! It compares two independent counts at three places: the client, the server, and the devices. A gap
//! says that something was not counted, not that anything is slow. Only windows without a drift are judged.

use fathom_record::{Confidence, Finding, Severity};
use fathom_stats::{LittleCheck, SeededRandom, bootstrap_sums};

use crate::client::{ClientLoads, points};
use crate::windows::{Window, read_in, spread};
use crate::{Evidence, Judgement};

/// The largest gap at the client. It counts every operation, so only those that cross an end of the window may differ.
const MAX_CLIENT_GAP: f64 = 0.02;
/// The largest gap of a sampled mean, whatever its error: parts of an operation lie outside the gauge.
const MAX_DEVICE_GAP: f64 = 0.1;
const MAX_SERVER_GAP: f64 = 0.5;
/// The number of standard errors that a gap must also exceed: by chance one window in 16,000 does.
const MIN_GAP_ERRORS: f64 = 4.0;
/// The most by which throughput and time of the second half may differ from the first half's (docs/methods.md#littles-law).
const MAX_DRIFT: f64 = 0.05;
/// The fewest windows that are judged.
const MIN_WINDOWS: usize = 10;
/// The fewest operations under way that are compared.
const MIN_IN_FLIGHT: f64 = 0.1;
const RESAMPLES: usize = 300;

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LawCheck {
    Holds,
    /// The gap, relative to the number under way, and its standard error.
    Fails {
        gap: f64,
        error: f64,
    },
    CannotTell,
}

/// Number under way, throughput and total time of each window: what one comparison needs.
#[derive(Debug, Default)]
struct LittleRows {
    /// Seconds, area under the gauge in seconds, operations, their time in seconds.
    rows: Vec<Vec<f64>>,
}

/// Compares at the client, at each server and at each device.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    if let Some(client) = ClientLoads::from_evidence(evidence) {
        let rows = client_rows(evidence, &client);
        if let LawCheck::Fails { gap, error } = rows.verdict(evidence.seed, MAX_CLIENT_GAP) {
            judgement.findings.push(client_finding(&rows, gap, error, evidence));
        }
    }
    for member in evidence.members() {
        let rows = server_rows(evidence, &member);
        if let LawCheck::Fails { gap, error } = rows.verdict(evidence.seed, MAX_SERVER_GAP) {
            judgement.findings.push(sampled_finding(
                ("server-count-does-not-add-up", format!("server {member}"), "operations"),
                &rows,
                (gap, error),
                (evidence, format!("server.{member}.clients.readers")),
            ));
        }
    }
    for device in devices(evidence) {
        let rows = device_rows(evidence, &device);
        if let LawCheck::Fails { gap, error } = rows.verdict(evidence.seed, MAX_DEVICE_GAP) {
            judgement.findings.push(sampled_finding(
                ("device-count-does-not-add-up", format!("device {device}"), "requests"),
                &rows,
                (gap, error),
                (evidence, format!("device.{device}.in_flight")),
            ));
        }
    }
}

impl LittleRows {
    /// Adds a window, if all its values were read.
    fn add(&mut self, window: Window, in_flight: Option<f64>, operations: Option<f64>, time_s: Option<f64>) {
        let seconds = (window.1 - window.0) as f64 / 1e9;
        if let (Some(in_flight), Some(operations), Some(time_s)) = (in_flight, operations, time_s) {
            self.rows.push(vec![seconds, in_flight * seconds, operations, time_s]);
        }
    }

    fn check(rows: &[Vec<f64>]) -> LittleCheck {
        let mut total = vec![0.0; 4];
        rows.iter().for_each(|row| total.iter_mut().zip(row).for_each(|(sum, value)| *sum += value));
        check_of(&total)
    }

    fn verdict(&self, seed: u64, most: f64) -> LawCheck {
        let whole = LittleRows::check(&self.rows);
        if self.rows.len() < MIN_WINDOWS || whole.in_flight < MIN_IN_FLIGHT || whole.throughput_per_s <= 0.0 {
            return LawCheck::CannotTell;
        }
        let (early, late) = self.rows.split_at(self.rows.len() / 2);
        let (early, late) = (LittleRows::check(early), LittleRows::check(late));
        let drift = |early: f64, late: f64| (late / early - 1.0).abs();
        let drifts = [
            drift(early.throughput_per_s, late.throughput_per_s),
            drift(early.mean_latency_ns, late.mean_latency_ns),
        ];
        if !drifts.iter().all(|drift| *drift <= MAX_DRIFT) {
            return LawCheck::CannotTell;
        }
        let length = (self.rows.len() / 8).clamp(1, 10);
        let blocks: Vec<Vec<f64>> = self
            .rows
            .chunks(length)
            .map(|chunk| (0..4).map(|at| chunk.iter().filter_map(|row| row.get(at)).sum()).collect())
            .collect();
        let figures = |row: &[f64]| vec![gap_of(&check_of(row))];
        let resampled = bootstrap_sums(&blocks, 0.95, RESAMPLES, &mut SeededRandom::from_seed(seed), figures);
        let Some(error) = resampled.and_then(|all| Some(all.first().copied().flatten()?.standard_error))
        else {
            return LawCheck::CannotTell;
        };
        let gap = gap_of(&whole);
        if gap.abs() > most.max(MIN_GAP_ERRORS * error) {
            LawCheck::Fails { gap, error }
        } else {
            LawCheck::Holds
        }
    }
}

fn check_of(row: &[f64]) -> LittleCheck {
    let at = |place: usize| row.get(place).copied().unwrap_or(0.0);
    let (seconds, area, operations, time_s) = (at(0), at(1), at(2), at(3));
    LittleCheck {
        in_flight: area / seconds,
        throughput_per_s: operations / seconds,
        mean_latency_ns: time_s / operations * 1e9,
    }
}

/// The number that throughput and time imply, less the number under way, divided by the number under way.
fn gap_of(check: &LittleCheck) -> f64 {
    check.implied_in_flight() / check.in_flight - 1.0
}

/// The client's own count and its records. The time of failed operations is under way but in no record.
fn client_rows(evidence: &Evidence, client: &ClientLoads) -> LittleRows {
    let windows = client.windows(evidence);
    let mut rows = LittleRows::default();
    let mut sums = vec![[0.0; 4]; windows.len()];
    let mut put = |place: usize, values: Vec<Option<f64>>| {
        for (sum, value) in sums.iter_mut().zip(values) {
            sum.iter_mut().skip(place).take(1).for_each(|sum| *sum += value.unwrap_or(0.0));
        }
    };
    for area in client.areas(evidence, "in_flight") {
        put(0, spread(&area, &windows));
    }
    for operation in &client.operations {
        put(1, spread(&operation.counts(evidence), &windows));
        put(2, spread(&operation.times_us(evidence, "service"), &windows));
        put(3, spread(&operation.failures(evidence), &windows));
    }
    for (window, [area, operations, time_us, failures]) in windows.iter().zip(sums) {
        let seconds = (window.1 - window.0) as f64 / 1e9;
        if area > 0.0 && failures <= 0.0 {
            rows.add(*window, Some(area / seconds), Some(operations), Some(time_us / 1e6));
        }
    }
    rows
}

/// A server's sums of latency and its sampled clients. Waits without a ticket are in the sums and in no gauge, so they are
/// subtracted.
fn server_rows(evidence: &Evidence, member: &str) -> LittleRows {
    let of = |tail: &str| points(evidence, &format!("server.{member}.{tail}"));
    let windows: Vec<Window> =
        of("reads.latency_us").iter().map(|point| (point.begin_ns, point.end_ns)).collect();
    let sum = |tail: &str| spread(of(tail), &windows);
    let (active_reads, active_writes) =
        (read_in(of("clients.readers"), &windows), read_in(of("clients.writers"), &windows));
    let queued: Vec<Vec<Option<f64>>> =
        ["queue.readers", "queue.writers"].iter().map(|tail| read_in(of(tail), &windows)).collect();
    let outside: Vec<Vec<Option<f64>>> = ["wait.journal_us", "wait.replication_us", "wait.flow_control_us"]
        .iter()
        .map(|tail| sum(tail))
        .collect();
    let latency = [sum("reads.latency_us"), sum("writes.latency_us")];
    let operations = [sum("reads.operations"), sum("writes.operations")];
    let both = |pair: &[Vec<Option<f64>>], at: usize| -> Option<f64> {
        pair.iter().map(|values| values.get(at).copied().flatten()).sum()
    };
    let known = |all: &[Vec<Option<f64>>], at: usize| -> f64 {
        all.iter().filter_map(|values| values.get(at).copied().flatten()).sum()
    };
    let active = [active_reads, active_writes];
    let mut rows = LittleRows::default();
    for (at, window) in windows.iter().enumerate().filter(|(_, window)| window.1 > window.0) {
        let in_flight = both(&active, at).map(|active| active + known(&queued, at));
        let time_s = both(&latency, at).map(|time_us| (time_us - known(&outside, at)).max(0.0) / 1e6);
        rows.add(*window, in_flight, both(&operations, at), time_s);
    }
    rows
}

/// A device's summed times and its sampled requests in flight. If a device counts flushes apart, they are not in its requests in flight.
fn device_rows(evidence: &Evidence, device: &str) -> LittleRows {
    let of = |tail: &str| points(evidence, &format!("device.{device}.{tail}"));
    let windows: Vec<Window> = of("read_ms").iter().map(|point| (point.begin_ns, point.end_ns)).collect();
    let sum = |tail: &str| spread(of(tail), &windows);
    let (read_ms, write_ms) = (sum("read_ms"), sum("write_ms"));
    let (reads, writes) = (sum("reads"), sum("writes"));
    let in_flight = read_in(of("in_flight"), &windows);
    let pair = |one: &[Option<f64>], other: &[Option<f64>], at: usize| -> Option<f64> {
        Some(one.get(at).copied().flatten()? + other.get(at).copied().flatten()?)
    };
    let mut rows = LittleRows::default();
    for (at, window) in windows.iter().enumerate().filter(|(_, window)| window.1 > window.0) {
        let time_s = pair(&read_ms, &write_ms, at).map(|ms| ms / 1e3);
        rows.add(*window, in_flight.get(at).copied().flatten(), pair(&reads, &writes, at), time_s);
    }
    rows
}

fn devices(evidence: &Evidence) -> Vec<String> {
    let names = evidence.series.starting("device.");
    names.filter_map(|(name, _)| Some(name.strip_suffix(".in_flight")?.to_owned())).collect()
}

fn client_finding(rows: &LittleRows, gap: f64, error: f64, evidence: &Evidence) -> Finding {
    let check = LittleRows::check(&rows.rows);
    Finding::new(
        "client-count-does-not-add-up",
        Severity::Warning,
        "The client's records do not add up, so its means cannot be trusted.",
    )
    .confidence(Confidence::Certain)
    .evidence(format!(
        "{:.2} operations were under way on average, but {:.0} a second of {:.2} ms each make {:.2}: {:+.1} % (standard error {:.1} %).",
        check.in_flight,
        check.throughput_per_s,
        check.mean_latency_ns / 1e6,
        check.implied_in_flight(),
        100.0 * gap,
        100.0 * error
    ))
    .advice("Measure again; if it stays, operations are lost from the records or counted twice: report it.")
    .source("Little, Operations Research 9 (1961)")
    .next_look("Compare the client's operations with the server's opcounters over the same seconds.")
    .window(evidence.window_ns)
    .series(["client.in_flight", "client.operations.per_s"])
}

fn sampled_finding(
    (id, whose, what): (&str, String, &str),
    rows: &LittleRows,
    (gap, error): (f64, f64),
    (evidence, series): (&Evidence, String),
) -> Finding {
    let check = LittleRows::check(&rows.rows);
    Finding::new(id, Severity::Note, format!("The counters of {whose} do not agree with its sampled {what}."))
        .confidence(Confidence::CannotTell)
        .evidence(format!(
            "{:.2} {what} were seen on average, but {:.0} a second of {:.2} ms each make {:.2}: {:+.0} % (standard error {:.0} %).",
            check.in_flight,
            check.throughput_per_s,
            check.mean_latency_ns / 1e6,
            check.implied_in_flight(),
            100.0 * gap,
            100.0 * error
        ))
        .next_look("Sample more often; bursts between samples, and time outside what is sampled, look like this.")
        .window(evidence.window_ns)
        .series([series])
}

#[cfg(test)]
#[path = "little_tests.rs"]
mod tests;
