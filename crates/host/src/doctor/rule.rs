//! The types of a rule and of its verdict on one host.
//!
//! A rule is a row of data plus one function, so that the page of rules, the snapshot's list of files and the verdicts
//! come from one table and cannot disagree. A verdict is never silent: a fact that cannot be read becomes "cannot
//! tell", with the means to find out.

use fathom_record::{Confidence, Finding, FindingOrigin, Priority, Severity};

use super::Context;
use super::change::Change;
use super::version::Versions;

/// The hosts and servers that a rule applies to.
#[derive(Clone, Copy, Debug)]
pub struct RuleScope {
    pub mongodb: Versions,
    /// Versions of the kernel.
    pub kernel: Versions,
    /// Machine names as `uname -m` gives them; an empty list means all.
    pub architectures: &'static [&'static str],
}

impl RuleScope {
    pub const ALWAYS: RuleScope =
        RuleScope { mongodb: Versions::ALL, kernel: Versions::ALL, architectures: &[] };

    /// For these versions of MongoDB, on every kernel.
    pub const fn mongodb(mongodb: Versions) -> Self {
        RuleScope { mongodb, ..RuleScope::ALWAYS }
    }

    /// On these machines only.
    #[must_use]
    pub const fn on(mut self, architectures: &'static [&'static str]) -> Self {
        self.architectures = architectures;
        self
    }

    /// On these kernels only.
    #[must_use]
    pub const fn kernel(mut self, kernel: Versions) -> Self {
        self.kernel = kernel;
        self
    }

    /// Returns whether the rule speaks to this host.
    pub fn to(&self, context: &Context) -> bool {
        self.mongodb.contains(context.mongodb.0)
            && self.kernel.contains(context.kernel_numbers())
            && (self.architectures.is_empty() || self.architectures.contains(&context.architecture.as_str()))
    }
}

/// One setting and its recommendation.
pub struct DoctorRule {
    /// Stable kebab-case name; the id of its findings.
    pub id: &'static str,
    /// The setting in words.
    pub setting: &'static str,
    /// The files it reads, in the patterns of the module `snapshot`; also what a snapshot keeps.
    pub reads: &'static [&'static str],
    /// The recommendation, as a phrase.
    pub wants: &'static str,
    /// The hosts and servers that it holds for.
    pub applies: RuleScope,
    /// The severity of a host that differs.
    pub severity: Severity,
    /// The priority of the change on a host that differs.
    pub priority: Priority,
    /// The reason, as a sentence.
    pub reason: &'static str,
    /// The page that advises it.
    pub page: &'static str,
    /// Checks the host; returns nothing if the host has no such thing.
    pub check: fn(&Context) -> Vec<RuleVerdict>,
}

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckOutcome {
    Passes,
    Fails,
    At(Severity),
    CannotTell,
}

/// The verdict of a rule on one host, or on one layer of it.
#[derive(Clone, Debug)]
pub struct RuleVerdict {
    outcome: CheckOutcome,
    confidence: Confidence,
    claim: String,
    evidence: Vec<String>,
    wanted: Option<String>,
    priority: Option<Priority>,
    change: Option<Box<Change>>,
}

impl RuleVerdict {
    fn new(outcome: CheckOutcome, claim: impl Into<String>) -> Self {
        let confidence = match outcome {
            CheckOutcome::CannotTell => Confidence::CannotTell,
            _ => Confidence::Certain,
        };
        RuleVerdict {
            outcome,
            confidence,
            claim: claim.into(),
            evidence: Vec::new(),
            wanted: None,
            priority: None,
            change: None,
        }
    }

    /// The setting is as it should be.
    pub fn pass(claim: impl Into<String>) -> Self {
        RuleVerdict::new(CheckOutcome::Passes, claim)
    }

    /// The setting is not as wanted; has the rule's severity.
    pub fn fail(claim: impl Into<String>) -> Self {
        RuleVerdict::new(CheckOutcome::Fails, claim)
    }

    /// A remark that needs no action.
    pub fn note(claim: impl Into<String>) -> Self {
        RuleVerdict::new(CheckOutcome::At(Severity::Note), claim)
    }

    /// The setting is not as wanted; has another severity than the rule's.
    pub fn at(severity: Severity, claim: impl Into<String>) -> Self {
        RuleVerdict::new(CheckOutcome::At(severity), claim)
    }

    /// The setting could not be read; `what_would_tell` is a sentence.
    pub fn cannot_tell(claim: impl Into<String>, what_would_tell: impl Into<String>) -> Self {
        RuleVerdict::new(CheckOutcome::CannotTell, claim).wanted(what_would_tell)
    }

    /// Adds a value and the file it was read from.
    #[must_use]
    pub fn read(mut self, path: &str, value: impl AsRef<str>) -> Self {
        self.evidence.push(format!("/{path} = {}", value.as_ref().trim()));
        self
    }

    /// Adds a sentence of evidence.
    #[must_use]
    pub fn evidence(mut self, sentence: impl Into<String>) -> Self {
        self.evidence.push(sentence.into());
        self
    }

    /// The recommendation of this verdict, if the rule's own words do not fit.
    #[must_use]
    pub fn wanted(mut self, sentence: impl Into<String>) -> Self {
        self.wanted = Some(sentence.into());
        self
    }

    /// Adds the commands that would make the change. They are printed, never run.
    #[must_use]
    pub(super) fn change(mut self, change: Change) -> Self {
        self.change = Some(Box::new(change));
        self
    }

    /// Overrides the priority of the rule.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Marks evidence that fits but was not shown by a test.
    #[must_use]
    pub fn likely(mut self) -> Self {
        self.confidence = Confidence::Likely;
        self
    }

    /// The finding that this verdict is under `rule`.
    pub fn into_finding(self, rule: &DoctorRule) -> Finding {
        let severity = match self.outcome {
            CheckOutcome::Passes => Severity::Ok,
            CheckOutcome::Fails => rule.severity,
            CheckOutcome::At(severity) => severity,
            CheckOutcome::CannotTell => Severity::Note,
        };
        let advice = match self.outcome {
            CheckOutcome::Fails => self.wanted.or_else(|| Some(format!("Recommended: {}.", rule.wants))),
            _ => self.wanted,
        };
        let priority = match self.outcome {
            CheckOutcome::Fails => self.priority.or(Some(rule.priority)),
            CheckOutcome::At(Severity::Critical) => Some(Priority::Critical),
            CheckOutcome::At(_) => self.priority,
            CheckOutcome::Passes | CheckOutcome::CannotTell => None,
        };
        let change = self.change.filter(|_| self.outcome != CheckOutcome::Passes);
        Finding {
            confidence: self.confidence,
            // A note asks for nothing.
            priority: priority.filter(|_| severity >= Severity::Warning),
            origin: Some(FindingOrigin::Host),
            evidence: self.evidence,
            advice,
            command: change.as_deref().and_then(Change::commands),
            undo: change.as_deref().and_then(Change::undo),
            ..Finding::new(rule.id, severity, self.claim)
        }
        .source(rule.page)
    }
}
