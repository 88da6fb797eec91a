//! The dbPath: checks that it is ours, that no other process has it open, and that the same engine wrote it.
//!
//! mongod keeps `mongod.lock` (a locked file with the process id) and `storage.bson` (the engine). Both are kept here too,
//! with an additional field, because a directory that a real mongod wrote must never be opened by accident.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use bson::{Document, doc};
use fathom_errors::{Error, Kind};

const LOCK: &str = "mongod.lock";
const METADATA: &str = "storage.bson";
/// The folders of the engines' journals, and of all RocksDB files.
const ENGINE_DIRECTORIES: [&str; 2] = ["journal", "db"];

/// A dbPath that this process holds.
#[derive(Debug)]
pub(crate) struct DataDirectory {
    path: PathBuf,
    lock: File,
    /// Whether the last owner did not stop cleanly.
    unclean: bool,
    /// The contents before this process opened it.
    before: DirectoryState,
}

/// The contents of a dbPath before it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirectoryState {
    /// Nothing; the directory does not exist either.
    Nothing,
    /// The directory is empty.
    Empty,
    /// The directory has files of this server.
    Ours,
}

impl DataDirectory {
    /// Takes `path` for `engine`: an empty or absent directory becomes ours, our own is locked, any other is refused.
    pub(crate) fn open(path: &Path, engine: &str, in_set: bool) -> Result<DataDirectory, Error> {
        let existed = path.exists();
        create(path)?;
        refuse_foreign(path)?;
        let before = match (existed, path.join(METADATA).exists()) {
            (_, true) => DirectoryState::Ours,
            (true, false) => DirectoryState::Empty,
            (false, false) => DirectoryState::Nothing,
        };
        let lock_path = path.join(LOCK);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(|error| Error::io("open", &lock_path, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(busy(path, &mut lock)),
            Err(std::fs::TryLockError::Error(error)) => return Err(Error::io("lock", &lock_path, error)),
        }
        let mut owner = String::new();
        let unclean = lock.read_to_string(&mut owner).is_ok_and(|length| length > 0);
        let mut directory = DataDirectory { path: path.to_owned(), lock, unclean, before };
        directory.check_metadata(engine, in_set)?;
        directory.write_pid(&format!("{}\n", std::process::id()))?;
        Ok(directory)
    }

    /// Whether the last owner did not stop cleanly.
    pub(crate) fn was_unclean(&self) -> bool {
        self.unclean
    }

    /// Records a clean shutdown; the next start need not recover.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        self.write_pid("")
    }

    /// Restores the directory after a failed start: files created in an empty directory are deleted. After a failure the
    /// next start treats remaining files as its own.
    pub(crate) fn abandon(mut self) {
        if self.before == DirectoryState::Ours {
            if !self.unclean {
                let _ = self.write_pid("");
            }
            return;
        }
        for entry in std::fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            if ENGINE_DIRECTORIES.contains(&&*name) {
                let _ = std::fs::remove_dir_all(path);
            } else if name == LOCK
                || name == METADATA
                || name.starts_with("WiredTiger")
                || name.ends_with(".wt")
            {
                let _ = std::fs::remove_file(path);
            }
        }
        if self.before == DirectoryState::Nothing {
            let _ = std::fs::remove_dir(&self.path);
        }
    }

    fn write_pid(&mut self, text: &str) -> Result<(), Error> {
        let path = self.path.join(LOCK);
        let mut write = || {
            self.lock.set_len(0)?;
            self.lock.rewind()?;
            self.lock.write_all(text.as_bytes())?;
            self.lock.sync_all()
        };
        write().map_err(|error| Error::io("write", path, error))
    }

    fn check_metadata(&self, engine: &str, in_set: bool) -> Result<(), Error> {
        let path = self.path.join(METADATA);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return self.write_metadata(engine, in_set);
            }
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        let wrote = engine_of(&bytes).unwrap_or_default();
        if wrote == engine {
            return self.check_membership(&bytes, in_set);
        }
        let what = format!(
            "the files in {} were made by the storage engine '{wrote}', not '{engine}'",
            self.path.display()
        );
        Err(Error::new(Kind::Usage, what)
            .with_id("other-engine")
            .advise(format!("use --storageEngine {wrote}, or another --dbpath")))
    }

    /// Refuses to switch between membership in a set, which journals only the oplog, and a standalone server, which journals
    /// all data: neither could recover the other's writes.
    fn check_membership(&self, metadata: &[u8], in_set: bool) -> Result<(), Error> {
        let was_in_set = Document::from_reader(metadata)
            .ok()
            .and_then(|document| document.get_document("fathom").ok()?.get_bool("replicaSet").ok())
            .unwrap_or(false);
        if was_in_set == in_set {
            return Ok(());
        }
        let path = self.path.display();
        let (what, advice) = if was_in_set {
            (
                format!("the files in {path} are those of a replica set's member"),
                "give --replSet with its name",
            )
        } else {
            (
                format!("the files in {path} were made by a server alone, without --replSet"),
                "start an empty --dbpath with --replSet, and bring the data over with mongodump and mongorestore",
            )
        };
        Err(Error::new(Kind::Usage, what).advise(advice))
    }

    fn write_metadata(&self, engine: &str, in_set: bool) -> Result<(), Error> {
        let mut ours = doc! { "version": env!("CARGO_PKG_VERSION") };
        if in_set {
            ours.insert("replicaSet", true);
        }
        let document = doc! { "storage": { "engine": engine }, "fathom": ours };
        let path = self.path.join(METADATA);
        let bytes = document
            .to_vec()
            .map_err(|error| Error::new(Kind::Io, "cannot encode storage.bson").because(error))?;
        let write = || {
            let mut file = File::create(&path)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(|error| Error::io("write", &path, error))
    }
}

fn engine_of(bytes: &[u8]) -> Option<String> {
    let document = Document::from_reader(bytes).ok()?;
    document.get_document("fathom").ok()?;
    Some(document.get_document("storage").ok()?.get_str("engine").ok()?.to_owned())
}

/// Makes the directory with its parents, and explains an error for an existing path: `mkdir` would report "File exists".
fn create(path: &Path) -> Result<(), Error> {
    let Err(error) = std::fs::create_dir_all(path) else { return Ok(()) };
    if error.kind() != std::io::ErrorKind::AlreadyExists {
        return Err(Error::io("make the dbPath", path, error));
    }
    match std::fs::metadata(path) {
        Ok(_) => {
            let what = format!("the dbPath {} is not a directory", path.display());
            Err(Error::new(Kind::NotOurs, what).with_id("not-a-directory"))
        }
        Err(error) => Err(Error::io("read the dbPath", path, error)),
    }
}

/// Refuses a directory that holds files but is not ours, before anything is created in it.
fn refuse_foreign(path: &Path) -> Result<(), Error> {
    let listing = std::fs::read_dir(path).map_err(|error| Error::io("read the dbPath", path, error))?;
    let mut names = Vec::new();
    for entry in listing {
        names.push(entry.map_err(|error| Error::io("read the dbPath", path, error))?.file_name());
    }
    // A new file system contains the first; a start that ended before its first write left the second.
    names.retain(|name| name != "lost+found" && name != LOCK);
    if names.is_empty() || std::fs::read(path.join(METADATA)).ok().as_deref().and_then(engine_of).is_some() {
        return Ok(());
    }
    let what = format!("{} holds files that fathom serve did not make", path.display());
    Err(Error::new(Kind::NotOurs, what)
        .with_id("directory-not-ours")
        .advise("give an empty directory by --dbpath; a real mongod's files are never opened"))
}

fn busy(path: &Path, lock: &mut File) -> Error {
    let mut owner = String::new();
    let _ = lock.read_to_string(&mut owner);
    let owner = owner.trim();
    let by = if owner.is_empty() { String::new() } else { format!(" (process {owner})") };
    Error::new(Kind::Busy, format!("the dbPath {} is in use by another server{by}", path.display()))
        .with_id("dbpath-in-use")
        .advise("stop it, or give another --dbpath")
}
