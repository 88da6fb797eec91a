//! The files that hold a run's readings, and their order.
//!
//! The newest readings are lines in `series.jsonl`. A full file becomes a part: `series-00001.jsonl`, then `series-00001.parquet`. The lines
//! of a part are removed once its Parquet file is whole, so where both exist, the lines count. A run without numbered parts ends with
//! `series.parquet` alone, as every run of earlier versions does.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};

use crate::series_lines::{MAX_SERIES_BYTES, Take};
use crate::{Point, Reading, plain, seal};

const STEM: &str = "series";
/// The extension of a Parquet file that is not yet whole.
pub(crate) const HALF: &str = "new";

/// One part: its lines while it is written, its Parquet file afterwards.
pub(crate) struct Part {
    pub(crate) lines: PathBuf,
    pub(crate) sealed: PathBuf,
}

impl Part {
    /// The part with the newest readings, which has no number.
    pub(crate) fn newest(folder: &Path) -> Part {
        Part::numbered(folder, 0)
    }

    /// A full part; numbers begin with 1.
    pub(crate) fn numbered(folder: &Path, number: u32) -> Part {
        let named = |extension: &str| folder.join(format!("{}.{extension}", stem(number)));
        Part { lines: named("jsonl"), sealed: named("parquet") }
    }

    fn exists(&self) -> bool {
        self.lines.exists() || self.sealed.exists()
    }

    /// Calls `take` with each reading. A line that does not parse is passed over: a killed writer may leave its last line torn.
    fn each_reading(&self, take: Take<'_>) -> Result<()> {
        let lines = plain::each_line(&self.lines, MAX_SERIES_BYTES, &mut |line| {
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

    /// Gives the files of this part the name of another one, which has none yet.
    pub(crate) fn rename(&self, to: &Part) -> Result<()> {
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
pub(crate) fn each_reading(folder: &Path, take: Take<'_>) -> Result<()> {
    let mut read = 0;
    // A writer may add parts meanwhile.
    loop {
        let last = last_number(folder)?;
        if last <= read {
            break;
        }
        for number in read + 1..=last {
            Part::numbered(folder, number).each_reading(take)?;
        }
        read = last;
    }
    let newest = Part::newest(folder);
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
