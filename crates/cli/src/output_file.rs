//! A file that a verb writes for its user: either complete or absent.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use tempfile::NamedTempFile;

/// A file under a temporary name, which is deleted unless it is persisted.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    temporary: NamedTempFile,
}

impl OutputFile {
    /// Creates it in the directory of `path`, or of the file to which a symbolic link there leads.
    ///
    /// # Errors
    /// When it cannot be created, or something else than a file is there: it would be replaced, also a device such as `/dev/null`.
    pub(crate) fn create(path: &Path) -> Result<OutputFile> {
        let path = &target_of(path)?;
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let temporary = NamedTempFile::new_in(directory).map_err(|cause| cannot_write(path, cause))?;
        Ok(OutputFile { path: path.to_owned(), temporary })
    }

    pub(crate) fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Gives it its name. An existing file of that name is an error unless `is_replaced`.
    pub(crate) fn persist(self, is_replaced: bool) -> Result<()> {
        // A temporary file is readable by its owner only, while this one is meant to be given to others.
        let opened = self.temporary.as_file().set_permissions(Permissions::from_mode(0o644));
        opened.map_err(|cause| cannot_write(&self.path, cause))?;
        let persisted = match is_replaced {
            true => self.temporary.persist(&self.path),
            false => self.temporary.persist_noclobber(&self.path),
        };
        match persisted {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                let what = format!("{} already exists", self.path.display());
                Err(Error::new(Kind::NotOurs, what).advise("--force replaces it"))
            }
            Err(error) => Err(cannot_write(&self.path, error.error)),
        }
    }
}

/// The file that a path means: that to which a symbolic link leads.
fn target_of(path: &Path) -> Result<PathBuf> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            let what = format!("{} is not a file, so nothing replaces it", path.display());
            Err(Error::new(Kind::NotOurs, what).advise("name another file with --output"))
        }
        Ok(_) if path.is_symlink() => path.canonicalize().map_err(|cause| cannot_write(path, cause)),
        _ => Ok(path.to_owned()),
    }
}

/// The error for a file that cannot be written. Its kind is that of the environment, whatever the kernel's reason.
pub(crate) fn cannot_write(path: &Path, cause: io::Error) -> Error {
    let error = Error::io("write", path, cause);
    let kind = if error.kind() == Kind::Io { Kind::Unsupported } else { error.kind() };
    error.with_kind(kind).advise("name another file with --output")
}
