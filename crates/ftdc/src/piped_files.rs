//! Standard input can be read once. A search for logs and dumps keeps the recordings in it, in a temporary file without a name, for the
//! searches that follow.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use fathom_errors::{Error, Kind, Result};

/// The files that a search kept of standard input.
static KEPT: OnceLock<PipedFiles> = OnceLock::new();

/// The files of recordings in an archive on standard input.
#[derive(Debug, Default)]
pub(crate) struct PipedFiles {
    /// The contents of all files, one after another.
    contents: Option<File>,
    bytes: u64,
    pub(crate) files: Vec<PipedFile>,
    /// Sentences on parts that could not be read.
    problems: Vec<(Kind, String)>,
}

/// A file that was read from the pipe and kept.
#[derive(Debug)]
pub(crate) struct PipedFile {
    pub(crate) directory: String,
    pub(crate) name: String,
    at: u64,
    length: u64,
}

/// Reads a kept file from its begin, whatever other readers of it do.
pub(crate) struct PipedReader<'p> {
    contents: Option<&'p File>,
    at: u64,
    end: u64,
}

impl Read for PipedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let (Some(contents), Some(buffer)) = (self.contents, buffer.get_mut(..left)) else { return Ok(0) };
        let read = contents.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl PipedFiles {
    /// The kept files, if a search kept some.
    pub(crate) fn kept() -> Option<&'static PipedFiles> {
        KEPT.get()
    }

    /// Copies a file behind those that are kept. An error of the source ends the copy, and is a problem.
    ///
    /// # Errors
    /// When the copy cannot be written.
    pub(crate) fn add(&mut self, directory: &str, name: &str, contents: &mut dyn Read) -> Result<()> {
        let unwritten = |cause| {
            Error::io("copy a recording to a temporary file from", "standard input", cause)
                .advise("name a directory with room in TMPDIR")
        };
        let file = match &mut self.contents {
            Some(file) => file,
            none => none.insert(tempfile::tempfile().map_err(unwritten)?),
        };
        let mut buffer = vec![0; 1 << 17];
        let mut length = 0;
        loop {
            match contents.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    file.write_all(buffer.get(..read).unwrap_or_default()).map_err(unwritten)?;
                    length += read as u64;
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => {
                    self.problems
                        .push((Kind::Malformed, format!("cannot read {directory}/{name} whole: {cause}")));
                    break;
                }
            }
        }
        let (directory, name) = (directory.to_owned(), name.to_owned());
        self.files.push(PipedFile { directory, name, at: self.bytes, length });
        self.bytes += length;
        Ok(())
    }

    /// Keeps them for the searches that follow, with the errors of parts that could not be read.
    pub(crate) fn keep(mut self, problems: &[Error]) {
        self.problems.extend(problems.iter().map(|problem| (problem.kind(), problem.to_string())));
        // Of two searches at a time the first one has read the files.
        let _ = KEPT.set(self);
    }

    pub(crate) fn reader(&self, file: &PipedFile) -> PipedReader<'_> {
        PipedReader { contents: self.contents.as_ref(), at: file.at, end: file.at + file.length }
    }

    pub(crate) fn problems(&self) -> impl Iterator<Item = Error> + '_ {
        self.problems.iter().map(|(kind, what)| Error::new(*kind, what.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TornReader;
    impl Read for TornReader {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("torn"))
        }
    }

    #[test]
    fn files_are_read_one_by_one_as_often_as_needed() {
        let mut piped = PipedFiles::default();
        piped.add("-/a", "metrics.interim", &mut &b"first"[..]).unwrap();
        piped.add("-/b", "metrics.interim", &mut &[7; 200_000][..]).unwrap();
        piped.add("-/c", "metrics.interim", &mut b"th".chain(TornReader)).unwrap();
        let read = |number: usize| {
            let mut contents = Vec::new();
            piped.reader(&piped.files[number]).read_to_end(&mut contents).unwrap();
            contents
        };
        for _ in 0..2 {
            assert_eq!((read(0), read(1), read(2)), (b"first".to_vec(), vec![7; 200_000], b"th".to_vec()));
        }
        let problems: Vec<String> = piped.problems().map(|problem| problem.to_string()).collect();
        assert_eq!(problems, ["cannot read -/c/metrics.interim whole: torn"]);
    }
}
