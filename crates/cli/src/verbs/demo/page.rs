//! Chooses the path of the demo's page before anything is shown. An existing file is replaced only if it is a page of this verb.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fathom_errors::{Error, Kind};

use crate::run_page;

/// The last line of each page of this verb, by which it recognizes its own pages.
const MARK: &str = "<!-- made by 'fathom demo' -->";
/// Its name within the state folder.
const NAME: &str = "demo.html";
/// The number of bytes at a file's end that are read.
const TAIL_BYTES: u64 = 256;

/// The file of the page.
#[derive(Debug)]
pub(super) enum PageFile {
    /// The page in this file.
    At(PathBuf),
    /// A new file in the folder for temporary files, because the state folder cannot be written.
    Temporary,
}

impl PageFile {
    /// The file of `--output`; without it one in the folder of `--keep`, in the state folder, or in the folder for temporary files.
    ///
    /// # Errors
    /// When an existing file is not a page of this verb, or no file can be written.
    pub(super) fn choose(output: Option<&Path>, keep: Option<&Path>) -> Result<PageFile> {
        if let Some(file) = output {
            is_free(file)?;
            try_to_write(folder_of(file))?;
            return Ok(PageFile::At(file.to_owned()));
        }
        if let Some(keep) = keep {
            return Ok(PageFile::At(keep.join("report.html")));
        }
        let state = fathom_process::ledger::state_folder().ok().filter(|state| can_write(state));
        if let Some(file) = state.map(|state| state.join(NAME)).filter(|file| is_free(file).is_ok()) {
            return Ok(PageFile::At(file));
        }
        try_to_write(&std::env::temp_dir())?;
        Ok(PageFile::Temporary)
    }

    /// Writes the page and returns its path.
    pub(super) fn put(self, page: &str) -> Result<PathBuf> {
        let file = match self {
            PageFile::At(file) => file,
            PageFile::Temporary => new_file()?,
        };
        // A file may have been created there while the recording was shown.
        is_free(&file)?;
        let folder = folder_of(&file);
        std::fs::create_dir_all(folder).map_err(|error| refused(folder, error))?;
        run_page::keep(&file, &format!("{}\n{MARK}\n", page.trim_end()))?;
        Ok(std::path::absolute(&file).unwrap_or(file))
    }
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A new name: a file that this verb creates and marks as its own, which the page then replaces.
fn new_file() -> Result<PathBuf> {
    let failed = |error| refused(&std::env::temp_dir(), error);
    let file = tempfile::Builder::new().prefix("fathom-demo-").suffix(".html").tempfile().map_err(failed)?;
    std::fs::write(file.path(), MARK).map_err(failed)?;
    let (_, path) = file.keep().map_err(|error| failed(error.error))?;
    Ok(path)
}

fn refused(folder: &Path, error: std::io::Error) -> Error {
    Error::io("write the page into", folder, error)
        .with_kind(Kind::Unsupported)
        .advise("name a file in another folder with --output")
}

fn try_to_write(folder: &Path) -> Result<()> {
    tempfile::tempfile_in(folder).map_err(|error| refused(folder, error))?;
    Ok(())
}

/// Whether files can be created in a folder, or in the one in which it would be created.
fn can_write(folder: &Path) -> bool {
    folder.ancestors().find(|one| one.exists()).is_some_and(|one| try_to_write(one).is_ok())
}

/// Refuses a path if it exists and this verb has not made it.
fn is_free(file: &Path) -> Result<()> {
    let ours = match std::fs::symlink_metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(Error::io("look at", file, error).into()),
        Ok(metadata) => metadata.is_file() && is_marked(file),
    };
    if ours {
        return Ok(());
    }
    let what = format!("{} already exists and is not a page of 'fathom demo'", file.display());
    Err(Error::new(Kind::NotOurs, what).advise("name another file with --output").into())
}

fn is_marked(file: &Path) -> bool {
    use std::io::{Read, Seek, SeekFrom};
    let read = || {
        let mut file = std::fs::File::open(file)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        std::io::Result::Ok(tail)
    };
    read().is_ok_and(|tail| String::from_utf8_lossy(&tail).trim_end().ends_with(MARK))
}
