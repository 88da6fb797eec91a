//! The queue ladder: how many operations or requests stand at each rung, against what it lets through.

use serde::Serialize;

use super::reading::{Look, SECOND_NS};

/// Whether a rung is at its cap is told over this.
const SPAN_NS: u64 = 60 * SECOND_NS;
/// A rung is at its cap above this share of it, and stays there if that is so in this share of the samples (A3 of the analysis).
const FULL: f64 = 0.95;
const OFTEN: f64 = 0.10;

/// One rung.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Rung {
    pub(crate) name: String,
    /// How many there are now.
    pub(crate) now: f64,
    /// How many wait in front of it, where that is counted.
    pub(crate) waiting: Option<f64>,
    /// How many it lets through, where that is known.
    pub(crate) cap: Option<f64>,
    /// The share of samples in which it was full, of the last minute.
    pub(crate) full_share: f64,
    /// Whether it was full often enough to matter.
    pub(crate) is_capped: bool,
}

/// The rungs from the client down.
pub(super) fn rungs(look: Look<'_>) -> Vec<Rung> {
    let mut rungs = Vec::new();
    rungs.extend(rung(look, "client", "client.in_flight", look.last("client.connections"), None));
    let members = look.evidence.members();
    for member in members.iter().filter(|member| !super::members::follows(look, member)) {
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

fn rung(look: Look<'_>, name: &str, series: &str, cap: Option<f64>, waiting: Option<f64>) -> Option<Rung> {
    let points = look.since(series, SPAN_NS);
    let now = points.last()?.value;
    let full = |value: f64| cap.is_some_and(|cap| cap > 0.0 && value >= FULL * cap);
    let share = points.iter().filter(|point| full(point.value)).count() as f64 / points.len() as f64;
    Some(Rung {
        name: name.to_owned(),
        now,
        waiting: waiting.filter(|waiting| *waiting > 0.0),
        cap: cap.filter(|cap| *cap > 0.0),
        full_share: share,
        is_capped: share >= OFTEN,
    })
}
