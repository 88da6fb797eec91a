//! The current operations: their number at each rung of the queue ladder, their latency, and the layers of their mean
//! time.

use fathom_explain::Judgement;
use fathom_record::budget::Budget;
use serde::Serialize;

use super::deployment::follows;
use super::reading::{EvidenceView, SECOND_NS};

/// The span over which a rung is judged.
const CAP_SPAN_NS: u64 = 60 * SECOND_NS;
/// A rung is full above this share of its cap, and is capped if that holds in this share of the samples (A3 of the analysis).
const MIN_FILL_OF_CAP: f64 = 0.95;
const MIN_FULL_SHARE: f64 = 0.10;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Rung {
    pub(crate) name: String,
    /// The number at this moment.
    pub(crate) now: f64,
    /// The number of operations that wait in front of it, if it is counted.
    pub(crate) waiting: Option<f64>,
    /// The number that it lets through, if it is known.
    pub(crate) cap: Option<f64>,
    /// The share of samples in which it was full, of the last minute.
    pub(crate) full_share: f64,
    /// Whether it was full often enough to matter.
    pub(crate) is_capped: bool,
}

/// The rungs from the client down.
pub(super) fn rungs(look: EvidenceView<'_>) -> Vec<Rung> {
    let mut rungs = Vec::new();
    rungs.extend(rung(look, "client", "client.in_flight", look.last("client.connections"), None));
    let members = look.evidence.members();
    for member in members.iter().filter(|member| !follows(look, member)) {
        let of = |what: &str| format!("server.{member}.{what}");
        for (kind, waiting) in [("read", "queue.readers"), ("write", "queue.writers")] {
            let name = if members.len() > 1 { format!("{member} {kind}") } else { format!("{kind} tickets") };
            let cap = look.last(&of(&format!("tickets.{kind}.total")));
            let out = of(&format!("tickets.{kind}.out"));
            rungs.extend(rung(look, &name, &out, cap, look.last(&of(waiting))));
        }
    }
    for device in look.named("device.", ".in_flight") {
        let cap = look.last(&format!("device.{device}.queue.requests"));
        rungs.extend(rung(look, &device, &format!("device.{device}.in_flight"), cap, None));
    }
    rungs
}

fn rung(
    look: EvidenceView<'_>,
    name: &str,
    series: &str,
    cap: Option<f64>,
    waiting: Option<f64>,
) -> Option<Rung> {
    let now = look.last(series)?;
    let points = look.since(series, CAP_SPAN_NS);
    let full = |value: f64| cap.is_some_and(|cap| cap > 0.0 && value >= MIN_FILL_OF_CAP * cap);
    let share = points.iter().filter(|point| full(point.value)).count() as f64 / points.len() as f64;
    Some(Rung {
        name: name.to_owned(),
        now,
        waiting: waiting.filter(|waiting| *waiting > 0.0),
        cap: cap.filter(|cap| *cap > 0.0),
        full_share: share,
        is_capped: share >= MIN_FULL_SHARE,
    })
}

/// One kind of operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LatencyRow {
    pub(crate) name: String,
    pub(crate) per_s: f64,
    /// From the send, or within the server.
    pub(crate) service: ClockFigures,
    /// From when it was due; a server does not know that time.
    pub(crate) response: Option<ClockFigures>,
}

/// The latencies by one clock, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct ClockFigures {
    pub(crate) mean_ms: Option<f64>,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
}

/// A row for each kind of operation.
pub(super) fn latency_rows(look: EvidenceView<'_>) -> Vec<LatencyRow> {
    let client = look.named("client.", ".service.mean_ns");
    if client.is_empty() {
        let members = look.evidence.members();
        let several = members.len() > 1;
        return members
            .iter()
            .filter(|member| !follows(look, member))
            .flat_map(|member| ["reads", "writes", "commands"].map(|kind| (member, kind)))
            .filter_map(|(member, kind)| of_server(look, member, kind, several))
            .collect();
    }
    client.iter().filter_map(|operation| of_client(look, operation)).collect()
}

fn of_client(look: EvidenceView<'_>, operation: &str) -> Option<LatencyRow> {
    let clock = |clock: &str| {
        let of = |what: &str| look.last(&format!("client.{operation}.{clock}.{what}_ns")).map(|ns| ns / 1e6);
        ClockFigures { mean_ms: of("mean"), p50_ms: of("p50"), p99_ms: of("p99") }
    };
    Some(LatencyRow {
        name: operation.to_owned(),
        per_s: look.level(&format!("client.{operation}.per_s"))?,
        service: clock("service"),
        response: Some(clock("response")),
    })
}

fn of_server(look: EvidenceView<'_>, member: &str, kind: &str, several: bool) -> Option<LatencyRow> {
    let of = |what: &str| format!("server.{member}.{kind}.{what}");
    let per_s = look.rate(&of("operations"))?;
    let mean_ms = look.mean(&of("latency_us"), &of("operations")).map(|us| us / 1000.0);
    Some(LatencyRow {
        name: if several { format!("{member} {kind}") } else { kind.to_owned() },
        per_s,
        service: ClockFigures { mean_ms, ..ClockFigures::default() },
        response: None,
    })
}

/// The rows, of which the screen shows the first.
const MAX_LOOPS: usize = 8;

/// One server's operations of a kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LoopRow {
    pub(crate) member: String,
    pub(crate) operations: String,
    /// The mean wait of the client, or time in the server.
    pub(crate) mean_ms: f64,
    /// Whether the client was watched.
    pub(crate) of_client: bool,
    pub(crate) parts: Vec<LoopPart>,
    /// Whether the parts add up.
    pub(crate) closes: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LoopPart {
    pub(crate) name: String,
    pub(crate) ms: f64,
    pub(crate) share: f64,
}

/// The rows of the newest budgets; before the first budget, the servers' own means.
pub(super) fn loop_rows(look: EvidenceView<'_>, judgement: &Judgement) -> Vec<LoopRow> {
    let mut rows: Vec<LoopRow> = judgement.budgets.iter().map(loop_row).collect();
    if rows.is_empty() {
        for member in look.evidence.members().into_iter().filter(|member| !follows(look, member)) {
            rows.extend(["reads", "writes"].into_iter().filter_map(|kind| bare(look, &member, kind)));
        }
    }
    rows.truncate(MAX_LOOPS);
    rows
}

fn loop_row(budget: &Budget) -> LoopRow {
    let mean_us = budget.whole_us();
    let layers = budget.layers.iter().filter(|layer| layer.mean_us > 0.0);
    let mut parts: Vec<LoopPart> = layers
        .map(|layer| LoopPart {
            name: layer.name.replace('_', " "),
            ms: layer.mean_us / 1000.0,
            share: layer.share,
        })
        .collect();
    // The part that the layers do not explain is drawn last.
    if budget.unexplained_us > 0.0 {
        let share = budget.unexplained_us / mean_us.max(f64::MIN_POSITIVE);
        parts.push(LoopPart { name: "unexplained".to_owned(), ms: budget.unexplained_us / 1000.0, share });
    }
    LoopRow {
        member: budget.member.clone(),
        operations: budget.operations.clone(),
        mean_ms: mean_us / 1000.0,
        of_client: budget.client_mean_us.is_some(),
        parts,
        closes: budget.closes,
    }
}

fn bare(look: EvidenceView<'_>, member: &str, kind: &str) -> Option<LoopRow> {
    let of = |what: &str| format!("server.{member}.{kind}.{what}");
    let mean_us = look.mean(&of("latency_us"), &of("operations"))?;
    Some(LoopRow {
        member: member.to_owned(),
        operations: kind.to_owned(),
        mean_ms: mean_us / 1000.0,
        of_client: false,
        parts: Vec::new(),
        closes: true,
    })
}
