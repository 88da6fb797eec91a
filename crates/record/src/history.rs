//! A figure over many runs, as plain data for a chart of its history: x is the start of the run, y the value with its interval,
//! and the changes of level have a state.

use serde::{Deserialize, Serialize};

use crate::figure::BetterDirection;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryPoint {
    /// The run folder's name.
    pub run: String,
    /// The time of its start, RFC 3339 in UTC.
    pub started: String,
    pub value: f64,
    /// The 95 % interval from the run's own parts, if they are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
}

/// The certainty of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeState {
    /// Passed every test with enough runs.
    Change,
    /// Too few runs to distinguish it from a series with memory, or one of so many series that some had to look changed by chance.
    Suspect,
}

/// A change of level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryChange {
    /// The index of the first point after it.
    pub index: usize,
    /// The first run after it.
    pub run: String,
    pub started: String,
    /// The median before the change.
    pub before: f64,
    /// The median from the change on.
    pub after: f64,
    /// Whether it is for the better.
    pub improved: bool,
    /// The p-value over all tests of the series (Holm).
    pub p: f64,
    /// The chance that a value after it lies on its side of a value before it.
    pub superiority: f64,
    /// The certainty of the change.
    pub state: ChangeState,
}

/// The conclusions that the number of points allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Too few values to judge.
    TooFew,
    Suspicion,
    Judgement,
}

/// The history of one figure: the same metric of the same subject, by the same command, on the same kind of machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The subject of the figure.
    pub subject: String,
    /// The name of the figure.
    pub metric: String,
    pub unit: String,
    /// The direction in which it is better.
    pub better: BetterDirection,
    /// The verb that measured it.
    pub verb: String,
    /// The command line that all points share, except for output locations.
    pub command: String,
    /// The machine in words, rounded so that a reboot does not change it.
    pub environment: String,
    /// The points, oldest first.
    pub points: Vec<HistoryPoint>,
    /// The changes, in order.
    pub changes: Vec<HistoryChange>,
    /// The conclusions that the number of points allows.
    pub reach: Reach,
    /// The share of the level below which a change does not count.
    pub noise_floor: f64,
}
