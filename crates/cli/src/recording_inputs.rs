//! Recordings and logs on a command line, and their judgement, for `fathom explain` and `fathom report`.

use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Result};
use fathom_explain::recording::ClockOffset;
use fathom_ftdc::SampleFilter;
use fathom_monitor::is_log;
use fathom_session::{
    JudgedRecording, MemberClock, found_logs, host_of, judge_recordings, slow_operations_beside,
};
use fathom_units::count;

use crate::server_dumps::{add_dumped_facts, is_dump};

/// The recordings to judge, and the logs of their server.
pub(crate) struct RecordingInputs {
    recordings: Vec<PathBuf>,
    logs: Vec<PathBuf>,
    /// Dumps of the server's status and settings.
    dumps: Vec<PathBuf>,
    /// The device of the database.
    device: Option<String>,
}

impl RecordingInputs {
    /// `None` if the paths name a run folder, or nothing that exists.
    pub(crate) fn from_paths(paths: &[PathBuf], named_logs: &[PathBuf]) -> Option<RecordingInputs> {
        let is_input = |path: &PathBuf| match path.try_exists() {
            _ if path == Path::new("-") => true,
            Ok(exists) => exists && !path.join("manifest.json").exists(),
            // A folder above it is closed. Reading it gives the error.
            Err(cause) => cause.kind() == ErrorKind::PermissionDenied,
        };
        if !paths.iter().all(is_input) {
            return None;
        }
        let (mut logs, others): (Vec<PathBuf>, Vec<PathBuf>) =
            paths.iter().cloned().partition(|path| is_log(path));
        let (dumps, mut recordings): (Vec<PathBuf>, Vec<PathBuf>) =
            others.into_iter().partition(|path| is_dump(path));
        for path in named_logs {
            // A path that follows --log on a command line may be the recording.
            if path.is_dir() { recordings.push(path.clone()) } else { logs.push(path.clone()) }
        }
        let device = None;
        (!recordings.is_empty() || !logs.is_empty()).then_some(RecordingInputs {
            recordings,
            logs,
            dumps,
            device,
        })
    }

    /// The same for servers whose database is on one of these devices.
    ///
    /// # Errors
    /// If several devices were named, or no recording.
    pub(crate) fn with_device(mut self, devices: &[String]) -> Result<RecordingInputs> {
        self.device = match devices {
            [] => None,
            [device] if !self.recordings.is_empty() => Some(device.clone()),
            [_] => return Err(Error::usage("--device is the disk of a recording, and only logs are named")),
            [_, second, ..] => {
                let what = format!("a recorded database has one disk, and {second} is a second one");
                return Err(Error::usage(what));
            }
        };
        Ok(self)
    }

    /// The logs, if no recording was named.
    pub(crate) fn only_logs(&self) -> Option<&[PathBuf]> {
        self.recordings.is_empty().then_some(&self.logs)
    }

    fn has_standard_input(&self) -> bool {
        self.recordings.iter().any(|path| path == Path::new("-"))
    }

    /// Judges the recordings with their logs. Also returns the errors of files that could not be read.
    ///
    /// # Errors
    /// If an input cannot be read, and if logs were named for the recordings of several servers.
    pub(crate) fn judge(&self, range_ms: RangeInclusive<i64>) -> Result<(Vec<JudgedRecording>, Vec<Error>)> {
        if self.has_standard_input() && self.logs.iter().any(|path| path == Path::new("-")) {
            return Err(Error::usage("standard input can be read once, and two arguments name it"));
        }
        let filter = SampleFilter::new(range_ms);
        let (mut servers, mut problems) = judge_recordings(&self.recordings, filter, self.device.as_deref())?;
        let is_only = servers.len() == 1;
        for server in &mut servers {
            add_dumped_facts(&mut server.facts, &server.directory, &self.dumps, is_only);
        }
        let is_named = !self.logs.is_empty();
        let [server] = servers.as_mut_slice() else {
            if is_named {
                let what = format!("--log is of one server, and the recordings are of {}", servers.len());
                return Err(Error::usage(what).advise("name the recording of one server"));
            }
            return Ok((servers, problems));
        };
        let logs = match is_named {
            true => self.logs.clone(),
            false if self.has_standard_input() => Vec::new(),
            false => found_logs(server),
        };
        if logs.is_empty() {
            return Ok((servers, problems));
        }
        match slow_operations_beside(server, &logs) {
            // A log that was found by itself may be of another time.
            Ok((table, _)) if !is_named && table.count == 0 => {}
            Ok((table, more)) => {
                server.slow_operations = Some(table);
                problems.extend(more);
            }
            Err(error) if is_named => return Err(error),
            Err(error) => problems.push(error),
        }
        Ok((servers, problems))
    }
}

/// How far the clocks of members are apart, a sentence for each member that others are compared with.
pub(crate) fn clock_sentences(servers: &[JudgedRecording]) -> Vec<String> {
    let mut compared: Vec<(&str, Vec<String>)> = Vec::new();
    for server in servers {
        let Some(MemberClock { reference, offset }) = &server.clock else { continue };
        let host = host_of(&server.facts, &server.directory);
        let words = format!("that of {host} {}", offset_words(*offset));
        match compared.iter_mut().find(|(one, _)| one == reference) {
            Some((_, members)) => members.push(words),
            None => compared.push((reference, vec![words])),
        }
    }
    let sentence = |(reference, members): (&str, Vec<String>)| {
        format!("Compared with the clock of {reference}, as heartbeats show it, {}.", members.join(", "))
    };
    compared.into_iter().map(sentence).collect()
}

/// `is 3 to 9 ms ahead`, `is equal within 5 ms`.
fn offset_words(ClockOffset { min_ms, max_ms }: ClockOffset) -> String {
    let range =
        |low_ms: i64, high_ms: i64| format!("{} to {} ms", count(low_ms as f64), count(high_ms as f64));
    match (min_ms, max_ms) {
        (1.., _) => format!("is {} ahead", range(min_ms, max_ms)),
        (_, ..=-1) => format!("is {} behind", range(-max_ms, -min_ms)),
        _ => format!("is equal within {} ms", count(max_ms.max(-min_ms).max(1) as f64)),
    }
}

/// A recorded process: `mongod 7.0.0 on db1:27017`.
pub(crate) fn process_of(server: &JudgedRecording) -> String {
    let facts = &server.facts;
    let mut name = facts.process.clone().unwrap_or_else(|| "mongod".to_owned());
    for (before, value) in [(" ", facts.versions.last()), (" on ", facts.hosts.last())] {
        if let Some(value) = value {
            name.push_str(before);
            name.push_str(value);
        }
    }
    name
}

/// The process, and the directory of its recording.
pub(crate) fn name_of(server: &JudgedRecording) -> String {
    format!("{} ({})", process_of(server), server.directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_ahead_behind_or_none() {
        let words = |min_ms, max_ms| offset_words(ClockOffset { min_ms, max_ms });
        assert_eq!(words(3, 9), "is 3 to 9 ms ahead");
        assert_eq!(words(-60_005, -60_001), "is 60,001 to 60,005 ms behind");
        assert_eq!(words(-2, 5), "is equal within 5 ms");
        assert_eq!(words(0, 0), "is equal within 1 ms");
    }
}
