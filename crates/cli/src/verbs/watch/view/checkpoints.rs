//! The time of the next checkpoint, and figures of the last ones.

use serde::Serialize;

use super::reading::{EvidenceView, SECOND_NS};

/// Cycles that are shown.
const MAX_CYCLES: usize = 5;

/// The checkpoints of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CheckpointView {
    pub(crate) member: String,
    pub(crate) is_running: bool,
    pub(crate) every_s: Option<f64>,
    /// Seconds until the next one is due; below 0 if it is late.
    pub(crate) next_s: Option<f64>,
    /// The last ones, the oldest first.
    pub(crate) cycles: Vec<Cycle>,
    pub(crate) dirty_share: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Cycle {
    /// When it ended, in seconds of the run.
    pub(crate) ended_s: f64,
    pub(crate) took_s: Option<f64>,
    pub(crate) written_bytes: Option<f64>,
}

/// The checkpoints of each server that makes any.
pub(super) fn all(look: EvidenceView<'_>) -> Vec<CheckpointView> {
    look.evidence.members().iter().filter_map(|member| checkpoint_view(look, member)).collect()
}

fn checkpoint_view(look: EvidenceView<'_>, member: &str) -> Option<CheckpointView> {
    let name = |what: &str| format!("server.{member}.{what}");
    let running = look.last(&name("checkpoint.running"));
    let counts = look.since(&name("checkpoint.count"), u64::MAX);
    if running.is_none() && counts.is_empty() {
        return None;
    }
    let between = |what: &str, begin_ns: u64, end_ns: u64| {
        let points = look.series(&name(what))?.within(begin_ns, end_ns);
        (!points.is_empty()).then(|| points.iter().map(|point| point.value).sum::<f64>())
    };
    let mut cycles = Vec::new();
    let mut before_ns = look.evidence.window_ns.0;
    for point in counts.iter().filter(|point| point.value > 0.0) {
        let took_ms = between("checkpoint.total_ms", point.begin_ns, point.end_ns);
        cycles.push(Cycle {
            ended_s: seconds(point.end_ns),
            took_s: took_ms.map(|ms| ms / point.value / 1000.0),
            written_bytes: between("engine.checkpoint_bytes", before_ns, point.end_ns),
        });
        before_ns = point.end_ns;
    }
    cycles.drain(..cycles.len().saturating_sub(MAX_CYCLES));
    let is_running = running.is_some_and(|running| running > 0.0);
    let every_s = look.last(&name("parameter.syncdelay_s")).filter(|every_s| *every_s > 0.0);
    // WiredTiger sleeps `syncdelay` from the end of one to the start of the next.
    let due = |cycle: &Cycle| every_s.map(|every_s| cycle.ended_s + every_s - seconds(look.now_ns));
    let share = |used: f64, most: f64| (most > 0.0).then(|| used / most);
    Some(CheckpointView {
        member: member.to_owned(),
        is_running,
        every_s,
        next_s: cycles.last().and_then(due).filter(|_| !is_running),
        cycles,
        dirty_share: look
            .last(&name("cache.dirty_bytes"))
            .and_then(|dirty| share(dirty, look.last(&name("cache.most_bytes"))?)),
    })
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / SECOND_NS as f64
}
