//! Writes readings as lines while the run goes, and seals each full file of them into a Parquet file.
//!
//! A part is sealed in a thread of its own, so that a pause of a second does not delay what is recorded meanwhile. If that fails, the
//! lines stay, and the end of the recording tries again and reports the error.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use fathom_errors::{Error, Kind, Result};

use crate::series_parts::{Part, last_number, remove};
use crate::{Reading, seal};

/// Readings in a full part: an hour and a half of one server.
const MAX_PART_READINGS: usize = 1 << 20;

/// The series of a run folder, open for writing.
pub(crate) struct SeriesWriter {
    folder: PathBuf,
    lines: File,
    /// Readings in `lines`.
    count: usize,
    /// [`MAX_PART_READINGS`], or less in tests.
    pub(crate) max_part_readings: usize,
    sealing: Option<JoinHandle<()>>,
}

impl SeriesWriter {
    /// Opens the series of `folder`. Readings that it already has become a part.
    ///
    /// # Errors
    /// When the folder cannot be read or written.
    pub(crate) fn open(folder: &Path) -> Result<SeriesWriter> {
        let newest = Part::newest(folder);
        let has_readings = match newest.lines.metadata() {
            Ok(about) => about.len() > 0,
            Err(_) => newest.sealed.exists() && seal::has_rows(&newest.sealed)?,
        };
        if has_readings {
            newest.rename(&Part::numbered(folder, last_number(folder)? + 1))?;
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
        written.map_err(|e| Error::io("write", Part::newest(&self.folder).lines, e))?;
        if self.count >= self.max_part_readings {
            self.begin_part()?;
        }
        Ok(())
    }

    /// Makes a part of the full file, begins a new file, and starts to seal the part.
    fn begin_part(&mut self) -> Result<()> {
        let newest = Part::newest(&self.folder);
        let part = Part::numbered(&self.folder, last_number(&self.folder)? + 1);
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
        let newest = Part::newest(&self.folder);
        let mut last = last_number(&self.folder)?;
        if last == 0 {
            return newest.seal();
        }
        if self.count == 0 {
            remove(&newest.lines)?;
        } else {
            last += 1;
            newest.rename(&Part::numbered(&self.folder, last))?;
        }
        (1..=last).try_for_each(|number| Part::numbered(&self.folder, number).seal())
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
