//! Reads log files as users keep them: several, rotated, compressed, or on standard input.

use std::fs;
use std::path::{Path, PathBuf};

use super::log_line::line_time_ms;
use super::log_lines::found_in_head;
use super::log_source::LogSource;

/// Returns whether a file holds lines of a server's log.
pub fn is_log(path: &Path) -> bool {
    path.is_file() && first_time_ms(&LogSource::from(path.to_owned())).is_some()
}

/// Finds logs near a recording, by the name that mongod's packages give them (`mongod.log` and its rotated files), sorted by name. They are
/// looked for in the folder of the recording, else in its parent, else in the parent of that.
pub fn logs_beside(recording: &Path) -> Vec<PathBuf> {
    // `..` of a symbolic link is not where the user sees it.
    let whole = recording.canonicalize().unwrap_or_else(|_| recording.to_owned());
    let is_named_so = |name: &str| name.starts_with("mongod.log") || name.starts_with("mongos.log");
    let logs_in = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let named = entries.filter(|entry| is_named_so(&entry.file_name().to_string_lossy()));
        let mut logs: Vec<PathBuf> = named.map(|entry| entry.path()).filter(|path| is_log(path)).collect();
        logs.sort();
        logs
    };
    let folders = [Some(whole.as_path()), whole.parent(), whole.parent().and_then(Path::parent)];
    folders.into_iter().flatten().map(logs_in).find(|logs| !logs.is_empty()).unwrap_or_default()
}

/// Sorts logs, rotated files by the time of their first lines. Standard input comes last, since it cannot be read twice.
pub(super) fn in_time_order(logs: &[LogSource]) -> Vec<LogSource> {
    let first = |log: &LogSource| match log.is_readable_twice() {
        true => first_time_ms(log).unwrap_or(i64::MAX),
        false => i64::MAX,
    };
    let mut timed: Vec<(i64, LogSource)> = logs.iter().map(|log| (first(log), log.clone())).collect();
    timed.sort_by_key(|(first, _)| *first);
    timed.into_iter().map(|(_, log)| log).collect()
}

fn first_time_ms(log: &LogSource) -> Option<i64> {
    found_in_head(log.lines().ok()?, &mut line_time_ms)
}
