//! Whether a verdict is right: the cause first, and the cost within a quarter of what lifting the fault brings.

use serde::{Deserialize, Serialize};

use super::cells::Cell;
use crate::faults::diagnosis::Diagnosis;

/// A cause that costs less holds nothing back.
const MIN_COST_SHARE: f64 = 0.2;
/// So far, as a part of the truth, may a claimed cost be off.
const MAX_ERROR: f64 = 0.25;

/// The measured truth of a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Truth {
    pub(crate) cell: String,
    /// Mean time of an operation in windows without the fault, and with it, in microseconds.
    pub(crate) calm_us: f64,
    pub(crate) faulty_us: f64,
    pub(crate) calm_per_s: f64,
    pub(crate) faulty_per_s: f64,
    /// How the machine was disturbed meanwhile.
    pub(crate) disturbance: String,
}

impl Truth {
    /// The share of the mean that lifting the fault removes.
    pub(crate) fn share(&self) -> f64 {
        (1.0 - self.calm_us / self.faulty_us).max(0.0)
    }
}

/// A verdict as far as it is scored.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    outcome: String,
    cause: Option<String>,
    share: Option<f64>,
    interval: Option<(f64, f64)>,
}

impl Answer {
    pub(crate) fn of(diagnosis: &Diagnosis) -> Answer {
        let verdict = &diagnosis.document["verdict"];
        let cost = &verdict["cost"];
        let interval = cost["interval"][0].as_f64().zip(cost["interval"][1].as_f64());
        Answer {
            outcome: verdict["outcome"].as_str().unwrap_or_default().to_owned(),
            cause: verdict["cause"].as_str().map(str::to_owned),
            share: cost["share"].as_f64(),
            interval,
        }
    }

    /// Whether the cost is given within a factor of two.
    fn is_known(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 0.0 && high <= 2.0 * low)
    }
}

/// How right it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Score {
    Right,
    /// The cause is right, and the cost is off.
    WrongCost,
    CannotTell,
    WrongCause,
    /// "Not held back" over a fault.
    Green,
}

/// Scores an answer.
pub(crate) fn score(cell: &Cell, truth: &Truth, answer: &Answer) -> Score {
    let is_held_back = !cell.is_control() && truth.share() >= MIN_COST_SHARE;
    match (answer.outcome.as_str(), is_held_back) {
        ("cannot_tell" | "not_examined", _) => Score::CannotTell,
        ("not_held_back", false) => Score::Right,
        ("not_held_back", true) => Score::Green,
        (_, _) if !answer.cause.as_deref().is_some_and(|cause| cell.causes.contains(&cause)) => {
            Score::WrongCause
        }
        (_, _) if !answer.is_known() => Score::CannotTell,
        (_, _) => {
            let off = answer.share.unwrap_or(0.0) / truth.share().max(1e-9) - 1.0;
            if off.abs() <= MAX_ERROR { Score::Right } else { Score::WrongCost }
        }
    }
}

/// A line of the table.
pub(crate) fn row(cell: &Cell, truth: &Truth, answer: &Answer, score: Score) -> String {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    format!(
        "{:<22} {score:<11} {:>8.2} ms -> {:>8.2} ms  true {:>5}  said {} {} {}\n",
        cell.name,
        truth.calm_us / 1000.0,
        truth.faulty_us / 1000.0,
        percent(truth.share()),
        answer.outcome,
        answer.cause.as_deref().unwrap_or("-"),
        answer.share.map_or_else(String::new, percent),
        score = format!("{score:?}"),
    )
}
