//! A figure over many runs, as plain data: what a chart of its history needs (x the start of the run, y the value with its interval,
//! and the changes of level with their state).

use serde::{Deserialize, Serialize};

use crate::figure::Better;

/// One run's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryPoint {
    /// The run folder's name.
    pub run: String,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// The value.
    pub value: f64,
    /// 95 % of it by the run's own parts, where they can be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
}

/// How sure a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeState {
    /// Passed every test with enough runs.
    Change,
    /// Too few runs to tell it from a series that remembers itself, or one of so many series that some had to look so.
    Suspect,
}

/// A change of level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryChange {
    /// The index of the first point after it.
    pub index: usize,
    /// The first run after it.
    pub run: String,
    /// When that began.
    pub started: String,
    /// Median before it.
    pub before: f64,
    /// Median from it on.
    pub after: f64,
    /// Whether it is for the better.
    pub improved: bool,
    /// p over all tests of the series (Holm).
    pub p: f64,
    /// The chance that a value after it lies on its side of one before.
    pub superiority: f64,
    /// How sure it is.
    pub state: ChangeState,
}

/// What so many points let one say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Nothing.
    TooFew,
    /// Suspicions.
    Suspicion,
    /// Changes.
    Judgement,
}

/// The history of one figure: the same metric of the same subject, by the same command, on the same kind of machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// What it was measured of.
    pub subject: String,
    /// What was measured.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// The verb that measured it.
    pub verb: String,
    /// The command line that all points share, but for where things go.
    pub command: String,
    /// The machine in words, rounded so that a reboot does not change it.
    pub environment: String,
    /// The points, oldest first.
    pub points: Vec<HistoryPoint>,
    /// The changes, in order.
    pub changes: Vec<HistoryChange>,
    /// What so many points let one say.
    pub reach: Reach,
    /// The share of the level below which a change counts as none.
    pub noise_floor: f64,
}
