//! A log to read: a file, standard input, or a copy of a file within an archive.
//!
//! Logs must be read in the order of time and archives have them in any order, so one within an archive is copied, compressed, to a temporary file
//! that has no name. Nothing else of an archive is written.

use std::fs::{self, File};
use std::io::{self, Cursor, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fathom_errors::{Error, Kind, Result};

use super::log_line::line_time_ms;
use super::log_lines::{LogLines, found_in_head};
use super::log_owner::LogOwner;

/// The number of bytes copied at a time.
const BUFFER_BYTES: usize = 1 << 18;
/// The bytes of a file in an archive that decide whether it is a log.
const HEAD_BYTES: u64 = 1 << 20;

/// A log to read.
#[derive(Clone, Debug)]
pub struct LogSource {
    path: PathBuf,
    copy: Option<Arc<LogCopy>>,
}

/// The contents of a log within an archive.
#[derive(Debug)]
struct LogCopy {
    file: File,
    /// Why the rest could not be read, in words.
    torn: Option<String>,
}

/// Reads a copy from its begin, whatever other readers of it do.
struct CopyReader {
    copy: Arc<LogCopy>,
    at: u64,
}

impl Read for CopyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.copy.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl From<PathBuf> for LogSource {
    /// A file; `-` is standard input.
    fn from(path: PathBuf) -> LogSource {
        LogSource { path, copy: None }
    }
}

impl LogSource {
    /// Copies a stream if it is a log, up to its end or to damage. `None` if it is no log, by its first lines.
    ///
    /// # Errors
    /// When the copy cannot be written.
    pub fn copied(path: PathBuf, contents: &mut dyn Read) -> Result<Option<LogSource>> {
        let mut head = Vec::new();
        let mut torn = (&mut *contents).take(HEAD_BYTES).read_to_end(&mut head).err();
        if !is_log_text(&head) {
            return Ok(None);
        }
        let unwritten = |cause| {
            Error::io("copy to a temporary file", &path, cause).advise("name a directory with room in TMPDIR")
        };
        let file = tempfile::tempfile().map_err(unwritten)?;
        let mut encoder = zstd::Encoder::new(file, 1).map_err(unwritten)?;
        encoder.write_all(&head).map_err(unwritten)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        while torn.is_none() {
            match contents.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    encoder.write_all(buffer.get(..read).unwrap_or_default()).map_err(unwritten)?;
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => torn = Some(cause),
            }
        }
        let file = encoder.finish().map_err(unwritten)?;
        let copy = LogCopy { file, torn: torn.map(|cause| cause.to_string()) };
        Ok(Some(LogSource { path, copy: Some(Arc::new(copy)) }))
    }

    /// Its path, in an archive too.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The process that wrote it, if one of its first lines says that.
    pub fn owner(&self) -> Option<LogOwner> {
        let lines = if self.is_readable_twice() { self.lines().ok()? } else { return None };
        found_in_head(lines, &mut LogOwner::from_line)
    }

    pub(super) fn is_readable_twice(&self) -> bool {
        self.copy.is_some() || fs::metadata(&self.path).is_ok_and(|found| found.is_file())
    }

    /// Why the copy lacks the end of the log, if it does.
    pub(super) fn torn(&self) -> Option<&str> {
        self.copy.as_ref()?.torn.as_deref()
    }

    /// Its lines, from the first one on.
    pub(super) fn lines(&self) -> Result<LogLines> {
        LogLines::new(self.open()?).map_err(|cause| Error::io("read the log", &self.path, cause))
    }

    fn open(&self) -> Result<Box<dyn Read>> {
        let path = self.path.as_path();
        if let Some(copy) = &self.copy {
            return Ok(Box::new(CopyReader { copy: Arc::clone(copy), at: 0 }));
        }
        if path == Path::new("-") {
            return Ok(Box::new(io::stdin()));
        }
        if fs::metadata(path).is_ok_and(|found| found.is_dir()) {
            let what = format!("{} is a directory, and a log is a file", path.display());
            return Err(Error::new(Kind::Usage, what).advise("name the files in it, like DIR/mongod.log*"));
        }
        let file = File::open(path).map_err(|cause| Error::io("read the log", path, cause))?;
        Ok(Box::new(file))
    }
}

/// Returns whether the first bytes of a stream are lines of a server's log.
pub fn is_log_text(head: &[u8]) -> bool {
    let lines = LogLines::new(Box::new(Cursor::new(head.to_vec())));
    lines.is_ok_and(|lines| found_in_head(lines, &mut line_time_ms).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "2026-11-21T05:35:53.472+0000 I CONTROL  [initandlisten] MongoDB starting : pid=7 port=27018 dbpath=/d 64-bit host=db1\n";

    struct TornReader;
    impl Read for TornReader {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("torn"))
        }
    }

    fn contents(log: &LogSource) -> String {
        let mut text = String::new();
        zstd::Decoder::new(log.open().unwrap()).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_copy_is_read_several_times_and_keeps_what_came_before_damage() {
        let text = LINE.repeat(20_000);
        let path = PathBuf::from("case.tar/mongod.log");
        let log = LogSource::copied(path.clone(), &mut text.as_bytes()).unwrap().unwrap();
        let mut half = log.open().unwrap();
        half.read_exact(&mut [0; 10]).unwrap();
        assert!(contents(&log) == text && contents(&log) == text);
        assert_eq!((log.path(), log.torn(), log.is_readable_twice()), (path.as_path(), None, true));
        assert_eq!(log.owner().unwrap().pid, Some(7));
        for length in [LINE.len(), text.len()] {
            let mut torn = text.as_bytes().take(length as u64).chain(TornReader);
            let log = LogSource::copied(path.clone(), &mut torn).unwrap().unwrap();
            assert_eq!((contents(&log).len(), log.torn()), (length, Some("torn")));
        }
    }

    #[test]
    fn other_files_and_archives_of_logs_are_no_logs() {
        let tar = [b"mongod.log\0\0\0ustar", LINE.as_bytes(), LINE.as_bytes()].concat();
        for text in [&b""[..], b"a note\n", b"PK\x03\x04\x14\0\n", &tar] {
            assert!(LogSource::copied(PathBuf::new(), &mut &text[..]).unwrap().is_none(), "{text:?}");
        }
        assert!(is_log_text(&[&[0; 600][..], b"\n", LINE.as_bytes()].concat()));
    }
}
