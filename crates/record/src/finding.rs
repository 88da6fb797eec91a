//! A finding: one claim about the system under test, with what it rests on and what to do.
//!
//! A finding without evidence is an opinion, so evidence is a list of sentences with the numbers in them. What
//! cannot be told is said as a finding of its own with [`Confidence::CannotTell`] and what would tell.

use serde::{Deserialize, Serialize};

use crate::cost::Cost;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be; kept so that a reader sees that it was looked at.
    Ok,
    /// Worth knowing, nothing to change.
    Note,
    /// Differs from advice, or limits performance.
    Warning,
    /// Risks data, or invalidates the measurement.
    Critical,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Read directly, or shown by a test that could have failed.
    Certain,
    /// The evidence fits and rivals were looked at.
    Likely,
    /// The evidence does not decide; the finding says what would.
    CannotTell,
}

/// What a change would bring, as far as the evidence tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Of what (`mean latency of reads`).
    pub of: String,
    /// By how much it would fall, as a share of it, 0 to 1.
    pub share: f64,
    /// 95 % interval of that.
    pub interval: (f64, f64),
    /// How that was computed, as a sentence.
    pub basis: String,
}

/// One claim, its evidence, and the way out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable kebab-case name (`readahead-too-large`), the same across versions.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// How sure it is.
    pub confidence: Confidence,
    /// The claim as one sentence.
    pub claim: String,
    /// What it rests on, a sentence each, with numbers and where they were read.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// What to do, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// A command that would do it; printed, never run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The page, paper or ticket that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What following the advice would bring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<Gain>,
    /// What it costs users, where it names a cause that could be removed; findings of a run are ranked by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// What to look at next, to be surer or to go deeper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_look: Option<String>,
    /// How to undo what the advice changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
    /// The windows that the evidence is from, in nanoseconds since the run's start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows_ns: Vec<(u64, u64)>,
    /// The series that the evidence is from, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<String>,
}

impl Finding {
    /// A certain finding without evidence yet.
    pub fn new(id: impl Into<String>, severity: Severity, claim: impl Into<String>) -> Self {
        Finding {
            id: id.into(),
            severity,
            confidence: Confidence::Certain,
            claim: claim.into(),
            evidence: Vec::new(),
            advice: None,
            command: None,
            source: None,
            gain: None,
            cost: None,
            next_look: None,
            undo: None,
            windows_ns: Vec::new(),
            series: Vec::new(),
        }
    }

    /// Sets how sure it is.
    #[must_use]
    pub fn confidence(mut self, confidence: Confidence) -> Self {
        self.confidence = confidence;
        self
    }

    /// Adds one sentence of evidence.
    #[must_use]
    pub fn evidence(mut self, sentence: impl Into<String>) -> Self {
        self.evidence.push(sentence.into());
        self
    }

    /// Sets what to do.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Sets the command that would do it.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Sets the page that says so.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Sets what following the advice would bring.
    #[must_use]
    pub fn gain(mut self, gain: Gain) -> Self {
        self.gain = Some(gain);
        self
    }

    /// Sets what it costs.
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Sets what to look at next.
    #[must_use]
    pub fn next_look(mut self, sentence: impl Into<String>) -> Self {
        self.next_look = Some(sentence.into());
        self
    }

    /// Sets how to undo what the advice changes.
    #[must_use]
    pub fn undo(mut self, sentence: impl Into<String>) -> Self {
        self.undo = Some(sentence.into());
        self
    }

    /// Adds a window that the evidence is from.
    #[must_use]
    pub fn window(mut self, window_ns: (u64, u64)) -> Self {
        self.windows_ns.push(window_ns);
        self
    }

    /// Adds series that the evidence is from.
    #[must_use]
    pub fn series(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.series.extend(names.into_iter().map(Into::into));
        self
    }

    /// Whether a script should hear of it by exit code 1.
    pub fn is_alarm(&self) -> bool {
        self.severity >= Severity::Warning
    }
}
