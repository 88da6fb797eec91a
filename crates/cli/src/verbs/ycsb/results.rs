//! The results of a load or of a search for the highest rate: as YCSB's report with sentences, as a table, or (`--json`) as one document.

use std::path::Path;

use fathom_errors::Result;
use fathom_load::client_settings::ClientSettings;
use fathom_load::driving::{End, LoadResult};
use fathom_load::find_max::{SearchStep, StepVerdict};
use fathom_load::generators::KeyDraws;
use fathom_load::measurements::{Latencies, OperationMeasurements, Status};
use fathom_session::SearchOutcome;
use fathom_stats::{Histogram, LittleCheck, MAX_CLIENT_CPU_SHARE, Slo};
use fathom_units::{Nanos, count};
use serde_json::{Map, Value, json};

use crate::output;

/// A schedule lag above this at the 99th percentile, in nanoseconds, is due to the client or to connections that are all busy.
const MAX_LAG_NS: u64 = 1_000_000;
/// The largest gap in Little's law (docs/methods.md#littles-law).
const MAX_CLIENT_GAP: f64 = 0.02;

/// Prints the main facts of a load to standard error: both clocks, failures and their reasons, and whether the client was the
/// limit.
pub(super) fn show_summary(ended: &LoadResult, settings: &ClientSettings) {
    table(ended);
    failures(ended);
    for sentence in sentences(ended, settings) {
        output::note(&sentence);
    }
}

fn table(ended: &LoadResult) {
    let heads = ["p50", "p95", "p99", "p99.9", "max"];
    output::note(&format!(
        "{:<18} {:<8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "us", "", heads[0], heads[1], heads[2], heads[3], heads[4]
    ));
    for (name, measured) in &ended.metrics {
        for (clock, histogram) in
            [("service", &measured.succeeded.service), ("response", &measured.succeeded.response)]
        {
            if histogram.is_empty() {
                continue;
            }
            let name = if clock == "service" { name.as_str() } else { "" };
            let [p50, p95, p99, p999] = [0.5, 0.95, 0.99, 0.999].map(|q| micros(histogram, q));
            let max = histogram.max_ns().map_or_else(String::new, |max| (max / 1000).to_string());
            output::note(&format!("{name:<18} {clock:<8} {p50:>8} {p95:>8} {p99:>8} {p999:>8} {max:>8}"));
        }
    }
}

/// A quantile in microseconds, or a dash if too few operations lie beyond it.
fn micros(histogram: &Histogram, q: f64) -> String {
    let quantile = histogram.supported_quantile(q);
    quantile.map_or_else(|| "-".to_owned(), |nanos| format!("{:.0}", nanos.get() as f64 / 1000.0))
}

fn failures(ended: &LoadResult) {
    for (kind, failures) in &ended.failures {
        output::note(&format!("fathom: {} x {kind}: {}", failures.count, failures.first));
    }
    if ended.retries > 0 {
        output::note(&format!(
            "fathom: {} failed inserts were tried again; Return= and the latencies count each attempt",
            ended.retries
        ));
    }
    if ended.reconnects > 0 {
        output::note(&format!("fathom: {} connections were established again", ended.reconnects));
    }
    if ended.abandoned > 0 {
        output::note(&format!(
            "fathom: {} operations were still under way at the end and are not counted",
            ended.abandoned
        ));
    }
}

fn sentences(ended: &LoadResult, settings: &ClientSettings) -> Vec<String> {
    let mut sentences = Vec::new();
    let share = ended.cpu_share();
    let per_operation = ended.cpu.as_secs_f64() * 1e6 / ended.operations.max(1) as f64;
    let rate = ended.operations as f64 / ended.elapsed.as_secs_f64().max(1e-9);
    sentences.push(format!(
        "client: {}, {}, {:.0} % busy, {per_operation:.1} us of CPU per operation",
        number(settings.plan.connections, "connection"),
        number(ended.loops, "thread"),
        share * 100.0
    ));
    if share > MAX_CLIENT_CPU_SHARE {
        sentences.push(
            "fathom: client-limited: the loops were busy most of the time, so the server may be able to do more"
                .to_owned(),
        );
    } else if ended.is_client_limited() {
        sentences.push(slow_draws(ended));
    }
    if ended.draws.substitutes > 0 {
        let KeyDraws { keys, substitutes, .. } = ended.draws;
        sentences.push(format!(
            "fathom: {} of {} operations took the newest record, as none exists that insertstart, insertcount and \
             requestdistribution ask for",
            count(substitutes as f64),
            count(keys as f64)
        ));
    }
    if let Some(target) = settings.plan.arrivals.rate_per_s() {
        if rate < 0.99 * target {
            sentences.push(format!(
                "fathom: target missed: {rate:.0} of {target:.0} operations a second; response times grow with the backlog"
            ));
        }
        let lag = ended.lag.quantile_ns(0.99).unwrap_or(0);
        if lag > MAX_LAG_NS {
            sentences.push(format!(
                "fathom: operations were sent late: 99 % within {:.1} ms of when they were due; more connections may help",
                lag as f64 / 1e6
            ));
        }
    }
    sentences.extend(little(ended, rate));
    sentences
}

/// The sentence on a client whose limit is the drawing of keys.
fn slow_draws(ended: &LoadResult) -> String {
    let KeyDraws { keys, draws, .. } = ended.draws;
    format!(
        "fathom: client-limited: {:.0} % of the loops' time went into drawing keys ({} draws a key, {:.0} us an operation), so \
         the server may be able to do more: operationcount leaves room for many more records than exist",
        ended.preparing_share() * 100.0,
        count(draws as f64 / keys.max(1) as f64),
        ended.preparing.as_secs_f64() * 1e6 / ended.operations.max(1) as f64
    )
}

/// `1 thread`, `2 threads`.
fn number(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Little's law applied to the load itself: the operations under way are the rate times their mean time.
fn little(ended: &LoadResult, rate_per_s: f64) -> Option<String> {
    // Operations with several parts are measured as a whole and in parts; only the wholes count as under way.
    let wholes = ended.metrics.iter().filter(|(name, _)| *name != "VERIFY");
    let reads = ended.metrics.iter().any(|(name, _)| *name == "READ-MODIFY-WRITE");
    let (mut sum_ns, mut count) = (0.0, 0_u64);
    for (_, measured) in wholes {
        let failed = measured.failed.values().map(|one| &one.service);
        for histogram in failed.chain([&measured.succeeded.service]) {
            sum_ns += histogram.mean_ns().unwrap_or(0.0) * histogram.len() as f64;
            count += histogram.len();
        }
    }
    // Operations that took a large part of the run are cut off at its ends, and the law only holds for long runs.
    let longest = ended.metrics.iter().filter_map(|(_, measured)| measured.succeeded.service.max_ns()).max();
    let cut = longest.unwrap_or(0) as f64 / 1e9 > ended.elapsed.as_secs_f64() / 50.0 || ended.abandoned > 0;
    if reads || cut || count == 0 || ended.elapsed.as_secs_f64() < 2.0 {
        return None;
    }
    let seconds = ended.elapsed.as_secs_f64();
    let check = LittleCheck {
        in_flight: ended.in_flight,
        throughput_per_s: count as f64 / seconds,
        mean_latency_ns: sum_ns / count as f64,
    };
    let gap = check.relative_gap();
    (rate_per_s > 0.0 && gap > MAX_CLIENT_GAP).then(|| {
        format!(
            "fathom: Little's law is off by {:.1} %: {:.2} operations were under way, and {:.2} follow from rate and latency",
            gap * 100.0,
            ended.in_flight,
            check.implied_in_flight()
        )
    })
}

/// The document of one part of a load; percentiles with fewer than ten operations beyond them are null.
pub(super) fn load_document(name: &str, ended: &LoadResult) -> Value {
    let operations: Map<String, Value> =
        ended.metrics.iter().map(|(name, measured)| ((*name).to_owned(), operation(measured))).collect();
    let failures: Vec<Value> = ended
        .failures
        .iter()
        .map(|(kind, failures)| json!({ "kind": kind, "count": failures.count, "first": failures.first }))
        .collect();
    let seconds = ended.elapsed.as_secs_f64();
    let end = match &ended.end {
        End::Done => "done",
        End::TimeOver => "time over",
        End::Stopped => "stopped",
        End::NoProgress(_) => "no progress",
        End::GaveUp(_) => "gave up",
    };
    json!({
        "name": name,
        "end": end,
        "seconds": seconds,
        "operations": ended.operations,
        "per_s": ended.operations as f64 / seconds.max(1e-9),
        "by_operation": operations,
        "failures": failures,
        "retries": ended.retries,
        "reconnects": ended.reconnects,
        "abandoned": ended.abandoned,
        "client": {
            "loops": ended.loops,
            "cpu_s": ended.cpu.as_secs_f64(),
            "cpu_share": ended.cpu_share(),
            "preparing_share": ended.preparing_share(),
            "in_flight": ended.in_flight,
            "schedule_lag": histogram(&ended.lag),
        },
    })
}

fn operation(measured: &OperationMeasurements) -> Value {
    let returns: Map<String, Value> = Status::ALL
        .iter()
        .filter(|status| measured.returned(**status) > 0)
        .map(|status| (status.name().to_owned(), json!(measured.returned(*status))))
        .collect();
    let failed: Map<String, Value> =
        measured.failed.iter().map(|(status, one)| (status.name().to_owned(), latencies(one))).collect();
    let mut value = latencies(&measured.succeeded);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("returns".to_owned(), Value::Object(returns));
        fields.insert("failed".to_owned(), Value::Object(failed));
    }
    value
}

fn latencies(latencies: &Latencies) -> Value {
    json!({ "service": histogram(&latencies.service), "response": histogram(&latencies.response) })
}

fn histogram(histogram: &Histogram) -> Value {
    let quantile = |q: f64| histogram.supported_quantile(q).map(|nanos| nanos.get());
    json!({
        "count": histogram.len(),
        "mean_ns": histogram.mean_ns(),
        "min_ns": histogram.min_ns(),
        "p50_ns": quantile(0.5),
        "p95_ns": quantile(0.95),
        "p99_ns": quantile(0.99),
        "p99_9_ns": quantile(0.999),
        "p99_99_ns": quantile(0.9999),
        "max_ns": histogram.max_ns(),
    })
}

/// The names of the columns of a search's table, a line for each step at rising rates.
pub(super) fn search_header(slo: &Slo) -> String {
    format!(
        "{:>10} {:>10} {:>10} {:>8} {:>6}  {}",
        "offered/s",
        "done/s",
        slo.text().split('<').next().unwrap_or_default(),
        "lag ms",
        "CPU %",
        "verdict"
    )
}

/// The line of a step.
pub(super) fn search_line(step: &SearchStep, verdict: StepVerdict) -> String {
    let quantile = step.quantile_ns.map_or_else(|| "-".to_owned(), |ns| Nanos(ns).to_string());
    let lag = step.lag_ms.iter().sum::<f64>() / step.lag_ms.len().max(1) as f64;
    format!(
        "{:>10} {:>10} {quantile:>10} {lag:>8.2} {:>6.0}  {}",
        count(step.offered_per_s),
        count(step.achieved_per_s),
        step.client_cpu_share * 100.0,
        verdict.words()
    )
}

/// The answer of a search as text.
pub(super) fn show_search(outcome: &SearchOutcome) -> Result<()> {
    output::line(&format!("\n{}", outcome.sentence))
}

/// The answer of a search as a document.
pub(super) fn search_document(outcome: &SearchOutcome, slo: &Slo, folder: Option<&Path>) -> Value {
    let SearchOutcome { found, sentence, is_checkpoint_blind } = outcome;
    let step = |(step, verdict): &(SearchStep, StepVerdict)| {
        json!({
            "offered_per_s": step.offered_per_s,
            "achieved_per_s": step.achieved_per_s,
            "seconds": step.seconds,
            "quantile_ns": step.quantile_ns,
            "failed_share": step.failed_share,
            "mean_lag_ms": step.lag_ms.iter().sum::<f64>() / step.lag_ms.len().max(1) as f64,
            "client_cpu_share": step.client_cpu_share,
            "verdict": verdict.words(),
        })
    };
    json!({
        "schema": fathom_record::SCHEMA,
        "fathom_version": env!("CARGO_PKG_VERSION"),
        "verb": "ycsb",
        "objective": slo.text(),
        "rate_per_s": found.rate_per_s,
        "broken_per_s": found.broken_per_s,
        "client_limited": found.client_limited,
        "interrupted": found.interrupted,
        "checkpoint_blind": is_checkpoint_blind,
        "run_folder": folder,
        "steps": found.steps.iter().map(step).collect::<Vec<_>>(),
        "sentence": sentence,
    })
}
