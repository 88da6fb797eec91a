//! The shape of a rule, and of what it says of one host.
//!
//! A rule is a row of data plus one function, so that the page of rules, the snapshot's list of files and the
//! verdicts come from one table and cannot disagree. A verdict refuses to be silent: a fact that cannot be read
//! becomes "cannot tell", with what would tell.

use fathom_record::{Confidence, Finding, Severity};

use super::Context;
use super::version::Versions;

/// Which hosts and servers a rule holds for.
#[derive(Clone, Copy, Debug)]
pub struct Applies {
    /// Versions of MongoDB.
    pub mongodb: Versions,
    /// Versions of the kernel.
    pub kernel: Versions,
    /// Machine names as `uname -m` gives them; none means all.
    pub architectures: &'static [&'static str],
}

impl Applies {
    /// Always.
    pub const ALWAYS: Applies = Applies { mongodb: Versions::ALL, kernel: Versions::ALL, architectures: &[] };

    /// For these versions of MongoDB, on every kernel.
    pub const fn mongodb(mongodb: Versions) -> Self {
        Applies { mongodb, ..Applies::ALWAYS }
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

    /// Whether the rule speaks to this host.
    pub fn to(&self, context: &Context) -> bool {
        self.mongodb.contains(context.mongodb.0)
            && self.kernel.contains(context.kernel_numbers())
            && (self.architectures.is_empty() || self.architectures.contains(&context.architecture.as_str()))
    }
}

/// One setting and what is wanted of it.
pub struct Rule {
    /// Stable kebab-case name; the id of its findings.
    pub id: &'static str,
    /// The setting in words.
    pub setting: &'static str,
    /// The files it reads, in the patterns of the module `snapshot`; also what a snapshot keeps.
    pub reads: &'static [&'static str],
    /// What is wanted, as a phrase.
    pub wants: &'static str,
    /// Where it holds.
    pub applies: Applies,
    /// How much a host that differs should worry.
    pub severity: Severity,
    /// The page that says so.
    pub page: &'static str,
    /// Looks, and says what it saw; nothing where the host has no such thing.
    pub check: fn(&Context) -> Vec<Verdict>,
}

/// How one look ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passes,
    Fails,
    At(Severity),
    CannotTell,
}

/// What a rule says of one host, or of one layer of it.
#[derive(Clone, Debug)]
pub struct Verdict {
    outcome: Outcome,
    confidence: Confidence,
    claim: String,
    evidence: Vec<String>,
    wanted: Option<String>,
    command: Option<String>,
}

impl Verdict {
    fn new(outcome: Outcome, claim: impl Into<String>) -> Self {
        let confidence = match outcome {
            Outcome::CannotTell => Confidence::CannotTell,
            _ => Confidence::Certain,
        };
        Verdict {
            outcome,
            confidence,
            claim: claim.into(),
            evidence: Vec::new(),
            wanted: None,
            command: None,
        }
    }

    /// As wanted.
    pub fn pass(claim: impl Into<String>) -> Self {
        Verdict::new(Outcome::Passes, claim)
    }

    /// Not as wanted: the rule's severity.
    pub fn fail(claim: impl Into<String>) -> Self {
        Verdict::new(Outcome::Fails, claim)
    }

    /// Worth knowing.
    pub fn note(claim: impl Into<String>) -> Self {
        Verdict::new(Outcome::At(Severity::Note), claim)
    }

    /// Not as wanted, of another severity than the rule's usual one.
    pub fn at(severity: Severity, claim: impl Into<String>) -> Self {
        Verdict::new(Outcome::At(severity), claim)
    }

    /// Could not be read; `what_would_tell` is a sentence.
    pub fn cannot_tell(claim: impl Into<String>, what_would_tell: impl Into<String>) -> Self {
        Verdict::new(Outcome::CannotTell, claim).wanted(what_would_tell)
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

    /// What to do, where the rule's own words do not fit.
    #[must_use]
    pub fn wanted(mut self, sentence: impl Into<String>) -> Self {
        self.wanted = Some(sentence.into());
        self
    }

    /// The command that would do it, one per line; printed, never run.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// The evidence fits, but was not shown by a test.
    #[must_use]
    pub fn likely(mut self) -> Self {
        self.confidence = Confidence::Likely;
        self
    }

    /// The finding that this verdict is under `rule`.
    pub fn into_finding(self, rule: &Rule) -> Finding {
        let severity = match self.outcome {
            Outcome::Passes => Severity::Ok,
            Outcome::Fails => rule.severity,
            Outcome::At(severity) => severity,
            Outcome::CannotTell => Severity::Note,
        };
        let advice = match self.outcome {
            Outcome::Fails => self.wanted.or_else(|| Some(format!("Wanted: {}.", rule.wants))),
            _ => self.wanted,
        };
        Finding {
            confidence: self.confidence,
            evidence: self.evidence,
            advice,
            command: self.command.filter(|_| self.outcome != Outcome::Passes),
            ..Finding::new(rule.id, severity, self.claim)
        }
        .source(rule.page)
    }
}
