//! The comparison of two runs as plain data: the differences of their settings, machines and results.
//!
//! Each side is one run. A figure's interval comes from the parts of its own run. The difference between two runs of the same thing is not
//! known from them, so nothing here is proof of a cause.

use serde::{Deserialize, Serialize};

use crate::Severity;
use crate::figure::BetterDirection;
use crate::folders::Condition;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The run folder's name.
    pub name: String,
    pub verb: String,
    /// The time of its start, RFC 3339.
    pub started: String,
    pub state: Condition,
    /// The version of Fathom that made it.
    pub fathom_version: String,
    pub command_line: Vec<String>,
}

/// A setting or a fact that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactChange {
    pub name: String,
    /// The value in the first run, if it has one.
    pub a: Option<String>,
    /// The value in the second run, if it has one.
    pub b: Option<String>,
}

/// The variation of a figure within its own run: its Hodges-Lehmann estimate over parts of the run, and the 95 % interval of that.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunNoise {
    /// The number of parts of the run.
    pub parts: usize,
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

impl RunNoise {
    /// Half the interval over the estimate, in percent, at most 999.
    pub fn half_pct(&self) -> f64 {
        let half = (self.high - self.low) / 2.0;
        (half / self.estimate.abs().max(f64::MIN_POSITIVE) * 100.0).min(999.0)
    }
}

/// A figure of both runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureChange {
    /// The subject of the figure.
    pub subject: String,
    /// The name of the figure.
    pub metric: String,
    pub unit: String,
    /// The direction in which it is better.
    pub better: BetterDirection,
    /// The value in the first run.
    pub a: f64,
    /// The value in the second run.
    pub b: f64,
    /// The second value divided by the first; absent if the first is zero.
    pub ratio: Option<f64>,
    /// Noise within the first run, if its parts are available.
    pub noise_a: Option<RunNoise>,
    /// Noise within the second.
    pub noise_b: Option<RunNoise>,
    /// Whether the two differ by more than the noise within each, if that is known.
    pub beyond_noise: Option<bool>,
    /// The reason why the two get no verdict, if there is one: a server that fails operations may be faster for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
}

impl FigureChange {
    /// Whether the second is better; `None` if they are equal, or if the verdict is withheld.
    pub fn is_better(&self) -> Option<bool> {
        self.better.is_better(self.a, self.b).filter(|_| self.withheld.is_none())
    }
}

/// A finding that only one run has, or that is worse in one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FindingChange {
    pub id: String,
    /// The claim, from the second run if it has the finding.
    pub claim: String,
    /// The severity in the first run, if it was found there.
    pub a: Option<Severity>,
    /// The severity in the second run.
    pub b: Option<Severity>,
}

/// The comparison of two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub a: Side,
    pub b: Side,
    /// The reasons why the figures cannot be compared, or only with care, a sentence each; the gravest first.
    pub obstacles: Vec<String>,
    /// Parts of the command line that differ.
    pub settings: Vec<FactChange>,
    /// Facts of the machine that differ; those that identify another machine come first.
    pub environment: Vec<FactChange>,
    /// Figures that both have.
    pub figures: Vec<FigureChange>,
    /// Figures that only the first has, in words.
    pub only_a: Vec<String>,
    /// Figures that only the second has.
    pub only_b: Vec<String>,
    /// Findings that were gained or lost, or whose severity changed.
    pub findings: Vec<FindingChange>,
    /// The limits of the comparison, a sentence each.
    pub limits: Vec<String>,
}
