//! How long operations take now: both clocks with percentiles where a client is watched, the servers' means elsewhere.

use serde::Serialize;

use super::reading::Look;

/// One kind of operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LatencyRow {
    pub(crate) name: String,
    pub(crate) per_s: f64,
    /// From the send, or within the server.
    pub(crate) service: Clock,
    /// From when it was due; a server does not know it.
    pub(crate) response: Option<Clock>,
}

/// What one clock says, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Clock {
    pub(crate) mean_ms: Option<f64>,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
}

/// A row for each kind of operation.
pub(super) fn rows(look: Look<'_>) -> Vec<LatencyRow> {
    let client = look.named("client.", ".service.mean_ns");
    if client.is_empty() {
        let members = look.evidence.members();
        let several = members.len() > 1;
        return members
            .iter()
            .filter(|member| !super::members::follows(look, member))
            .flat_map(|member| ["reads", "writes", "commands"].map(|kind| (member, kind)))
            .filter_map(|(member, kind)| of_server(look, member, kind, several))
            .collect();
    }
    client.iter().filter_map(|operation| of_client(look, operation)).collect()
}

fn of_client(look: Look<'_>, operation: &str) -> Option<LatencyRow> {
    let clock = |clock: &str| {
        let of = |what: &str| look.last(&format!("client.{operation}.{clock}.{what}_ns")).map(|ns| ns / 1e6);
        Clock { mean_ms: of("mean"), p50_ms: of("p50"), p99_ms: of("p99") }
    };
    Some(LatencyRow {
        name: operation.to_owned(),
        per_s: look.level(&format!("client.{operation}.per_s"))?,
        service: clock("service"),
        response: Some(clock("response")),
    })
}

fn of_server(look: Look<'_>, member: &str, kind: &str, several: bool) -> Option<LatencyRow> {
    let of = |what: &str| format!("server.{member}.{kind}.{what}");
    let per_s = look.rate(&of("operations"))?;
    let mean_ms = look.mean(&of("latency_us"), &of("operations")).map(|us| us / 1000.0);
    Some(LatencyRow {
        name: if several { format!("{member} {kind}") } else { kind.to_owned() },
        per_s,
        service: Clock { mean_ms, ..Clock::default() },
        response: None,
    })
}
