//! The verdict on a run: whether something holds the system back, the cause, and its cost to users.
//!
//! There are four outcomes. Only one is good news, and it needs evidence: the layers that were examined, and the remaining headroom.

use serde::{Deserialize, Serialize};

use crate::Confidence;
pub use crate::finding::{Cost, LatencyClock, MIN_COST_SHARE};

/// The result of judging a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A named cause makes operations slower, or fewer, by at least [`MIN_COST_SHARE`].
    HeldBack,
    /// No removable cause has an effect that large, as shown for each part of an operation's time.
    NotHeldBack,
    /// Something may hold it back, and the readings do not decide.
    CannotTell,
    /// There are no readings that could be judged.
    NotExamined,
}

impl Outcome {
    /// The exit code of a program that gives it: 0 not held back, 1 held back by a named cause, 4 neither.
    pub fn exit_code(self) -> u8 {
        match self {
            Outcome::NotHeldBack => 0,
            Outcome::HeldBack => 1,
            Outcome::CannotTell | Outcome::NotExamined => 4,
        }
    }

    /// The order of several outcomes, the worst first.
    pub(crate) fn rank(self) -> u8 {
        match self {
            Outcome::HeldBack => 0,
            Outcome::CannotTell => 1,
            Outcome::NotHeldBack => 2,
            Outcome::NotExamined => 3,
        }
    }
}

/// The part of the system that a cause belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// The devices, the file systems on them and the limits in front of them.
    Storage,
    /// The engine's cache and the work it leaves to operations.
    Cache,
    /// Processors, and limits on their use.
    Processors,
    /// The server itself: tickets, locks, a stop.
    Server,
    /// The program that makes the load: its processors, its connections.
    Client,
    /// The network between client and server.
    Network,
    /// Other members of the replica set.
    Members,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The outcome of the judgement.
    pub outcome: Outcome,
    /// The verdict in one sentence.
    pub sentence: String,
    /// The id of the finding that names the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The part of the system that the cause belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Domain>,
    /// The cost of the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The confidence of the verdict.
    pub confidence: Confidence,
    /// The layers examined, or the reasons why no cause can be named; one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The remedy, or the measurement that would decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// True for a deployment that was watched. In a run with capacities the other verdicts are those of closed loops, which are meant to be
    /// held back and do not decide the verdict of the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_deployment: bool,
}

impl Verdict {
    /// A likely verdict in one sentence, without any other content yet.
    pub fn new(outcome: Outcome, sentence: impl Into<String>) -> Verdict {
        Verdict {
            outcome,
            sentence: sentence.into(),
            cause: None,
            domain: None,
            cost: None,
            confidence: Confidence::Likely,
            reasons: Vec::new(),
            next: None,
            is_of_deployment: false,
        }
    }

    /// The worst of several verdicts: held back, then cannot tell, then not held back, then not examined. Of two that
    /// are as bad the first counts.
    pub fn worst(verdicts: impl IntoIterator<Item = Verdict>) -> Option<Verdict> {
        verdicts.into_iter().min_by_key(|verdict| verdict.outcome.rank())
    }

    /// The exit code of a program that gives it: 0 not held back, 1 held back by a named cause, 4 neither.
    pub fn exit_code(&self) -> u8 {
        self.outcome.exit_code()
    }

    /// Whether storage holds the system back.
    pub fn is_storage(&self) -> bool {
        self.outcome == Outcome::HeldBack && self.domain == Some(Domain::Storage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shown_absence_is_zero() {
        let code = |outcome| Verdict::new(outcome, "").exit_code();
        assert_eq!(
            [Outcome::NotHeldBack, Outcome::HeldBack, Outcome::CannotTell, Outcome::NotExamined].map(code),
            [0, 1, 4, 4]
        );
    }

    #[test]
    fn a_cost_is_known_within_a_factor_of_two() {
        let cost = |low, high| Cost {
            clock: LatencyClock::Response,
            share: low,
            interval: (low, high),
            mean_us: 1.0,
            p99_us: None,
            unserved_per_s: None,
            basis: String::new(),
        };
        assert!(cost(0.3, 0.6).is_known() && !cost(0.3, 0.61).is_known() && !cost(0.0, 0.0).is_known());
    }
}
