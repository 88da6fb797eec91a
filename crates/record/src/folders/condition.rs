//! How a run stands: what its manifest says, and whether somebody still writes it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{RunLock, State};

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// A living process writes it.
    Running,
    /// Nobody wrote an end, and nobody writes it any more.
    CutOff,
    /// Ran to its end.
    Complete,
    /// Ended early by a signal.
    Interrupted,
    /// Ended by an error.
    Failed,
}

impl Condition {
    /// Every one, with its word.
    pub const ALL: [(Condition, &'static str); 5] = [
        (Condition::Running, "running"),
        (Condition::CutOff, "cut off"),
        (Condition::Complete, "complete"),
        (Condition::Interrupted, "interrupted"),
        (Condition::Failed, "failed"),
    ];

    /// Of the folder whose manifest says `state`.
    pub(crate) fn of(state: State, folder: &Path) -> Condition {
        match state {
            State::Running if RunLock::is_taken(folder) => Condition::Running,
            State::Running => Condition::CutOff,
            State::Complete => Condition::Complete,
            State::Interrupted => Condition::Interrupted,
            State::Failed => Condition::Failed,
        }
    }

    /// In a word or two.
    pub fn word(self) -> &'static str {
        Condition::ALL.iter().find(|(one, _)| *one == self).map_or("", |(_, word)| word)
    }

    /// What a person means by `word`; hyphens and underscores are blanks.
    pub fn parse(word: &str) -> Option<Condition> {
        let word = word.to_ascii_lowercase().replace(['-', '_'], " ");
        Condition::ALL.iter().find(|(_, name)| *name == word).map(|(one, _)| *one)
    }
}
