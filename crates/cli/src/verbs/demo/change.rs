//! The change that the finding advises, and the result of the same load after it: figures, three sentences and a document of the two recordings.
//!
//! Every figure comes from the recordings. A recording without one of them is refused, so that every sentence has its figure.

use fathom_errors::{Error, Kind, Result};
use fathom_record::disk::Entry;
use fathom_record::load::Load;
use fathom_record::verdict::Verdict;
use fathom_record::{Finding, Run};
use fathom_session::Assessment;
use fathom_units::{Nanos, count};
use serde_json::{Value, json};

use crate::output::WIDTH;

/// The figures of one recording.
#[derive(Clone, Copy, Debug)]
struct RecordingFigures {
    per_s: f64,
    /// The mean response time of all operations.
    mean_ns: f64,
    /// The response time of the 99th percentile of the most frequent operation.
    p99_ns: u64,
    /// Connections, each with one operation under way.
    connections: u64,
    /// The number of requests that the queue of the device admits.
    queue: f64,
}

/// The change and its effect.
#[derive(Debug)]
pub(super) struct DemoChange {
    /// The finding that advises it, with its cost and its commands.
    finding: Finding,
    claimed: f64,
    command: String,
    undo: String,
    before: RecordingFigures,
    after: RecordingFigures,
    /// The verdict on the run after it: the remaining causes.
    remains: Verdict,
}

impl DemoChange {
    /// Reads the change from the run before and the run after, each with its assessment.
    ///
    /// # Errors
    /// When a recording lacks a figure, or the first one names no cause with a command.
    pub(super) fn read(before: (&Run, &Assessment), after: (&Run, &Assessment)) -> Result<DemoChange> {
        let verdict = before.1.judgement.verdict.as_ref();
        let cause = verdict.and_then(|verdict| verdict.cause.as_deref());
        let finding = before.1.judgement.findings.iter().find(|finding| Some(finding.id.as_str()) == cause);
        let finding = finding.ok_or_else(|| lacks("finding that its verdict names"))?.clone();
        let command = |text: &Option<String>| text.clone().ok_or_else(|| lacks("command for the change"));
        Ok(DemoChange {
            claimed: finding.cost.as_ref().ok_or_else(|| lacks("cost of its cause"))?.share,
            command: command(&finding.command)?,
            undo: command(&finding.undo)?,
            before: RecordingFigures::read(before.0, before.1)?,
            after: RecordingFigures::read(after.0, after.1)?,
            remains: after.1.judgement.verdict.clone().ok_or_else(|| lacks("verdict after the change"))?,
            finding,
        })
    }

    /// The share of the mean response time that the change removed.
    fn gained(&self) -> f64 {
        1.0 - self.after.mean_ns / self.before.mean_ns
    }

    /// One line on the change, and one line on the same load after it.
    pub(super) fn lines(&self) -> Vec<String> {
        let RecordingFigures { per_s, mean_ns, p99_ns, .. } = self.after;
        let before = self.before;
        let after = format!(
            "{} operations a second in place of {}; mean {} in place of {}, p99 {} in place of {}.",
            count(per_s),
            count(before.per_s),
            time(mean_ns),
            time(before.mean_ns),
            Nanos(p99_ns),
            Nanos(before.p99_ns)
        );
        let shares = format!(
            "The finding claims {:.0} % of the mean response time; the change brought {:.0} %.",
            100.0 * self.claimed,
            100.0 * self.gained()
        );
        let mut lines = vec![format!("The change, while the server ran:  {}", self.command)];
        lines.extend(fathom_report::wrapped(&after, "The same load after it: ", "  ", WIDTH));
        lines.extend(fathom_report::wrapped(&shares, "  ", "  ", WIDTH));
        lines.extend(fathom_report::wrapped(&self.remains.sentence, "  What remains: ", "  ", WIDTH));
        lines
    }

    /// The events in sentences, for a reader who knows neither queues nor percentiles.
    pub(super) fn sentences(&self) -> [String; 3] {
        let DemoChange { before, after, .. } = self;
        [
            format!(
                "Before the change {} users at a time waited {} for each order, {:.0} % of it in a queue that admits {} requests to the disk.",
                before.connections,
                time(before.mean_ns),
                100.0 * self.claimed,
                count(before.queue)
            ),
            format!(
                "One setting was changed while the server ran, and nothing was bought: the queue now admits {} requests.",
                count(after.queue)
            ),
            format!(
                "After it the same users wait {} for each order, and the same disk serves {} orders a second in place of {}.",
                time(after.mean_ns),
                count(after.per_s),
                count(before.per_s)
            ),
        ]
    }

    /// The same as a document.
    pub(super) fn document(&self) -> Value {
        let figures = |one: &RecordingFigures| json!({ "per_s": one.per_s, "mean_ns": one.mean_ns, "p99_ns": one.p99_ns, "queue": one.queue });
        json!({
            "finding": self.finding.id,
            "command": self.command,
            "undo": self.undo,
            "before": figures(&self.before),
            "after": figures(&self.after),
            "verdict_after": self.remains,
            "claimed_share": self.claimed,
            "gained_share": self.gained(),
            "sentences": self.sentences(),
        })
    }
}

impl RecordingFigures {
    fn read(run: &Run, assessment: &Assessment) -> Result<RecordingFigures> {
        let results = run.results()?;
        let load = results.iter().find_map(|entry| match entry {
            Entry::Load(load) => Some(load),
            _ => None,
        });
        let load = load.ok_or_else(|| lacks("load"))?;
        Ok(RecordingFigures {
            per_s: load.per_s,
            mean_ns: mean_ns(load).ok_or_else(|| lacks("response time"))?,
            p99_ns: p99_ns(load).ok_or_else(|| lacks("99th percentile"))?,
            connections: load.connections,
            queue: queue_of_device(assessment).ok_or_else(|| lacks("queue of a device"))?,
        })
    }
}

/// The mean response time of all operations.
fn mean_ns(load: &Load) -> Option<f64> {
    let responses =
        load.by_operation.iter().filter_map(|one| Some((one.count as f64, one.response.as_ref()?.mean_ns)));
    let (operations, time_ns) =
        responses.fold((0.0, 0.0), |sums, (count, mean_ns)| (sums.0 + count, sums.1 + count * mean_ns));
    (operations > 0.0).then(|| time_ns / operations)
}

fn p99_ns(load: &Load) -> Option<u64> {
    load.by_operation.iter().max_by_key(|one| one.count)?.response.as_ref()?.p99_ns
}

/// The number of requests that the queue of the first device admits.
fn queue_of_device(assessment: &Assessment) -> Option<f64> {
    let rungs = assessment.judgement.ladders.iter().flat_map(|ladder| &ladder.rungs);
    rungs.filter(|rung| rung.name.starts_with("device ")).find_map(|rung| rung.cap)
}

fn time(ns: f64) -> Nanos {
    Nanos(ns.max(0.0).round() as u64)
}

fn lacks(what: &str) -> Error {
    Error::new(Kind::Malformed, format!("the recording of the demo has no {what}"))
        .advise("this is a fault of this build of fathom; please report it")
}
