//! A finding: one claim about the system under test, with its evidence, its cost to users, and the remedy.
//!
//! Evidence is a list of sentences with the numbers in them, because a finding without evidence is an opinion. A
//! question that cannot be decided is a finding of its own with [`Confidence::CannotTell`] and the data that would decide it.

use fathom_units::{Nanos, count};
use serde::{Deserialize, Serialize};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Correct; kept so that a reader sees that it was checked.
    Ok,
    /// Worth knowing, but needs no change.
    Note,
    /// Differs from advice, or limits performance.
    Warning,
    /// Risks data, or invalidates the measurement.
    Critical,
}

/// The worth of acting on a finding. The severity is the distance from the advice, and the priority is the cost of that distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// The vendor's advice; no effect was measured.
    Hygiene,
    /// Matters for a database on this host, or for this load.
    WorthDoing,
    /// Costs latency now, as measured, or puts data at risk now.
    Critical,
}

/// The confidence of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Read directly, or shown by a test that could have failed.
    Certain,
    /// The evidence fits, and rival causes were checked.
    Likely,
    /// The evidence does not decide; the finding says what would.
    CannotTell,
}

/// The examination that made a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingOrigin {
    /// The settings of the host were compared with advice; nothing was measured.
    Host,
    /// A probe of the disk.
    Disk,
    /// A server was watched, with the host under it.
    Server,
    /// The program that makes the load was watched.
    Client,
    /// Several members of a set or a cluster were compared.
    Set,
}

/// The gain of a change, as far as the evidence shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// The figure that would change (`mean latency of reads`).
    pub of: String,
    /// The decrease as a share of that figure, 0 to 1.
    pub share: f64,
    /// 95 % interval of that.
    pub interval: (f64, f64),
    /// The method of that computation, as a sentence.
    pub basis: String,
}

/// One claim with its evidence and the remedy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable kebab-case name (`readahead-too-large`), the same across versions.
    pub id: String,
    /// The severity of the finding.
    pub severity: Severity,
    /// The worth of acting on it, if its rule sets one; [`Finding::priority`] derives it otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The confidence of the finding.
    pub confidence: Confidence,
    /// The examination that made it; absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<FindingOrigin>,
    /// The claim as one sentence.
    pub claim: String,
    /// The evidence, a sentence each, with numbers and their sources.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// The advice, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// A command that follows the advice; printed, never run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The page, paper or ticket that is the source of the claim or advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The gain of following the advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<Gain>,
    /// Its cost to users, if it names a removable cause. Findings of a run are ranked by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The next reading to take for more certainty or detail.
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
            priority: None,
            confidence: Confidence::Certain,
            origin: None,
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

    /// Sets the confidence of the finding.
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

    /// Sets the advice as one sentence.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Sets the command that follows the advice.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Sets the source of the claim or advice.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Sets the gain of following the advice.
    #[must_use]
    pub fn gain(mut self, gain: Gain) -> Self {
        self.gain = Some(gain);
        self
    }

    /// Sets the cost to users.
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Sets the next reading to take.
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

    /// Sets the examination that made it, unless it is set.
    pub fn set_origin(&mut self, origin: FindingOrigin) {
        self.origin.get_or_insert(origin);
    }

    /// The examination that made it. For records of older versions it is derived: evidence of settings begins with the file that was read,
    /// and findings of a server rest on series.
    pub fn origin(&self) -> FindingOrigin {
        let is_read =
            |sentence: &String| ["/proc/", "/sys/", "/etc/"].iter().any(|root| sentence.starts_with(root));
        self.origin.unwrap_or_else(|| match self.series.is_empty() {
            _ if !self.evidence.is_empty() && self.evidence.iter().all(is_read) => FindingOrigin::Host,
            true => FindingOrigin::Disk,
            false => FindingOrigin::Server,
        })
    }

    /// Whether it rests only on settings of the host, and on no measurement.
    pub fn is_setting(&self) -> bool {
        self.origin() == FindingOrigin::Host
    }

    /// The worth of acting on it; `None` for a finding that asks for no action. A measured cost counts more than the severity that a rule
    /// gives. A setting that differs from the advice is hygiene unless its rule sets a higher priority.
    pub fn priority(&self) -> Option<Priority> {
        let is_costly = self.confidence != Confidence::CannotTell
            && self.cost.as_ref().is_some_and(|cost| cost.share >= MIN_COST_SHARE);
        match self.severity {
            Severity::Ok => None,
            _ if is_costly => Some(Priority::Critical),
            Severity::Note => None,
            _ if self.priority.is_some() => self.priority,
            Severity::Critical => Some(Priority::Critical),
            Severity::Warning if self.is_setting() => Some(Priority::Hygiene),
            Severity::Warning => Some(Priority::WorthDoing),
        }
    }

    /// Whether a script is notified of it by exit code 1.
    pub fn is_alarm(&self) -> bool {
        self.severity >= Severity::Warning
    }
}

/// A cause that costs at least this share of the mean response time holds the system back.
pub const MIN_COST_SHARE: f64 = 0.2;

/// The moment from which a cost counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyClock {
    /// From when an operation was due, so that the wait of operations that a stall delayed is included.
    Response,
    /// From the send of an operation.
    Service,
    /// From its arrival at the server; the client was not watched.
    Server,
}

/// The cost of a cause in the users' terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The moment from which the times below count.
    pub clock: LatencyClock,
    /// The share by which the mean time of an operation would fall without the cause, 0 to 1.
    pub share: f64,
    /// 95 % interval of that.
    pub interval: (f64, f64),
    /// The time by which the mean time would fall, in microseconds.
    pub mean_us: f64,
    /// The 99th percentile of the slowest kind of operation as measured, in microseconds; absent without a client. The percentile without
    /// the cause is not known: percentiles do not add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// Additional operations a second that would be served, if more are asked for than are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unserved_per_s: Option<f64>,
    /// The method of the computation, as a sentence.
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
            LatencyClock::Response => "response time",
            LatencyClock::Service => "time from the send",
            LatencyClock::Server => "time within the server",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_cost_earns_more_than_a_severity() {
        let finding = |severity| Finding::new("x", severity, "It is so.");
        let costs = |share: f64| Cost {
            clock: LatencyClock::Response,
            share,
            interval: (share, share),
            mean_us: 1.0,
            p99_us: None,
            unserved_per_s: None,
            basis: String::new(),
        };
        let setting = finding(Severity::Warning).evidence("/proc/sys/vm/swappiness = 60");
        let settled = Finding { priority: Some(Priority::WorthDoing), ..setting.clone() };
        let unsure = finding(Severity::Warning).cost(costs(0.5)).confidence(Confidence::CannotTell);
        for (finding, priority) in [
            (finding(Severity::Ok).cost(costs(0.5)), None),
            (finding(Severity::Note), None),
            (finding(Severity::Note).cost(costs(0.5)), Some(Priority::Critical)),
            (finding(Severity::Warning), Some(Priority::WorthDoing)),
            (finding(Severity::Warning).cost(costs(0.05)), Some(Priority::WorthDoing)),
            (finding(Severity::Warning).cost(costs(0.2)), Some(Priority::Critical)),
            (finding(Severity::Critical), Some(Priority::Critical)),
            (setting, Some(Priority::Hygiene)),
            (settled, Some(Priority::WorthDoing)),
            (unsure, Some(Priority::WorthDoing)),
        ] {
            assert_eq!(finding.priority(), priority, "{finding:#?}");
        }
    }

    #[test]
    fn a_finding_of_an_older_version_has_no_priority_of_its_own() {
        let old =
            r#"{"id":"a","severity":"warning","confidence":"certain","claim":"It is so.","evidence":[]}"#;
        let finding: Finding = serde_json::from_str(old).unwrap();
        assert_eq!((finding.priority, finding.priority()), (None, Some(Priority::WorthDoing)));
        assert!(!serde_json::to_string(&finding).unwrap().contains("priority"));
    }
}
