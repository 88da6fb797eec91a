//! The file with the process id, as long as the server runs. One that names somebody else by then is left alone.

use std::path::{Path, PathBuf};

use fathom_errors::Error;

/// A process id file that is ours.
#[derive(Debug)]
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    /// Writes our process id to `path`.
    pub(crate) fn write(path: &Path) -> Result<PidFile, Error> {
        std::fs::write(path, text()).map_err(|error| Error::io("write the process id to", path, error))?;
        Ok(PidFile(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if std::fs::read_to_string(&self.0).is_ok_and(|found| found == text()) {
            // A file that cannot be removed names a process that is gone, which its readers must bear anyway.
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

fn text() -> String {
    format!("{}\n", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_the_server_unless_it_names_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        let file = PidFile::write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text());
        drop(file);
        assert!(!path.exists());
        let file = PidFile::write(&path).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        drop(file);
        assert!(path.exists());
        assert!(PidFile::write(directory.path()).is_err());
    }
}
