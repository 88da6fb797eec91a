//! Reads log files as users keep them: several, rotated, compressed, or on standard input.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use flate2::read::MultiGzDecoder;

use super::log_line::line_time_ms;
use super::wrapping::{MAX_LINE_BYTES, Unwrapper};

/// The number of lines that are searched for a file's first time: a collector or an operator may write some lines of its own first.
const MAX_HEAD_LINES: usize = 200;
/// The number of bytes read at a time.
const BUFFER_BYTES: usize = 1 << 18;

/// Returns whether a file holds lines of a server's log.
pub fn is_log(path: &Path) -> bool {
    path.is_file() && first_time_ms(path).is_some()
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

/// Sorts the inputs, rotated files by the time of their first lines. Standard input comes last, since it cannot be read twice.
pub(super) fn in_time_order(inputs: &[PathBuf]) -> Vec<PathBuf> {
    let mut timed: Vec<(i64, PathBuf)> = inputs
        .iter()
        .map(|input| {
            let is_file = fs::metadata(input).is_ok_and(|found| found.is_file());
            let first = if is_file { first_time_ms(input).unwrap_or(i64::MAX) } else { i64::MAX };
            (first, input.clone())
        })
        .collect();
    timed.sort_by_key(|(first, _)| *first);
    timed.into_iter().map(|(_, input)| input).collect()
}

fn first_time_ms(path: &Path) -> Option<i64> {
    let mut lines = LogLines::open(path).ok()?;
    let mut first = None;
    for _ in 0..MAX_HEAD_LINES {
        let is_more = lines.next(&mut |line| first = line_time_ms(&String::from_utf8_lossy(line)));
        if first.is_some() || !is_more.ok()? {
            break;
        }
    }
    first
}

/// The lines of one file, decompressed and unwrapped.
pub(super) struct LogLines {
    contents: Box<dyn BufRead>,
    line: Vec<u8>,
    unwrapper: Unwrapper,
    /// The number of lines that were cut because they were too long.
    pub(super) cut: u64,
}

impl LogLines {
    /// Opens a file; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<LogLines> {
        let contents: Box<dyn Read> = if path == Path::new("-") {
            Box::new(io::stdin())
        } else {
            let is_directory = fs::metadata(path).is_ok_and(|found| found.is_dir());
            if is_directory {
                let what = format!("{} is a directory, and a log is a file", path.display());
                return Err(
                    Error::new(Kind::Usage, what).advise("name the files in it, like DIR/mongod.log*")
                );
            }
            Box::new(File::open(path).map_err(|cause| Error::io("read the log", path, cause))?)
        };
        let contents = decompressed(contents).map_err(|cause| Error::io("read the log", path, cause))?;
        Ok(LogLines { contents, line: Vec::new(), unwrapper: Unwrapper::default(), cut: 0 })
    }

    /// Passes the next line to `visit`, unless it is a part of one whose rest follows. `false` at the end.
    pub(super) fn next(&mut self, visit: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        self.line.clear();
        let read = Read::take(&mut self.contents, MAX_LINE_BYTES as u64).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(false);
        }
        if read == MAX_LINE_BYTES && self.line.last() != Some(&b'\n') {
            self.contents.skip_until(b'\n')?;
            self.cut += 1;
        }
        while matches!(self.line.last(), Some(b'\n' | b'\r')) {
            self.line.pop();
        }
        if let Some(line) = self.unwrapper.unwrap(&self.line) {
            visit(&line);
        }
        Ok(true)
    }
}

/// Decompresses a stream; its first bytes show the format.
fn decompressed(contents: Box<dyn Read>) -> io::Result<Box<dyn BufRead>> {
    let mut contents = BufReader::with_capacity(BUFFER_BYTES, contents);
    let head = contents.fill_buf()?;
    Ok(match head {
        [0x1f, 0x8b, ..] => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(contents))),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, zstd::Decoder::with_buffer(contents)?))
        }
        _ => Box::new(contents),
    })
}
