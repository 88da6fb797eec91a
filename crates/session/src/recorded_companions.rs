//! Logs and dumps near recordings: those within the same archives, and dumps in the folder of a recording and the two above it.
//!
//! They are found before anything is judged, so that the judge knows the facts that a recording lacks.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind};
use fathom_ftdc::{CompanionKind, RecordingFile, SearchEvent, ServerDump, ServerDumps, search_companions};
use fathom_monitor::{LogSource, is_log_text, logs_beside};

/// The endings of files that are opened without being named.
const DUMP_ENDINGS: [&str; 3] = ["json", "txt", "js"];
/// The most logs that are copied from archives. Each copy is an open file.
const MAX_LOGS: usize = 500;
/// The bytes of a file in an archive that decide whether it is a log.
const HEAD_BYTES: u64 = 1 << 20;
/// The name of a single file on standard input.
const STANDARD_INPUT: &str = "-";

/// Logs and dumps that were found near recordings.
#[derive(Debug, Default)]
pub struct RecordingCompanions {
    /// Logs within archives, in the order of the archives.
    pub logs: Vec<LogSource>,
    pub dumps: ServerDumps,
    /// The errors of logs that could not be copied.
    pub problems: Vec<Error>,
    directories: BTreeSet<String>,
    /// Whether standard input is a single file of a recording.
    is_piped_file: bool,
    /// The absolute paths of logs that stay in their places.
    log_names: BTreeSet<String>,
}

/// The use of logs that are found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LogUse {
    /// Those in archives are copied, to be read later.
    Copied,
    /// Their names are of interest.
    Named,
    Unused,
}

impl RecordingCompanions {
    /// Finds what lies near recordings, and reads the dumps that the user named.
    pub fn find(recordings: &[PathBuf], named_dumps: &[PathBuf]) -> RecordingCompanions {
        RecordingCompanions::search(recordings, named_dumps, LogUse::Copied)
    }

    /// The same without logs.
    pub fn find_dumps(recordings: &[PathBuf], named_dumps: &[PathBuf]) -> RecordingCompanions {
        RecordingCompanions::search(recordings, named_dumps, LogUse::Unused)
    }

    /// The same with the names of logs, none of which is copied.
    pub(crate) fn find_names(recordings: &[PathBuf]) -> RecordingCompanions {
        RecordingCompanions::search(recordings, &[], LogUse::Named)
    }

    fn search(recordings: &[PathBuf], named_dumps: &[PathBuf], log_use: LogUse) -> RecordingCompanions {
        let mut found = RecordingCompanions::default();
        for path in named_dumps {
            found.add_dump_at(path);
        }
        let mut in_archives: Vec<(String, ServerDump)> = Vec::new();
        let searched = search_companions(recordings, &mut |event| {
            match event {
                SearchEvent::File(file) if file.name == STANDARD_INPUT => found.is_piped_file = true,
                SearchEvent::File(file) => {
                    found.directories.insert(file.directory.to_owned());
                }
                SearchEvent::Companion(CompanionKind::Dump, file) => {
                    let name = path_of(&file).display().to_string();
                    in_archives.extend(ServerDump::read(file.contents).map(|dump| (name, dump)));
                }
                SearchEvent::Companion(CompanionKind::Log, file) => found.use_log(file, log_use),
                SearchEvent::End { .. } => {}
            }
            Ok(())
        });
        // An input that cannot be read is an error of the judgement, which reads it again.
        drop(searched);
        let named: Vec<PathBuf> = named_dumps.iter().filter_map(|path| path.canonicalize().ok()).collect();
        for directory in found.directories.clone() {
            let beside = dumps_beside(Path::new(&directory));
            beside.iter().filter(|path| !named.contains(path)).for_each(|path| found.add_dump_at(path));
            if log_use == LogUse::Named {
                let logs = logs_beside(Path::new(&directory));
                found.log_names.extend(logs.iter().map(|path| absolute(path)));
            }
        }
        in_archives.into_iter().for_each(|(file, dump)| found.dumps.add(file, dump));
        found.dumps.is_only_server = found.directories.len() + usize::from(found.is_piped_file) == 1;
        found
    }

    /// Whether logs were found, and no file of a recording.
    pub fn has_only_logs(&self) -> bool {
        self.directories.is_empty() && !self.is_piped_file && !self.logs.is_empty()
    }

    /// The absolute paths of the logs and dumps, which an import leaves in their places. `--redact` leaves out absolute paths.
    pub(crate) fn names(&self) -> Vec<String> {
        let dumps = self.dumps.files().map(|file| absolute(Path::new(file)));
        self.log_names.iter().cloned().chain(dumps).collect::<BTreeSet<String>>().into_iter().collect()
    }

    fn use_log(&mut self, file: RecordingFile<'_>, log_use: LogUse) {
        match log_use {
            LogUse::Copied => self.add_log(file),
            LogUse::Named => {
                let name = absolute(&path_of(&file));
                let mut head = Vec::new();
                // The beginning of a damaged file may show what it is.
                let _ = file.contents.take(HEAD_BYTES).read_to_end(&mut head);
                self.log_names.extend(is_log_text(&head).then_some(name));
            }
            LogUse::Unused => {}
        }
    }

    fn add_dump_at(&mut self, path: &Path) {
        let dump = File::open(path).ok().and_then(|mut file| ServerDump::read(&mut file));
        dump.into_iter().for_each(|dump| self.dumps.add(path.display().to_string(), dump));
    }

    fn add_log(&mut self, file: RecordingFile<'_>) {
        let path = path_of(&file);
        if self.logs.len() >= MAX_LOGS {
            let what = format!("{} was not read: archives hold more than {MAX_LOGS} logs", path.display());
            self.problems
                .push(Error::new(Kind::Unsupported, what).advise("name the ones of interest with --log"));
            return;
        }
        match LogSource::copied(path, file.contents) {
            Ok(log) => self.logs.extend(log),
            Err(error) => self.problems.push(error),
        }
    }
}

/// A path in an archive does not exist, so its symbolic links stay.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn path_of(file: &RecordingFile<'_>) -> PathBuf {
    Path::new(file.directory).join(file.name)
}

/// Text files in the folder of a recording and in the two above it, in the order of names.
fn dumps_beside(directory: &Path) -> Vec<PathBuf> {
    let Ok(whole) = directory.canonicalize() else { return Vec::new() };
    let folders = [Some(whole.as_path()), whole.parent(), whole.parent().and_then(Path::parent)];
    let is_text = |path: &PathBuf| {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        path.is_file() && ending.is_some_and(|ending| DUMP_ENDINGS.iter().any(|one| ending == *one))
    };
    let listed = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_text).collect();
        paths.sort();
        paths
    };
    folders.into_iter().flatten().flat_map(listed).collect()
}

#[cfg(test)]
mod tests {
    use fathom_ftdc::ServerFacts;

    use super::*;

    #[test]
    fn a_dump_next_to_the_recording_fills_in_what_it_lacks_if_it_is_of_its_host() {
        let folder = fathom_testkit::Scratch::new().unwrap();
        let folder = folder.path();
        let recording = folder.join("db/diagnostic.data");
        fs::create_dir_all(&recording).unwrap();
        fs::write(recording.join("metrics.interim"), "").unwrap();
        let status = |host: &str, version: &str| {
            format!(
                "{{ host: '{host}', version: '{version}', process: 'mongod', uptime: 5, wiredTiger: {{ cache: {{ 'maximum bytes configured': Long('1073741824') }} }} }}"
            )
        };
        fs::write(folder.join("db/a.json"), status("db2:27017", "1")).unwrap();
        fs::write(folder.join("db/status.json"), status("db1:27017", "4.0.3")).unwrap();
        fs::write(folder.join("db/other.json"), "{}").unwrap();
        fs::write(folder.join("db/binary.json"), [0; 600]).unwrap();
        let found = RecordingCompanions::find(&[recording], &[]);
        let mut facts = ServerFacts { hosts: vec!["db1".to_owned()], ..ServerFacts::default() };
        found.dumps.complete(&mut facts);
        assert_eq!(
            (facts.cache_bytes, facts.versions.as_slice()),
            (Some(1 << 30), &["4.0.3".to_owned()][..])
        );
        assert_eq!(facts.dumps.len(), 1, "{:?}", facts.dumps);
        assert_eq!(found.dumps.files().count(), 2);
    }
}
