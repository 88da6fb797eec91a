//! Whether a verdict is right: the cause first, and the cost within a quarter of what lifting the fault brings.

use serde::{Deserialize, Serialize};

use super::cell::{Cell, Operations};
use crate::faults::diagnosis::Diagnosis;

/// A cause that costs less holds nothing back.
const MIN_COST_SHARE: f64 = 0.2;
/// So far, as a part of the truth, may a claimed cost be off.
const MAX_ERROR: f64 = 0.25;
/// Where this part of the operations is not served, more are asked for than are served, and the mean grows with the time of the test.
const MIN_UNSERVED_SHARE: f64 = 0.05;

/// The measured truth of a cell, and what was said of the recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Truth {
    pub(crate) cell: String,
    /// Which recording of a control, from 0; the first has its bundle.
    #[serde(default)]
    pub(crate) repeat: u32,
    /// Mean time of an operation in windows without the fault, and with it, in microseconds; of a control on the fastest storage, and on its own.
    pub(crate) calm_us: f64,
    pub(crate) faulty_us: f64,
    pub(crate) calm_per_s: f64,
    pub(crate) faulty_per_s: f64,
    /// How the machine was disturbed meanwhile.
    pub(crate) disturbance: String,
    /// The verdict when it was recorded.
    #[serde(default)]
    pub(crate) said: Option<Answer>,
}

impl Truth {
    /// The share of the mean that lifting the fault removes.
    pub(crate) fn share(&self) -> f64 {
        if self.faulty_us > 0.0 { (1.0 - self.calm_us / self.faulty_us).max(0.0) } else { 0.0 }
    }

    /// Whether lifting the fault brings a fifth of the mean, or operations that are not served.
    pub(crate) fn holds_back(&self, cell: &Cell) -> bool {
        self.share() >= MIN_COST_SHARE || self.unserved_per_s(cell).is_some()
    }

    /// Operations a second that only lifting the fault serves, where the load has a rate.
    fn unserved_per_s(&self, cell: &Cell) -> Option<f64> {
        let unserved_per_s = self.calm_per_s - self.faulty_per_s;
        let matters = unserved_per_s > MIN_UNSERVED_SHARE * self.calm_per_s;
        (cell.load.has_rate() && matters).then_some(unserved_per_s)
    }
}

/// A verdict as far as it is scored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) outcome: String,
    pub(crate) cause: Option<String>,
    pub(crate) share: Option<f64>,
    interval: Option<(f64, f64)>,
    unserved_per_s: Option<f64>,
    /// The findings that name a cause for sure or likely, by their ids.
    #[serde(skip)]
    pub(crate) findings: Vec<String>,
}

impl Answer {
    pub(crate) fn new(diagnosis: &Diagnosis) -> Answer {
        let verdict = &diagnosis.document["verdict"];
        let cost = &verdict["cost"];
        let interval = cost["interval"][0].as_f64().zip(cost["interval"][1].as_f64());
        Answer {
            outcome: verdict["outcome"].as_str().unwrap_or_default().to_owned(),
            cause: verdict["cause"].as_str().map(str::to_owned),
            share: cost["share"].as_f64(),
            interval,
            unserved_per_s: cost["unserved_per_s"].as_f64(),
            findings: diagnosis.ids(),
        }
    }

    /// Whether the cost is given within a factor of two.
    fn is_known(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 0.0 && high <= 2.0 * low)
    }
}

/// How right it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Score {
    Right,
    /// The cause is right, and the cost is off.
    WrongCost,
    CannotTell,
    WrongCause,
    /// "Not held back" over a fault.
    Green,
    /// The load of a control is faster by a fifth on the fastest storage: it is none.
    NoControl,
    /// The fault cannot be made on this kind of machine, and nothing wrong was said.
    NotMade,
}

/// Scores an answer. `truth_of` finds the truth of another cell, by its name.
pub(crate) fn score<'t>(
    cell: &Cell,
    truth: &Truth,
    answer: &Answer,
    truth_of: impl Fn(&str) -> Option<&'t Truth>,
) -> Score {
    let is_held_back = truth.holds_back(cell);
    if cell.is_control() && is_held_back {
        return Score::NoControl;
    }
    match (answer.outcome.as_str(), is_held_back) {
        ("not_examined", _) if cell.load.operations == Operations::Nothing => Score::Right,
        ("cannot_tell" | "not_examined", _) if !cell.is_made() => Score::NotMade,
        ("cannot_tell" | "not_examined", _) => Score::CannotTell,
        ("not_held_back", false) => Score::Right,
        ("not_held_back", true) => Score::Green,
        (_, _) => {
            let cause = answer.cause.as_deref().unwrap_or_default();
            let lifted = cell.standing_cause().filter(|(standing, _)| *standing == cause);
            match lifted.map(|(_, name)| truth_of(name)) {
                _ if cell.causes.contains(&cause) => score_cost(cell, truth, answer),
                Some(Some(truth)) => score_cost(cell, truth, answer),
                _ => Score::WrongCause,
            }
        }
    }
}

/// Scores the cost of a right cause.
fn score_cost(cell: &Cell, truth: &Truth, answer: &Answer) -> Score {
    if !answer.is_known() {
        return Score::CannotTell;
    }
    let (said, is) = match truth.unserved_per_s(cell) {
        Some(unserved_per_s) => (answer.unserved_per_s.unwrap_or(0.0), unserved_per_s),
        None => (answer.share.unwrap_or(0.0), truth.share()),
    };
    let off = said / is.max(1e-9) - 1.0;
    if off.abs() <= MAX_ERROR { Score::Right } else { Score::WrongCost }
}

impl Score {
    /// The word of the table in the docs.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Score::Right => "right",
            Score::WrongCost => "right cause, wrong cost",
            Score::CannotTell => "cannot tell",
            Score::WrongCause => "wrong cause",
            Score::Green => "wrong: not held back",
            Score::NoControl => "no control: faster storage makes it faster",
            Score::NotMade => "fault not made here: cannot tell",
        }
    }

    /// All scores, the best first.
    const ALL: [Score; 7] = [
        Score::Right,
        Score::NotMade,
        Score::NoControl,
        Score::CannotTell,
        Score::WrongCost,
        Score::WrongCause,
        Score::Green,
    ];

    /// The inverse of [`Score::words`].
    pub(crate) fn from_words(words: &str) -> Option<Score> {
        Score::ALL.into_iter().find(|score| score.words() == words)
    }

    /// The order of scores, 0 for the best.
    pub(crate) fn rank(self) -> usize {
        Score::ALL.iter().position(|score| *score == self).unwrap_or(Score::ALL.len())
    }

    /// A verdict that must not be given.
    pub(crate) fn is_wrong(self) -> bool {
        matches!(self, Score::WrongCause | Score::Green)
    }
}

/// A line of the terminal's table.
pub(crate) fn row(cell: &Cell, truth: &Truth, answer: &Answer, score: Score) -> String {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let per_s = |count: Option<f64>| count.map_or_else(String::new, |count| format!(" {count:.0}/s"));
    format!(
        "{:<24} {score:<11} {:>8.2} ms -> {:>8.2} ms  true {:>5}{}  said {} {} {}{}\n",
        cell.name,
        truth.calm_us / 1000.0,
        truth.faulty_us / 1000.0,
        percent(truth.share()),
        per_s(truth.unserved_per_s(cell)),
        answer.outcome,
        answer.cause.as_deref().unwrap_or("-"),
        answer.share.map_or_else(String::new, percent),
        per_s(answer.unserved_per_s),
        score = format!("{score:?}"),
    )
}
