//! A log file that is followed from its end, across rotation (a new file under the name) and truncation.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// As much as is read at a time; a log that grows faster is not read as a whole.
const READ_BYTES: usize = 8 << 20;
/// A line that is longer is passed over: mongod cuts its own far below (`maxLogSizeKB`, 10 by default).
const LINE_BYTES: usize = 1 << 20;

/// Lines as they come, and what was passed over.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Whole lines without their ends.
    pub(crate) lines: Vec<Vec<u8>>,
    /// Bytes that were not read since the log grew too fast, and lines that were too long.
    pub(crate) passed_over_bytes: u64,
}

/// A file that is followed.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    /// How far it was read.
    at: u64,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
    /// Whether the line that is under way is passed over: too long, or begun before we came.
    skips: bool,
}

impl LogFile {
    /// Opens it at its end: what is there already is of before the run.
    pub(crate) fn open(path: &Path) -> io::Result<LogFile> {
        let mut file = File::open(path)?;
        let at = file.seek(SeekFrom::End(0))?;
        let mut last = [b'\n'];
        if at > 0 {
            file.seek(SeekFrom::Start(at - 1))?;
            file.read_exact(&mut last)?;
        }
        Ok(LogFile { path: path.to_owned(), file, at, begun: Vec::new(), skips: last != [b'\n'] })
    }

    /// The lines that came since the last time.
    pub(crate) fn read(&mut self) -> io::Result<Lines> {
        let mut lines = Lines::default();
        self.read_on(&mut lines)?;
        let is_replaced = match (std::fs::metadata(&self.path), self.file.metadata()) {
            (Ok(named), Ok(open)) => (named.dev(), named.ino()) != (open.dev(), open.ino()),
            // Between the renaming of the old file and the making of the new one.
            _ => false,
        };
        if is_replaced {
            // The old one may have got its last lines while we looked.
            self.read_on(&mut lines)?;
            self.file = File::open(&self.path)?;
            self.start_anew();
            self.read_on(&mut lines)?;
        }
        Ok(lines)
    }

    fn start_anew(&mut self) {
        self.at = 0;
        self.begun.clear();
        self.skips = false;
    }

    fn read_on(&mut self, lines: &mut Lines) -> io::Result<()> {
        let size = self.file.metadata()?.len();
        if size < self.at {
            self.start_anew();
        }
        let new = size - self.at;
        if new > READ_BYTES as u64 {
            let passed = new - READ_BYTES as u64;
            lines.passed_over_bytes += passed;
            self.at += passed;
            self.begun.clear();
            self.skips = true;
        }
        self.file.seek(SeekFrom::Start(self.at))?;
        let mut chunk = Vec::new();
        (&mut self.file).take(READ_BYTES as u64).read_to_end(&mut chunk)?;
        self.at += chunk.len() as u64;
        self.split(&chunk, lines);
        Ok(())
    }

    fn split(&mut self, chunk: &[u8], lines: &mut Lines) {
        let mut pieces = chunk.split(|byte| *byte == b'\n');
        let last = pieces.next_back().unwrap_or_default();
        for piece in pieces {
            self.extend(piece, lines);
            let line = std::mem::take(&mut self.begun);
            if !std::mem::take(&mut self.skips) && !line.is_empty() {
                lines.lines.push(line);
            }
        }
        self.extend(last, lines);
    }

    fn extend(&mut self, piece: &[u8], lines: &mut Lines) {
        if self.skips {
            return;
        }
        if self.begun.len() + piece.len() > LINE_BYTES {
            lines.passed_over_bytes += (self.begun.len() + piece.len()) as u64;
            self.begun.clear();
            self.skips = true;
        } else {
            self.begun.extend_from_slice(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn texts(lines: &Lines) -> Vec<String> {
        lines.lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    fn append(path: &Path, text: &[u8]) {
        fs::OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text).unwrap();
    }

    #[test]
    fn it_is_followed_from_its_end_across_rotation_and_truncation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        append(&path, b"old\nhalf of one");
        let mut log = LogFile::open(&path).unwrap();
        append(&path, b" that began before\nfirst\nsec");
        assert_eq!(texts(&log.read().unwrap()), ["first"]);
        append(&path, b"ond\n");
        assert_eq!(texts(&log.read().unwrap()), ["second"]);
        // Renamed, then a new one under the name; the old one still gets a line.
        let old = folder.path().join("log.1");
        fs::rename(&path, &old).unwrap();
        assert_eq!(texts(&log.read().unwrap()), Vec::<String>::new());
        append(&old, b"last of the old\n");
        append(&path, b"first of the new\n");
        assert_eq!(texts(&log.read().unwrap()), ["last of the old", "first of the new"]);
        // Copied away and truncated.
        fs::File::create(&path).unwrap();
        append(&path, b"x\n");
        assert_eq!(texts(&log.read().unwrap()), ["x"]);
    }

    #[test]
    fn lines_without_end_and_floods_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        append(&path, b"");
        let mut log = LogFile::open(&path).unwrap();
        let long = vec![b'x'; 3 << 20];
        for part in [&long[..], &long, b"\nshort\n", &long, b"\n", b"\xff\n"] {
            append(&path, part);
        }
        let lines = log.read().unwrap();
        assert_eq!(lines.lines, [b"short".to_vec(), vec![0xff]]);
        assert!(lines.passed_over_bytes >= 2 * LINE_BYTES as u64, "{}", lines.passed_over_bytes);
        let many = b"0123456789abcdef\n".repeat(READ_BYTES / 16);
        append(&path, &many);
        let lines = log.read().unwrap();
        assert!(lines.passed_over_bytes > 0 && lines.lines.iter().all(|line| line == b"0123456789abcdef"));
    }
}
