//! The lines of a log, decompressed and unwrapped.

use std::io::{self, BufRead, BufReader, Read};

use flate2::read::MultiGzDecoder;

use super::wrapping::{MAX_LINE_BYTES, Unwrapper};

/// The number of lines that are searched for a file's first time: a collector or an operator may write some lines of its own first.
const MAX_HEAD_LINES: usize = 200;
/// The bytes of these lines that are read: a file without line ends is long.
const MAX_HEAD_BYTES: u64 = 2 * MAX_LINE_BYTES as u64;
/// The number of bytes read at a time.
const BUFFER_BYTES: usize = 1 << 18;

/// The lines of one log.
pub(super) struct LogLines {
    contents: Box<dyn BufRead>,
    line: Vec<u8>,
    unwrapper: Unwrapper,
    /// The number of lines that were cut because they were too long.
    pub(super) cut: u64,
}

impl LogLines {
    /// The lines of a stream; its first bytes show whether it is compressed.
    pub(super) fn new(contents: Box<dyn Read>) -> io::Result<LogLines> {
        let contents = decompressed(contents)?;
        Ok(LogLines { contents, line: Vec::new(), unwrapper: Unwrapper::default(), cut: 0 })
    }

    /// The same for its first bytes.
    fn head(self) -> LogLines {
        LogLines { contents: Box::new(Read::take(self.contents, MAX_HEAD_BYTES)), ..self }
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

/// The first value that `find` returns for one of the first lines of a log.
pub(super) fn found_in_head<T>(lines: LogLines, find: &mut dyn FnMut(&str) -> Option<T>) -> Option<T> {
    let mut lines = lines.head();
    let mut found = None;
    let mut is_text = true;
    for _ in 0..MAX_HEAD_LINES {
        let is_more = lines.next(&mut |line| {
            // Archives have zeros behind the name of their first file. A log that was truncated while it was written begins with zeros.
            is_text = line.first() == Some(&0) || !line.contains(&0);
            found = find(String::from_utf8_lossy(line).trim_ascii());
        });
        if !is_text || found.is_some() || !is_more.ok()? {
            break;
        }
    }
    found.filter(|_| is_text)
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
