//! `--json`: what a run came to as one document, with both clocks of every operation.

use fathom_load::driving::{End, Ended};
use fathom_load::measurements::{Latencies, Measured, Status};
use fathom_stats::Histogram;
use serde_json::{Map, Value, json};

/// The document of one part of a load; percentiles with fewer than ten operations beyond them are null.
pub(super) fn document(name: &str, ended: &Ended) -> Value {
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
        "reconnects": ended.reconnects,
        "abandoned": ended.abandoned,
        "client": {
            "loops": ended.loops,
            "cpu_s": ended.cpu.as_secs_f64(),
            "cpu_share": ended.cpu.as_secs_f64() / (seconds * ended.loops as f64).max(1e-9),
            "in_flight": ended.in_flight,
            "schedule_lag": histogram(&ended.lag),
        },
    })
}

fn operation(measured: &Measured) -> Value {
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
