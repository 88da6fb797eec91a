//! The data directory: determines whether it is ours, new, or another program's.
//!
//! Opening a RocksDB database changes it, so its owner must be known before. A marker file next to RocksDB's own files says
//! that the keys are laid out by this engine, and in which format.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};

/// The marker's name; RocksDB ignores files that it has not named.
const MARKER: &str = "FATHOM";
/// The text of the marker, before the number of the format.
const TITLE: &str = "Fathom's RocksDB engine, format ";
/// The format of keys and metadata that this version reads and writes.
const FORMAT: u32 = 1;

/// The directories of an engine.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) data: PathBuf,
    /// The directory of its log.
    pub(crate) log: PathBuf,
    /// Whether there is no database yet.
    pub(crate) create: bool,
}

impl Home {
    /// Checks `dir/db`, and marks it as ours if it does not exist.
    ///
    /// # Errors
    /// [`Kind::NotOurs`] if it holds something else, [`Kind::Unsupported`] if a newer version wrote it.
    pub(crate) fn prepare(dir: &Path) -> Result<Home> {
        let data = dir.join("db");
        fs::create_dir_all(&data).map_err(|e| Error::io("make directory", &data, e))?;
        let names = names(&data)?;
        if !check_marker(&data.join(MARKER))? {
            if let Some(name) = names.iter().find(|name| *name != MARKER) {
                let what =
                    format!("{} holds '{name}', which Fathom's RocksDB engine did not make", data.display());
                return Err(Error::new(Kind::NotOurs, what).advise("choose an empty directory"));
            }
            mark(&data)?;
        }
        // A crash while the database was being created leaves files, but neither the name of its root nor tables.
        let has_tables = names.iter().any(|name| name.ends_with(".sst"));
        let create = !names.iter().any(|name| name == "CURRENT") && !has_tables;
        Ok(Home { log: data.join("journal"), data, create })
    }
}

fn names(data: &Path) -> Result<Vec<String>> {
    let cannot = |e| Error::io("list", data, e);
    let mut names = Vec::new();
    for entry in fs::read_dir(data).map_err(cannot)? {
        names.push(entry.map_err(cannot)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Whether the marker exists; an empty one is left by a crash before anything else was created.
fn check_marker(path: &Path) -> Result<bool> {
    let text = match fs::read_to_string(path) {
        Ok(text) if text.is_empty() => return Ok(false),
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(Error::io("read", path, e)),
    };
    let format = text.trim_end().strip_prefix(TITLE).and_then(|number| number.parse::<u32>().ok());
    match format {
        Some(FORMAT) => Ok(true),
        Some(other) => {
            let what = format!("{} is in format {other}; this version knows format {FORMAT}", path.display());
            Err(Error::new(Kind::Unsupported, what).advise("use the version of Fathom that made it"))
        }
        None => Err(Error::new(Kind::NotOurs, format!("{} is not a marker of Fathom", path.display()))),
    }
}

fn mark(data: &Path) -> Result<()> {
    let path = data.join(MARKER);
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&path)?;
        writeln!(file, "{TITLE}{FORMAT}")?;
        file.sync_all()?;
        File::open(data)?.sync_all()
    };
    write().map_err(|e| Error::io("write", &path, e))
}
