//! The files of a run's readings: their order, and the writing of them during the run.
//!
//! The newest readings are lines in `series.jsonl`. A full file becomes a part: `series-00001.jsonl`, then `series-00001.parquet`. The lines
//! of a part are removed once its Parquet file is complete, so if both exist, the lines are used. A run without numbered parts ends with
//! `series.parquet` alone, as every run of earlier versions does.
//!
//! A part is sealed in a separate thread, so that a pause of a second does not delay the recording. If that fails, the
//! lines stay, and the end of the recording tries again and reports the error.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use fathom_errors::{Error, Kind, Result};

use crate::series::{MAX_SERIES_BYTES, ReadingSink};
use crate::{Point, Reading, files, seal};

const STEM: &str = "series";
/// The extension of a Parquet file that is not yet whole.
pub(crate) const HALF: &str = "new";

/// One part: its lines while it is written, its Parquet file afterwards.
pub(crate) struct SeriesPart {
    pub(crate) lines: PathBuf,
    pub(crate) sealed: PathBuf,
}

impl SeriesPart {
    /// The part with the newest readings, which has no number.
    pub(crate) fn newest(folder: &Path) -> SeriesPart {
        SeriesPart::numbered(folder, 0)
    }

    /// A full part; numbers begin with 1.
    pub(crate) fn numbered(folder: &Path, number: u32) -> SeriesPart {
        let named = |extension: &str| folder.join(format!("{}.{extension}", stem(number)));
        SeriesPart { lines: named("jsonl"), sealed: named("parquet") }
    }

    fn exists(&self) -> bool {
        self.lines.exists() || self.sealed.exists()
    }

    /// Calls `take` with each reading. A line that does not parse is skipped: a killed writer may leave its last line torn.
    fn each_reading(&self, take: ReadingSink<'_>) -> Result<()> {
        let lines = files::each_line(&self.lines, MAX_SERIES_BYTES, &mut |line| {
            if let Ok(Reading { name, unit, begin_ns, end_ns, value }) = serde_json::from_slice(line) {
                take(&name, &unit, Point { begin_ns, end_ns, value });
            }
            Ok(())
        });
        match lines {
            Err(error) if error.kind() == Kind::NotFound => seal::each_reading(&self.sealed, take),
            read => read,
        }
    }

    /// Turns the lines into the Parquet file, if that has not been done.
    pub(crate) fn seal(&self) -> Result<()> {
        if !self.lines.exists() {
            return Ok(());
        }
        let half = self.sealed.with_extension(HALF);
        seal::write(&self.lines, &half)?;
        rename(&half, &self.sealed)?;
        remove(&self.lines)
    }

    /// Renames the files of this part to those of another part, which has no files yet.
    pub(crate) fn rename(&self, to: &SeriesPart) -> Result<()> {
        if !self.lines.exists() {
            return rename(&self.sealed, &to.sealed);
        }
        // A writer that was killed while it sealed the part may have left a copy of the lines.
        if self.sealed.exists() {
            remove(&self.sealed)?;
        }
        rename(&self.lines, &to.lines)
    }
}

/// Calls `take` with each reading of `folder`, part by part.
///
/// # Errors
/// When a part is missing or cannot be read.
pub(crate) fn each_reading(folder: &Path, take: ReadingSink<'_>) -> Result<()> {
    let mut read = 0;
    // A writer may add parts meanwhile.
    loop {
        let last = last_number(folder)?;
        if last <= read {
            break;
        }
        for number in read + 1..=last {
            SeriesPart::numbered(folder, number).each_reading(take)?;
        }
        read = last;
    }
    let newest = SeriesPart::newest(folder);
    if read > 0 && !newest.exists() {
        return Ok(());
    }
    newest.each_reading(take)
}

/// The number of the last full part, or 0.
pub(crate) fn last_number(folder: &Path) -> Result<u32> {
    let failed = |e| Error::io("list", folder, e);
    let mut last = 0;
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let number = name.to_str().and_then(split).filter(|(_, extension)| *extension != HALF);
        last = last.max(number.map_or(0, |(number, _)| number));
    }
    Ok(last)
}

/// Splits the name of a file of readings into the number of its part, 0 for the newest one, and the extension: `jsonl`, `parquet` or
/// [`HALF`].
pub(crate) fn split(name: &str) -> Option<(u32, &str)> {
    let (digits, extension) = name.strip_prefix(STEM)?.split_once('.')?;
    let number = match digits.strip_prefix('-') {
        Some(digits) => digits.parse().ok().filter(|number| *number > 0)?,
        None => 0,
    };
    let is_ours = name == format!("{}.{extension}", stem(number));
    (is_ours && ["jsonl", "parquet", HALF].contains(&extension)).then_some((number, extension))
}

fn stem(number: u32) -> String {
    if number == 0 { STEM.to_owned() } else { format!("{STEM}-{number:05}") }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|e| Error::io("rename", from, e))
}

pub(crate) fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(|e| Error::io("remove", path, e))
}

/// Readings in a full part: an hour and a half of one server.
const MAX_PART_READINGS: usize = 1 << 20;

/// The series of a run folder, open for writing.
pub(crate) struct SeriesWriter {
    folder: PathBuf,
    lines: File,
    /// The number of readings in `lines`.
    count: usize,
    /// [`MAX_PART_READINGS`], or less in tests.
    pub(crate) max_part_readings: usize,
    sealing: Option<JoinHandle<()>>,
}

impl SeriesWriter {
    /// Opens the series of `folder`. Existing readings become a part.
    ///
    /// # Errors
    /// When the folder cannot be read or written.
    pub(crate) fn open(folder: &Path) -> Result<SeriesWriter> {
        let newest = SeriesPart::newest(folder);
        let has_readings = match newest.lines.metadata() {
            Ok(about) => about.len() > 0,
            Err(_) => newest.sealed.exists() && seal::has_rows(&newest.sealed)?,
        };
        if has_readings {
            newest.rename(&SeriesPart::numbered(folder, last_number(folder)? + 1))?;
        }
        Ok(SeriesWriter {
            folder: folder.to_owned(),
            lines: append(&newest.lines)?,
            count: 0,
            max_part_readings: MAX_PART_READINGS,
            sealing: None,
        })
    }

    /// Adds readings; those that are not numbers are left out, so that no reader meets a NaN.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(crate) fn add(&mut self, readings: &[Reading]) -> Result<()> {
        let mut text = Vec::new();
        for reading in readings.iter().filter(|reading| reading.value.is_finite()) {
            serde_json::to_writer(&mut text, reading)
                .map_err(|e| Error::new(Kind::Malformed, "cannot write JSON").because(e))?;
            text.push(b'\n');
            self.count += 1;
        }
        let written = self.lines.write_all(&text);
        written.map_err(|e| Error::io("write", SeriesPart::newest(&self.folder).lines, e))?;
        if self.count >= self.max_part_readings {
            self.begin_part()?;
        }
        Ok(())
    }

    /// Makes a part of the full file, begins a new file, and starts the sealing of the part.
    fn begin_part(&mut self) -> Result<()> {
        let newest = SeriesPart::newest(&self.folder);
        let part = SeriesPart::numbered(&self.folder, last_number(&self.folder)? + 1);
        newest.rename(&part)?;
        self.lines = append(&newest.lines)?;
        self.count = 0;
        self.wait();
        let seal = move || drop(part.seal());
        // Without a thread the part is sealed at the end.
        self.sealing = thread::Builder::new().name("seal".to_owned()).spawn(seal).ok();
        Ok(())
    }

    fn wait(&mut self) {
        // A part that could not be sealed is sealed at the end.
        let _ = self.sealing.take().map(JoinHandle::join);
    }

    /// Seals everything that is left.
    ///
    /// # Errors
    /// When a Parquet file cannot be written; the lines then stay.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.wait();
        let newest = SeriesPart::newest(&self.folder);
        let mut last = last_number(&self.folder)?;
        if last == 0 {
            return newest.seal();
        }
        if self.count == 0 {
            remove(&newest.lines)?;
        } else {
            last += 1;
            newest.rename(&SeriesPart::numbered(&self.folder, last))?;
        }
        (1..=last).try_for_each(|number| SeriesPart::numbered(&self.folder, number).seal())
    }

    /// Removes the file of the newest readings, of a run whose series are elsewhere.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub(crate) fn remove(&self) -> Result<()> {
        remove(&SeriesPart::newest(&self.folder).lines)
    }
}

impl Drop for SeriesWriter {
    fn drop(&mut self) {
        self.wait();
    }
}

fn append(path: &Path) -> Result<File> {
    OpenOptions::new().create(true).append(true).open(path).map_err(|e| Error::io("create", path, e))
}
