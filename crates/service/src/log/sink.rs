//! The destinations of log lines: standard output, a file, or none. An old file is moved aside, never overwritten.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use bson::DateTime;
use fathom_errors::{Error, Kind};

/// The effect of log rotation on the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogRotate {
    /// The old file gets the time as a suffix, and a new one begins.
    #[default]
    Rename,
    /// The file is reopened, because another program has moved it.
    Reopen,
}

/// The destination of log lines.
#[derive(Debug)]
pub(super) enum LogSink {
    Output,
    File(File, PathBuf),
    /// No output except the memory; for tests.
    Quiet,
}

impl LogSink {
    /// Opens a file, to which lines are appended, or which begins empty after an old one was moved aside.
    pub(super) fn file(path: &Path, append: bool) -> Result<LogSink, Error> {
        if !append {
            move_aside(path)?;
        }
        let file = File::options().create(true).append(true).open(path);
        let file = file.map_err(|error| Error::io("open the log", path, error))?;
        Ok(LogSink::File(file, path.to_owned()))
    }

    /// Begins a new file; standard output is not changed.
    pub(super) fn rotate(&mut self, how: LogRotate) -> Result<(), Error> {
        if let LogSink::File(_, path) = self {
            *self = LogSink::file(&path.clone(), how == LogRotate::Reopen)?;
        }
        Ok(())
    }

    pub(super) fn write(&mut self, line: &str) -> std::io::Result<()> {
        match self {
            LogSink::Quiet => Ok(()),
            LogSink::File(file, _) => file.write_all(format!("{line}\n").as_bytes()),
            LogSink::Output => std::io::stdout().write_all(format!("{line}\n").as_bytes()),
        }
    }
}

/// The maximum number of starts within one second that may each move a log aside.
const MAX_STARTS_PER_S: u32 = 100;

/// Appends the time to the name of an old log, as mongod does: `log.2026-11-21T15-20-46`. A number follows if a server was started
/// twice within a second, which mongod refuses.
fn move_aside(path: &Path) -> Result<(), Error> {
    // A pipe, /dev/null and other files that are not regular are written to as they are.
    let old = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0);
    if !old {
        return Ok(());
    }
    let time = DateTime::now().try_to_rfc3339_string().unwrap_or_default().replace(':', "-");
    let time = time.split('.').next().unwrap_or_default().trim_end_matches('Z');
    let target =
        (1..=MAX_STARTS_PER_S).map(|number| aside(path, time, number)).find(|target| !target.exists());
    let Some(target) = target else {
        let what = format!("cannot move the log {} aside: all names for {time} are taken", path.display());
        return Err(Error::new(Kind::Busy, what).advise("wait a second, or use --logappend"));
    };
    std::fs::rename(path, &target).map_err(|error| Error::io("move aside the log", path, error))
}

fn aside(path: &Path, time: &str, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{time}"));
    if number > 1 {
        name.push(format!("-{number}"));
    }
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that is restarted twice within a second keeps all its logs.
    #[test]
    fn logs_of_one_second_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mongod.log");
        for text in ["one", "two", "three"] {
            std::fs::write(&path, text).unwrap();
            move_aside(&path).unwrap();
        }
        let entries = std::fs::read_dir(folder.path()).unwrap().flatten();
        let mut kept: Vec<String> =
            entries.map(|entry| std::fs::read_to_string(entry.path()).unwrap()).collect();
        kept.sort();
        assert_eq!(kept, ["one", "three", "two"]);
        assert!(!path.exists());
    }
}
