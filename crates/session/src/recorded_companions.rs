//! Logs and dumps near recordings: those within the same archives, and dumps in the folder of a recording and the two above it.
//!
//! They are found before anything is judged, so that the judge knows the facts that a recording lacks.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_ftdc::{CompanionKind, RecordingFile, SearchEvent, ServerDump, ServerDumps, search_companions};
use fathom_monitor::{LogSource, is_log_text, logs_beside};

/// The endings of files that are opened without being named.
const DUMP_ENDINGS: [&str; 3] = ["json", "txt", "js"];
/// The most logs that are copied from archives. Each copy is an open file.
const MAX_LOGS: usize = 500;
/// The bytes of a file in an archive that decide whether it is a log.
const HEAD_BYTES: u64 = 1 << 20;

/// Logs and dumps that were found near recordings.
#[derive(Debug, Default)]
pub struct RecordingCompanions {
    /// Logs within archives, in the order of the archives.
    pub logs: Vec<LogSource>,
    pub dumps: ServerDumps,
    /// The errors of logs that could not be copied.
    pub problems: Vec<Error>,
    directories: BTreeSet<String>,
}

impl RecordingCompanions {
    /// Finds what lies near recordings, and reads the dumps that the user named. Standard input can be read once, so what an archive has there
    /// is not found.
    pub fn find(recordings: &[PathBuf], named_dumps: &[PathBuf]) -> RecordingCompanions {
        RecordingCompanions::search(recordings, named_dumps, true)
    }

    /// The same without logs.
    pub fn find_dumps(recordings: &[PathBuf], named_dumps: &[PathBuf]) -> RecordingCompanions {
        RecordingCompanions::search(recordings, named_dumps, false)
    }

    fn search(recordings: &[PathBuf], named_dumps: &[PathBuf], with_logs: bool) -> RecordingCompanions {
        let mut found = RecordingCompanions::default();
        for path in named_dumps {
            found.add_dump_at(path);
        }
        let mut in_archives: Vec<(String, ServerDump)> = Vec::new();
        let searched = search_companions(recordings, &mut |event| {
            match event {
                SearchEvent::File(file) => {
                    found.directories.insert(file.directory.to_owned());
                }
                SearchEvent::Companion(CompanionKind::Dump, file) => {
                    let name = path_of(&file).display().to_string();
                    in_archives.extend(ServerDump::read(file.contents).map(|dump| (name, dump)));
                }
                SearchEvent::Companion(CompanionKind::Log, file) if with_logs => found.add_log(file),
                SearchEvent::Companion(CompanionKind::Log, _) | SearchEvent::End { .. } => {}
            }
            Ok(())
        });
        // An input that cannot be read is an error of the judgement, which reads it again.
        drop(searched);
        let named: Vec<PathBuf> = named_dumps.iter().filter_map(|path| path.canonicalize().ok()).collect();
        for directory in found.directories.clone() {
            let beside = dumps_beside(Path::new(&directory));
            beside.iter().filter(|path| !named.contains(path)).for_each(|path| found.add_dump_at(path));
        }
        in_archives.into_iter().for_each(|(file, dump)| found.dumps.add(file, dump));
        let piped = recordings.iter().filter(|input| *input == Path::new("-")).count();
        found.dumps.is_only_server = found.directories.len() + piped == 1;
        found
    }

    /// Whether logs were found, and no file of a recording.
    pub fn has_only_logs(&self) -> bool {
        self.directories.is_empty() && !self.logs.is_empty()
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

/// The absolute paths of the logs and dumps near recordings, which an import leaves in their places. `--redact` leaves out absolute paths.
///
/// # Errors
/// If an input cannot be read at all.
pub(crate) fn companion_names(recordings: &[PathBuf]) -> Result<Vec<String>> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut directories: BTreeSet<String> = BTreeSet::new();
    search_companions(recordings, &mut |event| {
        match event {
            SearchEvent::File(file) => {
                directories.insert(file.directory.to_owned());
            }
            SearchEvent::Companion(kind, file) => {
                let name = absolute(&path_of(&file));
                let is_one = match kind {
                    CompanionKind::Dump => ServerDump::read(file.contents).is_some(),
                    CompanionKind::Log => {
                        let mut head = Vec::new();
                        // The beginning of a damaged file may show what it is.
                        let _ = file.contents.take(HEAD_BYTES).read_to_end(&mut head);
                        is_log_text(&head)
                    }
                };
                names.extend(is_one.then_some(name));
            }
            SearchEvent::End { .. } => {}
        }
        Ok(())
    })?;
    for directory in directories.iter().map(Path::new) {
        names.extend(logs_beside(directory).iter().map(|path| absolute(path)));
        let is_dump =
            |path: &PathBuf| File::open(path).ok().and_then(|mut file| ServerDump::read(&mut file)).is_some();
        let dumps = dumps_beside(directory).into_iter().filter(is_dump);
        names.extend(dumps.map(|path| absolute(&path)));
    }
    Ok(names.into_iter().collect())
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
