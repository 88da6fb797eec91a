//! A finding: one claim about the system under test, with what it rests on, what it costs whom, and what to do.
//!
//! A finding without evidence is an opinion, so evidence is a list of sentences with the numbers in them. What
//! cannot be told is said as a finding of its own with [`Confidence::CannotTell`] and what would tell.

use fathom_units::{Nanos, count};
use serde::{Deserialize, Serialize};

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

    /// Whether it rests on what the host is set to, and on nothing that was measured. Evidence of a setting begins with the file that
    /// it was read from.
    pub fn is_setting(&self) -> bool {
        let is_read =
            |sentence: &String| ["/proc/", "/sys/", "/etc/"].iter().any(|root| sentence.starts_with(root));
        !self.evidence.is_empty() && self.evidence.iter().all(is_read)
    }

    /// Whether a script should hear of it by exit code 1.
    pub fn is_alarm(&self) -> bool {
        self.severity >= Severity::Warning
    }
}

/// From when a cost counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// From when an operation was due, so that operations that a stall held up count with what they waited.
    Response,
    /// From the send of an operation.
    Service,
    /// From its arrival at the server; the client was not watched.
    Server,
}

/// The cost of a cause in the users' terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// From when the times below count.
    pub clock: Clock,
    /// By how much the mean time of an operation would fall without the cause, as a share of it, 0 to 1.
    pub share: f64,
    /// 95 % interval of that.
    pub interval: (f64, f64),
    /// By how much the mean time would fall, in microseconds.
    pub mean_us: f64,
    /// The 99th percentile of the slowest kind of operation as measured, in microseconds; absent without a client. What it would be
    /// without the cause is not known: percentiles do not add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// Operations a second that would be served besides, where more are asked for than are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unserved_per_s: Option<f64>,
    /// How it was computed, as a sentence.
    pub basis: String,
}

impl Cost {
    /// Whether it is known to within a factor of two.
    pub fn is_known(&self) -> bool {
        let (low, high) = self.interval;
        low > 0.0 && high <= 2.0 * low
    }

    /// The cost with its interval as the end of a sentence.
    pub fn words(&self) -> String {
        let time = |us: f64| Nanos((us.max(0.0) * 1e3).round() as u64);
        let whole_us = if self.share > 0.0 { self.mean_us / self.share } else { 0.0 };
        let clock = match self.clock {
            Clock::Response => "response time",
            Clock::Service => "time from the send",
            Clock::Server => "time within the server",
        };
        let mut words = format!(
            "{} of the mean {clock} of {}, {:.0} % ({:.0} to {:.0} %)",
            time(self.mean_us),
            time(whole_us),
            100.0 * self.share,
            100.0 * self.interval.0,
            100.0 * self.interval.1
        );
        if let Some(unserved) = self.unserved_per_s.filter(|unserved| *unserved >= 1.0) {
            words.push_str(&format!(", and {} operations a second that are not served", count(unserved)));
        }
        words.push('.');
        words
    }
}
