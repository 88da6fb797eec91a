//! `manifest.json`: the command of a run, its environment, the version of the program, and the end of the run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::source_recording::SourceRecording;

/// The schema this version writes. Raise it when a reader of the last version would misread a folder, and keep a
/// fixture of the old one under `tests/fixtures/runs/`.
pub const SCHEMA: u32 = 1;

/// The prefix of notes in the environment; a number follows.
const NOTE: &str = "note.";

/// The end of a run, or its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// In progress, or killed: the folder has no end.
    Running,
    /// Ran to its end.
    Complete,
    /// Ended early by a signal, with what was measured until then.
    Interrupted,
    /// Ended by an error, which `error` contains.
    Failed,
}

/// The head of a run folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Schema version of the folder.
    pub schema: u32,
    /// Version of the program that wrote it.
    pub fathom_version: String,
    /// The verb (`disk`, `checkup`).
    pub verb: String,
    /// The command line, secrets removed.
    pub command_line: Vec<String>,
    /// When it started, RFC 3339 in UTC. All times in the folder count in nanoseconds from here, by the
    /// monotonic clock.
    pub started: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    pub state: State,
    /// The error that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The stable id of that error. Older versions recorded none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_id: Option<String>,
    /// The seed of every random stream.
    #[serde(default)]
    pub seed: u64,
    /// Facts about the machine and the storage under test.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The recording of a server from which the series are read. Other runs have files of readings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<SourceRecording>,
}

impl Manifest {
    /// A manifest for a run that starts now.
    pub fn new(verb: &str, version: &str, arguments: impl IntoIterator<Item = String>) -> Self {
        Manifest {
            schema: SCHEMA,
            fathom_version: version.to_owned(),
            verb: verb.to_owned(),
            command_line: crate::without_secrets(arguments),
            started: jiff::Timestamp::now().to_string(),
            finished: None,
            state: State::Running,
            error: None,
            error_id: None,
            seed: 0,
            environment: BTreeMap::new(),
            recording: None,
        }
    }

    /// Adds a note about what could not be read.
    pub fn add_note(&mut self, note: &str) {
        let number = self.environment.keys().filter(|key| key.starts_with(NOTE)).count();
        self.environment.insert(format!("{NOTE}{number:03}"), note.to_owned());
    }

    /// The notes, in the order in which they came.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for (_, note) in
            self.environment.range(NOTE.to_owned()..).take_while(|(key, _)| key.starts_with(NOTE))
        {
            // Two servers of a run, watched one after the other, may give the same note.
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_keep_their_order_and_are_said_once() {
        let mut manifest = Manifest::new("watch", "0.1.0", Vec::new());
        manifest.environment.insert("host.cpus".to_owned(), "2".to_owned());
        ["b", "a", "b"].iter().for_each(|note| manifest.add_note(note));
        assert_eq!(manifest.notes(), ["b", "a"]);
        assert_eq!(manifest.environment.len(), 4);
    }
}
