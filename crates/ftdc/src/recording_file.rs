//! Finds the files of recordings in the inputs of a user: files, directories, archives, or standard input.
//!
//! A `diagnostic.data` directory has `metrics.<time>-<number>`, one for each start of the server and for each 10 MiB, and `metrics.interim` with the
//! newest samples. Support cases hand over archives of such directories, often one inside another. All inputs are read as streams in their order.
//! Nothing is written under the name of an entry. Only a zip file inside another archive is copied to an unnamed temporary file first, since its table
//! of contents is at its end.
//!
//! A running mongod moves samples from the interim file to the newest archive file. The interim file is therefore read before the end of that
//! archive file, and passed on after it.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead as _, Cursor, ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use flate2::read::MultiGzDecoder;

use crate::piped_files::PipedFiles;
use crate::stream_path::{HEAD_BYTES, StreamFormat, StreamPath};
use crate::tar_entries::last_entries;

/// The nesting depth of archives, compression included: `case.zip` > `node.tar.gz` > `diagnostic.data.tar` has four.
const MAX_NESTING: usize = 12;
/// The file with the newest samples, which mongod replaces every ten samples.
const INTERIM: &str = "metrics.interim";
/// A larger interim file is not kept in memory. Real ones hold one chunk.
const MAX_INTERIM_BYTES: u64 = 64 << 20;
/// Endings of archives and of compressed files.
const ARCHIVE_ENDINGS: [&str; 6] = [".tar", ".tgz", ".gz", ".zst", ".tzst", ".zip"];
/// Endings of archives that are not read. They may have recordings all the same.
const UNREAD_ENDINGS: [&str; 6] = [".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".7z", ".rar"];

/// A file of a recording.
pub struct RecordingFile<'f> {
    /// The directory that contains it, in archives too. One process writes one directory.
    pub directory: &'f str,
    /// Its name without the directory.
    pub name: &'f str,
    /// Its contents after decompression.
    pub contents: &'f mut dyn Read,
}

/// The kinds of files that lie near recordings and concern the same servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompanionKind {
    /// The log of a server.
    Log,
    /// The output of a shell with a server's status or settings.
    Dump,
}

/// A step of the search for recordings.
pub enum SearchEvent<'f> {
    File(RecordingFile<'f>),
    /// A file in an archive that is of this kind by its name. Only [`search_companions`] passes such files on.
    Companion(CompanionKind, RecordingFile<'f>),
    /// No more file of this directory follows. Directories in an archive end with it. One of files that were named one by one has no such event.
    End {
        directory: &'f str,
    },
}

/// Passes each file of a recording in `inputs` to `visit`; `-` is standard input. Returns the errors of files that could not be read if others could.
///
/// # Errors
/// If an input does not exist or has no recording, and those of `visit`.
pub fn visit_recordings(
    inputs: &[PathBuf],
    visit: &mut dyn FnMut(RecordingFile<'_>) -> Result<()>,
) -> Result<Vec<Error>> {
    search_recordings(inputs, &mut |event| match event {
        SearchEvent::File(file) => visit(file),
        SearchEvent::Companion(..) | SearchEvent::End { .. } => Ok(()),
    })
}

/// The same, and says when a directory was read whole.
///
/// # Errors
/// As [`visit_recordings`].
pub fn search_recordings(
    inputs: &[PathBuf],
    visit: &mut dyn FnMut(SearchEvent<'_>) -> Result<()>,
) -> Result<Vec<Error>> {
    let mut search = RecordingSearch::new(visit);
    for input in inputs {
        let (files, problems) = (search.files, search.problems.len());
        search.input(input)?;
        search.end(files, problems, input)?;
    }
    Ok(search.problems)
}

/// Passes the same files to `visit`, and with them those in archives that may be logs or dumps. What cannot be read is left out:
/// [`search_recordings`] returns its errors.
///
/// Standard input can be read once. The recordings in an archive there are kept for later searches, and are passed on without contents. If it is no
/// archive, nothing of it is read.
///
/// # Errors
/// If an input cannot be read at all, and those of `visit`.
pub fn search_companions(
    inputs: &[PathBuf],
    visit: &mut dyn FnMut(SearchEvent<'_>) -> Result<()>,
) -> Result<()> {
    let (named, piped): (Vec<&PathBuf>, Vec<&PathBuf>) =
        inputs.iter().partition(|input| *input != Path::new("-"));
    if !piped.is_empty() && PipedFiles::kept().is_none() {
        keep_standard_input(visit)?;
    }
    let mut search = RecordingSearch { with_companions: true, ..RecordingSearch::new(visit) };
    named.into_iter().try_for_each(|input| search.input(input))
}

/// Searches an archive on standard input, and keeps its recordings.
fn keep_standard_input(visit: &mut dyn FnMut(SearchEvent<'_>) -> Result<()>) -> Result<()> {
    let mut contents = io::stdin().lock();
    let head = contents.fill_buf().unwrap_or_default();
    let is_whole = head.len() as u64 >= HEAD_BYTES || head.is_empty();
    if is_whole && StreamFormat::new(head) == StreamFormat::Plain {
        let StreamPath { directory, name, .. } = StreamPath::standard_input();
        let file = RecordingFile { directory: &directory, name: &name, contents: &mut io::empty() };
        return visit(SearchEvent::File(file));
    }
    let mut piped = PipedFiles::default();
    let mut keep = |event: SearchEvent<'_>| match event {
        SearchEvent::File(file) => {
            piped.add(file.directory, file.name, file.contents)?;
            let (directory, name) = (file.directory, file.name);
            visit(SearchEvent::File(RecordingFile { directory, name, contents: &mut io::empty() }))
        }
        other => visit(other),
    };
    let mut search = RecordingSearch { with_companions: true, ..RecordingSearch::new(&mut keep) };
    let searched = search.stream(&StreamPath::standard_input(), &mut contents, 0);
    let problems = search.problems;
    if let Err(error) = searched {
        piped.files.clear();
        piped.keep(&[error]);
    } else {
        piped.keep(&problems);
    }
    Ok(())
}

/// The same as [`visit_recordings`] for one stream, which is read as standard input is.
///
/// # Errors
/// If it has no recording, and those of `visit`.
pub fn visit_stream(
    contents: &mut dyn Read,
    visit: &mut dyn FnMut(RecordingFile<'_>) -> Result<()>,
) -> Result<Vec<Error>> {
    let mut visit_file = |event: SearchEvent<'_>| match event {
        SearchEvent::File(file) => visit(file),
        SearchEvent::Companion(..) | SearchEvent::End { .. } => Ok(()),
    };
    let mut search = RecordingSearch::new(&mut visit_file);
    search.stream(&StreamPath::standard_input(), contents, 0)?;
    search.end(0, 0, Path::new("-"))?;
    Ok(search.problems)
}

fn no_recording(input: &Path) -> Error {
    let what = format!("no recording of a mongod is in {}", input.display());
    Error::new(Kind::NotFound, what).with_id("no-recording").advise(
        "name a diagnostic.data directory, which is in the server's dbPath, one of its files, or an archive of it",
    )
}

/// Returns whether a file may be one of a recording, or an archive of some.
fn may_hold_recordings(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let mut endings = ARCHIVE_ENDINGS.iter().chain(&UNREAD_ENDINGS);
    is_recording(name) || endings.any(|ending| lower.ends_with(ending))
}

/// The kind of companion that a file may be, by its name: `mongod.log`, `db1.log.2026-11-27T00-00-00`, `getMongoData.json`.
fn companion_kind(name: &str) -> Option<CompanionKind> {
    /// The endings of files with the output of a shell.
    const DUMP_ENDINGS: [&str; 3] = [".json", ".txt", ".js"];
    let name = name.to_ascii_lowercase();
    match name.contains(".log") {
        true => Some(CompanionKind::Log),
        false => DUMP_ENDINGS.iter().any(|ending| name.ends_with(ending)).then_some(CompanionKind::Dump),
    }
}

/// Returns whether a file has a name that mongod gives: `metrics.2025-07-10T15-58-48Z-00000`, `metrics.interim`, `metrics.interim.temp`.
fn is_recording(name: &str) -> bool {
    is_archive_file(name) || name.starts_with(INTERIM)
}

/// Returns whether a file has the name of one that mongod appends chunks to.
fn is_archive_file(name: &str) -> bool {
    name.strip_prefix("metrics.").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The newest archive file of a directory. At its end it reads the interim file, and then returns the bytes by which it has grown: a chunk that
/// mongod moves from the one to the other meanwhile is in one of them.
struct GrowingFile<'g> {
    file: File,
    interim_path: &'g Path,
    /// Its contents once they were read.
    interim: &'g mut Option<Vec<u8>>,
    is_at_end: bool,
}

impl Read for GrowingFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        if read > 0 || buffer.is_empty() || self.is_at_end {
            return Ok(read);
        }
        self.is_at_end = true;
        *self.interim = interim_contents(self.interim_path);
        self.file.read(buffer)
    }
}

/// `None` if it cannot be read, or is too large to be an interim file.
fn interim_contents(path: &Path) -> Option<Vec<u8>> {
    let mut contents = Vec::new();
    File::open(path).ok()?.take(MAX_INTERIM_BYTES + 1).read_to_end(&mut contents).ok()?;
    (contents.len() as u64 <= MAX_INTERIM_BYTES).then_some(contents)
}

struct RecordingSearch<'v> {
    visit: &'v mut dyn FnMut(SearchEvent<'_>) -> Result<()>,
    files: usize,
    problems: Vec<Error>,
    /// Directories that were read whole. If one is named again, its files are passed over.
    ended: HashSet<String>,
    /// Directories in archives that are being read.
    open: Vec<String>,
    /// The entries of the archive that comes next, if it is a tar, after which their directories end.
    last_entries: HashSet<usize>,
    /// Whether logs and dumps in archives are passed on too.
    with_companions: bool,
}

impl<'v> RecordingSearch<'v> {
    fn new(visit: &'v mut dyn FnMut(SearchEvent<'_>) -> Result<()>) -> RecordingSearch<'v> {
        RecordingSearch {
            visit,
            files: 0,
            problems: Vec::new(),
            ended: HashSet::new(),
            open: Vec::new(),
            last_entries: HashSet::new(),
            with_companions: false,
        }
    }

    fn input(&mut self, input: &Path) -> Result<()> {
        if input == Path::new("-") {
            return self.standard_input();
        }
        let metadata = fs::metadata(input).map_err(|cause| unreadable(input, cause))?;
        if metadata.is_dir() {
            return self.directory(input, 0);
        }
        let file = File::open(input).map_err(|cause| unreadable(input, cause))?;
        self.file(&StreamPath::of_file(input, true), file, None)
    }

    /// Reads standard input, or what an earlier search kept of it.
    fn standard_input(&mut self) -> Result<()> {
        let Some(piped) = PipedFiles::kept() else {
            return self.stream(&StreamPath::standard_input(), &mut io::stdin().lock(), 0);
        };
        self.problems.extend(piped.problems());
        for file in &piped.files {
            let at = StreamPath {
                directory: file.directory.clone(),
                name: file.name.clone(),
                is_named: true,
                is_in_archive: true,
            };
            self.plain(&at, &mut piped.reader(file))?;
        }
        Ok(())
    }

    /// Checks that an input had a file of a recording, by how many files and problems there were before it.
    fn end(&mut self, files: usize, problems: usize, input: &Path) -> Result<()> {
        if self.files > files {
            return Ok(());
        }
        let first = self.problems.drain(problems..).next();
        Err(first.unwrap_or_else(|| no_recording(input)))
    }

    fn directory(&mut self, directory: &Path, depth: usize) -> Result<()> {
        let entries = match entries(directory) {
            Ok(entries) => entries,
            Err(cause) => {
                self.problems.push(unreadable(directory, cause));
                return Ok(());
            }
        };
        let interim_path = directory.join(INTERIM);
        let newest = entries.iter().map(name_of).rfind(|name| is_archive_file(name));
        let mut interim: Option<Vec<u8>> = None;
        for entry in entries {
            let path = entry.path();
            if entry.file_type().as_ref().is_ok_and(fs::FileType::is_dir) {
                if depth < MAX_NESTING {
                    self.directory(&path, depth + 1)?;
                }
                continue;
            }
            let name = name_of(&entry);
            if name == INTERIM && interim.is_some() {
                continue;
            }
            let growth = (newest.as_ref() == Some(&name)).then_some((interim_path.as_path(), &mut interim));
            self.entry(&path, &name, growth)?;
        }
        if let Some(contents) = interim {
            self.files_after(directory, &newest.unwrap_or_default())?;
            self.stream(&StreamPath::of_file(&interim_path, false), &mut Cursor::new(contents), 0)?;
        }
        let name = StreamPath::of_file(&interim_path, false).directory;
        (self.visit)(SearchEvent::End { directory: &name })?;
        self.ended.insert(name);
        Ok(())
    }

    /// Reads the archive files of a directory that mongod began since the one with this name.
    fn files_after(&mut self, directory: &Path, newest: &str) -> Result<()> {
        for entry in entries(directory).unwrap_or_default() {
            let name = name_of(&entry);
            if is_archive_file(&name) && name.as_str() > newest {
                self.entry(&entry.path(), &name, None)?;
            }
        }
        Ok(())
    }

    /// Reads a file of a directory, if it may hold recordings.
    fn entry(&mut self, path: &Path, name: &str, growth: Option<FileGrowth<'_>>) -> Result<()> {
        if !may_hold_recordings(name) {
            return Ok(());
        }
        let opened =
            fs::metadata(path).and_then(|found| found.is_file().then(|| File::open(path)).transpose());
        match opened {
            Ok(Some(file)) => self.file(&StreamPath::of_file(path, false), file, growth),
            // A running mongod replaces its interim file every ten seconds.
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                self.problems.push(unreadable(path, cause));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn file(&mut self, at: &StreamPath, mut file: File, growth: Option<FileGrowth<'_>>) -> Result<()> {
        let mut head = Vec::new();
        let read = Read::by_ref(&mut file).take(HEAD_BYTES).read_to_end(&mut head);
        if let Err(cause) = read.and_then(|_| file.rewind()) {
            // For instance standard input, by its name in /dev.
            if cause.kind() != ErrorKind::NotSeekable {
                self.problems.push(unreadable(Path::new(&at.to_string()), cause));
                return Ok(());
            }
            return self.stream(at, &mut Cursor::new(head).chain(file), 0);
        }
        if !self.with_companions && growth.is_none() {
            // Reading the archive itself meets the same error.
            self.last_entries = last_entries(&mut file, at, &is_recording).unwrap_or_default();
        }
        match growth {
            _ if StreamFormat::new(&head) == StreamFormat::Zip => {
                self.zip(at, file, 1)?;
                self.end_of_archive(at)
            }
            Some((interim_path, interim)) => {
                self.stream(at, &mut GrowingFile { file, interim_path, interim, is_at_end: false }, 0)
            }
            None => self.stream(at, &mut file, 0),
        }
    }

    /// Reads a stream. Errors are those of `visit`; unreadable parts are noted.
    fn stream(&mut self, at: &StreamPath, contents: &mut dyn Read, depth: usize) -> Result<()> {
        if depth > MAX_NESTING {
            self.problem(at, format!("more than {MAX_NESTING} archives are within each other"));
            return Ok(());
        }
        let mut head = Vec::new();
        if let Err(cause) = (&mut *contents).take(HEAD_BYTES).read_to_end(&mut head) {
            self.problem(at, cause);
            return Ok(());
        }
        let format = StreamFormat::new(&head);
        let mut contents = Cursor::new(head).chain(contents);
        match format {
            StreamFormat::Gzip => {
                self.stream(&at.decompressed(), &mut MultiGzDecoder::new(&mut contents), depth + 1)
            }
            StreamFormat::Zstd => match zstd::Decoder::new(&mut contents) {
                Ok(mut decoder) => self.stream(&at.decompressed(), &mut decoder, depth + 1),
                Err(cause) => {
                    self.problem(at, cause);
                    Ok(())
                }
            },
            StreamFormat::Tar => {
                self.tar(at, &mut contents, depth + 1)?;
                self.end_of_archive(at)
            }
            StreamFormat::Zip => match copy(&mut contents) {
                Ok(file) => {
                    self.zip(at, file, depth + 1)?;
                    self.end_of_archive(at)
                }
                Err(cause) => {
                    self.problem(at, cause);
                    Ok(())
                }
            },
            StreamFormat::Unread(format) => {
                let what = format!("{at} is in the format {format}, which is not read");
                let advice = "unpack it, or pack it as tar, gzip, zstd or zip";
                self.problems.push(Error::new(Kind::Malformed, what).advise(advice));
                Ok(())
            }
            StreamFormat::Plain => self.plain(at, &mut contents),
        }
    }

    /// Passes a stream on that is neither compressed nor an archive.
    fn plain(&mut self, at: &StreamPath, contents: &mut dyn Read) -> Result<()> {
        let file = RecordingFile { directory: &at.directory, name: &at.name, contents };
        if at.is_named || is_recording(&at.name) {
            self.files += 1;
            if is_recording(&at.name) && self.ended.contains(&at.directory) {
                return Ok(());
            }
            if at.is_in_archive && !self.open.contains(&at.directory) {
                self.open.push(at.directory.clone());
            }
            return (self.visit)(SearchEvent::File(file));
        }
        match companion_kind(&at.name).filter(|_| self.with_companions && at.is_in_archive) {
            Some(kind) => (self.visit)(SearchEvent::Companion(kind, file)),
            None => Ok(()),
        }
    }

    /// Returns whether a file of an archive is of interest, by its name.
    fn is_wanted(&self, name: &str) -> bool {
        may_hold_recordings(name) || (self.with_companions && companion_kind(name).is_some())
    }

    /// Ends the directories of an archive that was read.
    fn end_of_archive(&mut self, at: &StreamPath) -> Result<()> {
        let archive = at.to_string();
        self.end_of_directories(&|directory| {
            directory.strip_prefix(&archive).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Ends the directories in archives that `is_ended` chooses.
    fn end_of_directories(&mut self, is_ended: &dyn Fn(&str) -> bool) -> Result<()> {
        for directory in self.open.extract_if(.., |one| is_ended(one)).collect::<Vec<String>>() {
            (self.visit)(SearchEvent::End { directory: &directory })?;
            self.ended.insert(directory);
        }
        Ok(())
    }

    fn tar(&mut self, at: &StreamPath, contents: &mut dyn Read, depth: usize) -> Result<()> {
        let mut archive = tar::Archive::new(contents);
        let entries = match archive.entries() {
            Ok(entries) => entries,
            Err(cause) => {
                self.problem(at, cause);
                return Ok(());
            }
        };
        let last_entries = std::mem::take(&mut self.last_entries);
        for (number, entry) in entries.enumerate() {
            let mut entry = match entry {
                Ok(entry) => entry,
                Err(cause) => {
                    self.problem(at, cause);
                    return Ok(());
                }
            };
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let inside = at.inside(&path);
            if entry.header().entry_type().is_file() && self.is_wanted(&inside.name) {
                self.stream(&inside, &mut entry, depth)?;
            }
            if last_entries.contains(&number) {
                self.end_of_directories(&|directory| directory == inside.directory)?;
            }
        }
        Ok(())
    }

    fn zip(&mut self, at: &StreamPath, file: File, depth: usize) -> Result<()> {
        let mut archive = match zip::ZipArchive::new(file) {
            Ok(archive) => archive,
            Err(cause) => {
                self.problem(at, cause);
                return Ok(());
            }
        };
        for number in 0..archive.len() {
            let mut entry = match archive.by_index(number) {
                Ok(entry) => entry,
                Err(cause) => {
                    self.problem(at, cause);
                    continue;
                }
            };
            let inside = match entry.name() {
                Ok(name) => at.inside(&name),
                Err(cause) => {
                    self.problem(at, cause);
                    continue;
                }
            };
            if entry.is_file() && self.is_wanted(&inside.name) {
                self.stream(&inside, &mut entry, depth)?;
            }
        }
        Ok(())
    }

    fn problem(&mut self, at: &StreamPath, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) {
        self.problems.push(Error::new(Kind::Malformed, format!("cannot read {at} whole")).because(cause));
    }
}

/// The path of the interim file of an archive file's directory, and where to put its contents.
type FileGrowth<'g> = (&'g Path, &'g mut Option<Vec<u8>>);

/// The entries of a directory. The names of mongod sort in the order of time, the interim file last.
fn entries(directory: &Path) -> io::Result<Vec<fs::DirEntry>> {
    let mut entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    Ok(entries)
}

fn name_of(entry: &fs::DirEntry) -> String {
    entry.file_name().to_string_lossy().into_owned()
}

/// Copies a stream to a temporary file that has no name.
fn copy(contents: &mut dyn Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(contents, &mut file)?;
    file.rewind()?;
    Ok(file)
}

fn unreadable(path: &Path, cause: io::Error) -> Error {
    let is_refused = cause.kind() == ErrorKind::PermissionDenied;
    let error = Error::io("read", path, cause);
    if is_refused {
        error.advise("run it as the server's user, like 'sudo -u mongodb fathom ...'")
    } else {
        error
    }
}
