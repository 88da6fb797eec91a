//! Recordings and logs on a command line, and their judgement, for `fathom explain` and `fathom report`.

use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_explain::recording::ClockOffset;
use fathom_ftdc::SampleFilter;
use fathom_monitor::{LogSource, is_log};
use fathom_session::{
    JudgedRecording, LogAssignment, MemberClock, RecordingCompanions, UnassignedLog, found_logs, host_of,
    judge_recordings, slow_operations_beside,
};
use fathom_units::count;

use crate::server_dumps::is_dump;

/// Recordings that were judged with their logs.
#[derive(Default)]
pub(crate) struct JudgedInputs {
    pub(crate) servers: Vec<JudgedRecording>,
    /// The errors of parts that could not be read, or were not.
    pub(crate) problems: Vec<Error>,
    /// Hosts and folders of logs, which these errors may name.
    pub(crate) log_hosts: Vec<String>,
    pub(crate) log_folders: Vec<String>,
    /// The logs, if the paths hold no recording.
    pub(crate) only_logs: Vec<LogSource>,
}

impl JudgedInputs {
    fn add_folders(&mut self, logs: &[LogSource]) {
        let folders = logs.iter().filter_map(|log| log.path().parent());
        let named = folders.map(|folder| folder.display().to_string()).filter(|folder| !folder.is_empty());
        self.log_folders.extend(named);
    }
}

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
            [device] if device.is_empty() => {
                return Err(
                    Error::usage("--device is empty").advise("name a disk of the recording, like sdb")
                );
            }
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

    fn has_standard_input(&self) -> bool {
        self.recordings.iter().any(|path| path == Path::new("-"))
    }

    /// Judges the recordings with their logs, or returns the logs if there is no recording.
    ///
    /// # Errors
    /// If an input cannot be read, and if a named log cannot be assigned to one of several servers.
    pub(crate) fn judge(&self, range_ms: RangeInclusive<i64>) -> Result<JudgedInputs> {
        let has_piped_log = self.logs.iter().any(|path| path == Path::new("-"));
        if self.has_standard_input() && has_piped_log {
            return Err(Error::usage("standard input can be read once, and two arguments name it"));
        }
        if self.recordings.is_empty() {
            let only_logs = self.logs.iter().cloned().map(LogSource::from).collect();
            return Ok(JudgedInputs { only_logs, ..JudgedInputs::default() });
        }
        // With logs that the user names, no others are read.
        let find = match self.logs.is_empty() {
            true => RecordingCompanions::find,
            false => RecordingCompanions::find_dumps,
        };
        let found = find(&self.recordings, &self.dumps);
        if found.has_only_logs() {
            let RecordingCompanions { logs: only_logs, problems, .. } = found;
            return Ok(JudgedInputs { only_logs, problems, ..JudgedInputs::default() });
        }
        let filter = SampleFilter::new(range_ms);
        let (servers, problems) =
            judge_recordings(&self.recordings, filter, self.device.as_deref(), &found.dumps)?;
        let mut judged = JudgedInputs { servers, problems, ..JudgedInputs::default() };
        judged.problems.extend(found.problems);
        let assigned = match self.logs.is_empty() {
            true => self.found_logs(found.logs, &mut judged),
            false => self.named_logs(&judged.servers)?,
        };
        let JudgedInputs { servers, problems, .. } = &mut judged;
        for (server, logs) in servers.iter_mut().zip(assigned).filter(|(_, logs)| !logs.is_empty()) {
            match slow_operations_beside(server, &logs) {
                // A log that was found by itself may be of another time.
                Ok((table, _)) if self.logs.is_empty() && table.count == 0 => {}
                Ok((table, more)) => {
                    server.slow_operations = Some(table);
                    problems.extend(more);
                }
                Err(error) if !self.logs.is_empty() => return Err(error),
                Err(error) => problems.push(error),
            }
        }
        Ok(judged)
    }

    /// The logs of each server among those in archives and near the recordings.
    fn found_logs(&self, in_archives: Vec<LogSource>, judged: &mut JudgedInputs) -> Vec<Vec<LogSource>> {
        // A file on standard input has no folder.
        let is_in_folder = |server: &&JudgedRecording| !self.has_standard_input() || server.directory != ".";
        let mut paths: Vec<PathBuf> =
            judged.servers.iter().filter(is_in_folder).flat_map(found_logs).collect();
        paths.sort();
        paths.dedup();
        let logs: Vec<LogSource> = paths.into_iter().map(LogSource::from).chain(in_archives).collect();
        judged.add_folders(&logs);
        let LogAssignment { of_servers, unassigned } = LogAssignment::new(&judged.servers, logs);
        for UnassignedLog { why, host } in unassigned {
            judged.log_hosts.extend(host);
            let note = Error::new(Kind::NotFound, why);
            judged.problems.push(note.advise("--log names it for the recording of one server"));
        }
        of_servers
    }

    /// The logs of each server among those that were named.
    fn named_logs(&self, servers: &[JudgedRecording]) -> Result<Vec<Vec<LogSource>>> {
        let mut logs: Vec<LogSource> = Vec::new();
        for path in &self.logs {
            let is_piped = path == Path::new("-") && servers.len() > 1;
            // It is read twice: who wrote it is in its first lines.
            let copied = match is_piped {
                true => LogSource::copied(path.clone(), &mut io::stdin().lock())?,
                false => None,
            };
            logs.push(copied.unwrap_or_else(|| LogSource::from(path.clone())));
        }
        if servers.len() == 1 {
            return Ok(vec![logs]);
        }
        let LogAssignment { of_servers, unassigned } = LogAssignment::new(servers, logs);
        match unassigned.into_iter().next() {
            None => Ok(of_servers),
            Some(UnassignedLog { why, .. }) => {
                Err(Error::usage(why).advise("name the recording of its server alone"))
            }
        }
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
