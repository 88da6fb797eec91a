//! Two runs beside each other, as plain data: what differs in how they were made, on what, and in what came of it.
//!
//! Each side is one run. A figure's interval is that of its own run's parts; what two runs of the same thing differ by is not known
//! from them, so nothing here is proof of a cause.

use serde::{Deserialize, Serialize};

use crate::Severity;
use crate::figure::Better;
use crate::folders::Condition;

/// One side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The run folder's name.
    pub name: String,
    /// The verb.
    pub verb: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// How it ended.
    pub state: Condition,
    /// The version of Fathom that made it.
    pub fathom_version: String,
    /// Its command line.
    pub command_line: Vec<String>,
}

/// A setting or a fact that is not the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueChange {
    /// What it is called.
    pub name: String,
    /// Of the first run; absent where it has none.
    pub a: Option<String>,
    /// Of the second.
    pub b: Option<String>,
}

/// What a figure does within its own run: its Hodges-Lehmann estimate over parts of the run, and 95 % of that.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunNoise {
    /// Parts of the run.
    pub parts: usize,
    /// The estimate.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl RunNoise {
    /// Half the interval over the estimate, in percent; 999 where it would be more.
    pub fn half_pct(&self) -> f64 {
        let half = (self.high - self.low) / 2.0;
        (half / self.estimate.abs().max(f64::MIN_POSITIVE) * 100.0).min(999.0)
    }
}

/// A figure of both runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureChange {
    /// What it was measured of.
    pub subject: String,
    /// What was measured.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// Of the first run.
    pub a: f64,
    /// Of the second.
    pub b: f64,
    /// The second over the first; absent where the first is zero.
    pub ratio: Option<f64>,
    /// Noise within the first run, where its parts can be had.
    pub noise_a: Option<RunNoise>,
    /// Noise within the second.
    pub noise_b: Option<RunNoise>,
    /// Whether the two differ by more than the noise within each; absent where that is not known.
    pub beyond_noise: Option<bool>,
}

/// A finding that only one run has, or that is worse in one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FindingChange {
    /// Its stable name.
    pub id: String,
    /// The claim, of the second run where it has it.
    pub claim: String,
    /// How bad in the first run; absent where it was not found.
    pub a: Option<Severity>,
    /// How bad in the second.
    pub b: Option<Severity>,
}

/// Two runs beside each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The first.
    pub a: Side,
    /// The second.
    pub b: Side,
    /// Why the figures cannot be compared, or only with care, a sentence each; the gravest first.
    pub obstacles: Vec<String>,
    /// Parts of the command line that differ.
    pub settings: Vec<ValueChange>,
    /// Facts of the machine that differ; what makes another machine of it first.
    pub environment: Vec<ValueChange>,
    /// Figures that both have.
    pub figures: Vec<FigureChange>,
    /// Figures that only the first has, in words.
    pub only_a: Vec<String>,
    /// Figures that only the second has.
    pub only_b: Vec<String>,
    /// Findings gained, lost, or of another weight.
    pub findings: Vec<FindingChange>,
    /// What the comparison can and cannot say, a sentence each.
    pub limits: Vec<String>,
}
