//! The decisive test of a checkpoint's spikes, and its outcome if it was made. Another `syncdelay` moves the
//! checkpoints; if the spikes move with them, the checkpoint is their cause.
//!
//! Under WiredTiger the period is `syncdelay` plus the checkpoint's duration; under MMAPv1 it is `syncdelay`; the
//! RocksDB engine never reads it (docs/methods.md#the-period-of-checkpoints). So the test needs the engine, and no
//! direction is advised: experts have advised both.

use fathom_record::Finding;
use fathom_stats::{EventEffect, EventVerdict, LatencyReading, SeededRandom, paired_events};

use crate::Evidence;
use crate::client::points;

/// A value that is no multiple or part of 60, nor of the usual intervals of cron and exporters.
const TEST_VALUE_S: f64 = 37.0;
/// The value if the server already runs at about that one.
const OTHER_TEST_VALUE_S: f64 = 53.0;
const NS_PER_S: f64 = 1e9;

/// The engine that a member runs, as its server names it.
pub(super) fn engine(evidence: &Evidence, member: &str) -> Option<String> {
    evidence.environment.get(&format!("server.{member}.engine")).cloned()
}

/// Whether that engine's checkpoints follow `syncdelay`.
pub(super) fn is_followed_by(engine: &str) -> bool {
    ["wiredtiger", "mmapv1"].contains(&engine.to_ascii_lowercase().as_str())
}

/// A part of a run with one value of `syncdelay`.
pub(super) struct SyncDelayStretch {
    syncdelay_s: f64,
    window_s: (f64, f64),
}

/// The parts of a run by the value of `syncdelay` that was read.
pub(super) fn stretches(evidence: &Evidence, member: &str) -> Vec<SyncDelayStretch> {
    let mut stretches: Vec<SyncDelayStretch> = Vec::new();
    for point in points(evidence, &format!("server.{member}.parameter.syncdelay_s")) {
        let at_s = point.end_ns as f64 / NS_PER_S;
        match stretches.last_mut() {
            Some(last) if last.syncdelay_s == point.value => last.window_s.1 = at_s,
            _ => stretches.push(SyncDelayStretch { syncdelay_s: point.value, window_s: (at_s, at_s) }),
        }
    }
    stretches
}

/// Adds the decisive test, its command and how to undo it.
pub(super) fn offer_test(finding: Finding, evidence: &Evidence, member: &str, duration_s: f64) -> Finding {
    let Some(engine) = engine(evidence, member) else {
        return finding.next_look(
            "Find out which storage engine the server runs (db.serverStatus().storageEngine): the test with syncdelay \
             means something on WiredTiger only.",
        );
    };
    if !is_followed_by(&engine) {
        return finding.next_look(format!(
            "The engine is {engine}, which does not read syncdelay; look at its flushes and compactions."
        ));
    }
    let now_s = stretches(evidence, member).last().map(|stretch| stretch.syncdelay_s);
    let near = now_s.is_some_and(|now_s| (now_s - TEST_VALUE_S).abs() < 10.0);
    let value_s = if near { OTHER_TEST_VALUE_S } else { TEST_VALUE_S };
    let set = |value_s: f64| {
        let host = evidence.environment.get(&format!("server.{member}"));
        let host = host.map_or(String::new(), |host| format!("--host {host} "));
        format!("mongosh {host}--eval 'db.adminCommand({{ setParameter: 1, syncdelay: {value_s} }})'")
    };
    let minutes = (8.0 * (value_s + duration_s) / 60.0).ceil();
    let period_s = if engine.eq_ignore_ascii_case("mmapv1") { value_s } else { value_s + duration_s };
    let undo = now_s.map_or_else(
        || "Read the value before the change with db.adminCommand({ getParameter: 1, syncdelay: 1 }), and set it back to \
            that.".to_owned(),
        set,
    );
    finding
        .next_look(format!(
            "The decisive test, for this engine ({engine}): set syncdelay to {value_s} for at least 8 cycles, about \
             {minutes} minutes. If the spikes then come every {period_s:.0} s the checkpoint makes them; if they stay \
             where they are, something else does."
        ))
        .command(set(value_s))
        .undo(undo)
}

/// The outcome if `syncdelay` was changed within the run: the spikes in each part, and whether they moved with the
/// checkpoints.
pub(super) struct SyncDelayChange {
    /// A sentence for each part.
    pub(super) sentences: Vec<String>,
    /// Whether spikes were shown in two adjacent parts, at checkpoints whose periods differ and agree with
    /// the value of each.
    pub(super) followed: bool,
}

/// `None` if it was not changed.
pub(super) fn moved(
    evidence: &Evidence,
    member: &str,
    readings: &[LatencyReading],
    events: &[(f64, f64)],
    stream: &mut SeededRandom,
) -> Option<SyncDelayChange> {
    let stretches = stretches(evidence, member);
    if stretches.len() < 2 {
        return None;
    }
    let mut moved = SyncDelayChange { sentences: Vec::new(), followed: false };
    let mut before: Option<EventEffect> = None;
    for stretch in &stretches {
        let (begin_s, end_s) = stretch.window_s;
        let inside: Vec<(f64, f64)> =
            events.iter().copied().filter(|event| event.0 >= begin_s && event.1 <= end_s).collect();
        let verdict = paired_events(readings, &inside, stream);
        moved.sentences.push(stretch.sentence(&verdict, inside.len()));
        let effect = match verdict {
            EventVerdict::Judged(effect)
                if effect.p <= 0.05 && stretch.explains(effect.period_s, effect.duration_s) =>
            {
                Some(effect)
            }
            _ => None,
        };
        if let (Some(one), Some(two)) = (&before, &effect) {
            moved.followed |= (one.period_s / two.period_s).ln().abs() > 0.15;
        }
        before = effect;
    }
    Some(moved)
}

impl SyncDelayStretch {
    /// Whether this value gives that period, on either engine that reads it.
    pub(super) fn explains(&self, period_s: f64, duration_s: f64) -> bool {
        let expected_s = [self.syncdelay_s, self.syncdelay_s + duration_s];
        // The wait is checked once a second.
        expected_s.iter().any(|expected_s| (period_s - expected_s).abs() <= 2.0 + 0.1 * expected_s)
    }

    fn sentence(&self, verdict: &EventVerdict, checkpoints: usize) -> String {
        let (begin_s, end_s) = self.window_s;
        let part = format!("From {begin_s:.0} s to {end_s:.0} s, at syncdelay {}, ", self.syncdelay_s);
        match verdict {
            EventVerdict::Judged(effect) => format!(
                "{part}{} checkpoints came every {:.1} s, and latency rose by {:.0} % in them (p = {:.4}).",
                effect.cycles.len(),
                effect.period_s,
                100.0 * effect.effect,
                effect.p
            ),
            EventVerdict::TooFew { .. } => {
                format!("{part}there were {checkpoints} checkpoints, too few to judge.")
            }
            EventVerdict::Continuous { busy_share } => {
                format!("{part}checkpoints ran {:.0} % of the time.", 100.0 * busy_share)
            }
        }
    }
}
