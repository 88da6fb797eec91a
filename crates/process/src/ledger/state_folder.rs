//! The state folder, which keeps undo journals and run folders beyond a run.
//!
//! If the home of the user cannot be written (`nobody`, a service, a container with a read-only root), the folder is a private one among the
//! temporary files. A folder that the user named is not replaced, and a folder of another user is not trusted.

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use rustix::fs::{Access, access};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFolder {
    pub path: PathBuf,
    /// The reason that it is not the usual folder, without a full stop; `None` if it is.
    pub reason: Option<String>,
}

impl StateFolder {
    /// `$FATHOM_STATE`, `$XDG_STATE_HOME/fathom` or `~/.local/state/fathom` (the XDG base directory specification). If the latter two cannot be
    /// written, it is `fathom-UID` in the folder for temporary files, which is then created.
    ///
    /// # Errors When neither folder can be used.
    pub fn find() -> Result<StateFolder> {
        let (path, reason) = match standard() {
            Ok((path, is_named)) if is_named || can_write(&path.join("undo")) => {
                return Ok(StateFolder { path, reason: None });
            }
            Ok((path, _)) => (Some(path.clone()), format!("{} cannot be written", path.display())),
            Err(error) => (None, error.to_string()),
        };
        let substitute = substitute();
        match (make_private(&substitute), path) {
            (true, _) => Ok(StateFolder { path: substitute, reason: Some(reason) }),
            // The writer reports the errors of this folder.
            (false, Some(path)) => Ok(StateFolder { path, reason: None }),
            (false, None) => {
                let what = "there is no home folder to keep the undo journal in";
                Err(Error::new(Kind::NotFound, what)
                    .advise("set FATHOM_STATE to a folder that can be written"))
            }
        }
    }

    /// All folders that this user's processes may have used, for finding their remains.
    pub(super) fn all() -> Result<Vec<PathBuf>> {
        let found = StateFolder::find()?.path;
        // Another user's journals there cannot be read, and are left to that user.
        let can_list = |path: &PathBuf| access(path.join("undo"), Access::READ_OK | Access::EXEC_OK).is_ok();
        let others = [
            standard().ok().map(|(path, _)| path).filter(can_list),
            Some(substitute()).filter(|path| is_private(path)),
        ];
        let mut folders = vec![found];
        for other in others.into_iter().flatten() {
            if !folders.contains(&other) {
                folders.push(other);
            }
        }
        Ok(folders)
    }
}

/// The path of the state folder.
///
/// # Errors
/// As [`StateFolder::find`].
pub fn state_folder() -> Result<PathBuf> {
    Ok(StateFolder::find()?.path)
}

/// The folder by environment and home, and whether it was named for this program.
fn standard() -> Result<(PathBuf, bool)> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    if let Some(value) = env::var_os("FATHOM_STATE").filter(|value| !value.is_empty()) {
        let path = std::path::absolute(&value);
        return path.map(|path| (path, true)).map_err(|e| Error::io("resolve", PathBuf::from(&value), e));
    }
    if let Some(folder) = absolute("XDG_STATE_HOME") {
        return Ok((folder.join("fathom"), false));
    }
    let home = absolute("HOME").or_else(|| {
        // For a service manager that sets no HOME. The C library's own look-up would load modules of the host, which a static program cannot.
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        home_of(rustix::process::getuid().as_raw(), &users)
    });
    home.map(|home| (home.join(".local/state/fathom"), false))
        .ok_or_else(|| Error::new(Kind::NotFound, "there is no home folder"))
}

/// The home folder of a user in a text like `/etc/passwd` (passwd(5)).
fn home_of(user: u32, users: &str) -> Option<PathBuf> {
    let mut users = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let fields = users.find(|fields| fields.get(2).is_some_and(|id| id.parse() == Ok(user)))?;
    fields.get(5).map(PathBuf::from).filter(|home| home.is_absolute())
}

fn substitute() -> PathBuf {
    env::temp_dir().join(format!("fathom-{}", rustix::process::getuid().as_raw()))
}

/// Returns whether a folder can be written, or made below its first existing parent.
fn can_write(path: &Path) -> bool {
    let existing = path.ancestors().find(|path| fs::symlink_metadata(path).is_ok());
    existing.is_some_and(|path| access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok())
}

/// Makes a folder that only its user may write, or accepts an existing one.
fn make_private(path: &Path) -> bool {
    // It may exist already; its type and owner are checked below.
    let _ = DirBuilder::new().mode(0o700).create(path);
    is_private(path) && can_write(path)
}

/// Returns whether it is a folder of this user that no other user may write; a link does not count.
fn is_private(path: &Path) -> bool {
    let own = rustix::process::getuid().as_raw();
    fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == own && found.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_home_folder_of_a_user_without_home_is_in_passwd() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nmongodb:x:103:65534::/home/mongodb:/usr/sbin/nologin\nnone:x:7:7:::\n";
        assert_eq!(home_of(103, users), Some(PathBuf::from("/home/mongodb")));
        assert_eq!(home_of(7, users), None);
        assert_eq!(home_of(8, users), None);
    }

    #[test]
    fn a_folder_that_others_may_write_and_a_link_are_not_trusted() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("own");
        assert!(make_private(&folder) && make_private(&folder), "made, and found");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!make_private(&folder));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        let link = scratch.path().join("link");
        symlink(&folder, &link).unwrap();
        assert!(!make_private(&link));
        assert!(can_write(&scratch.path().join("a/b/c")), "it could be made");
        let file = scratch.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(!make_private(&file));
    }
}
