//! The file that says what a cluster is and what runs of it, in the cluster's folder. It holds no secret.
//!
//! It is replaced whole, so that a kill at any moment leaves one that can be read. mlaunch's own file is never written.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_process::ProcessId;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::arguments::Maker;
use crate::topology::Topology;
use crate::version::Version;

/// The file's name.
pub const STATE_FILE: &str = ".fathom_cluster";
/// The layout of the file; a newer one is refused by name.
const FORMAT: u32 = 1;

/// How far the making of a cluster has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Servers were started, and not everything is set up.
    Making,
    /// Sets are initiated, shards added, users made.
    Made,
}

/// What is known of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    format: u32,
    /// The version of Fathom that wrote it.
    pub fathom_version: String,
    /// How far it has come.
    pub phase: Phase,
    /// What was asked for.
    pub topology: Topology,
    /// Its servers, in the order of their ports.
    pub servers: Vec<Server>,
    /// The proxy before its servers, if there is one.
    pub proxy: Option<ProcessId>,
    /// Folders that were made outside of the cluster's, which go with it.
    pub folders: Vec<PathBuf>,
}

/// A server as it was started last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// The port that clients use.
    pub port: u16,
    /// Whose program it is.
    pub maker: Maker,
    /// The program.
    pub program: PathBuf,
    /// Its version; unknown of a cluster that mlaunch made.
    pub version: Option<Version>,
    /// Its arguments; passwords are left out.
    pub arguments: Vec<String>,
    /// The process, as long as it was not stopped by us.
    pub process: Option<ProcessId>,
    /// Control groups that hold its limits.
    pub groups: Vec<PathBuf>,
}

impl State {
    /// The state of a cluster that is about to be made.
    pub fn new(topology: Topology, servers: Vec<Server>) -> State {
        State {
            format: FORMAT,
            fathom_version: env!("CARGO_PKG_VERSION").to_owned(),
            phase: Phase::Making,
            topology,
            servers,
            proxy: None,
            folders: Vec::new(),
        }
    }

    /// Reads the state in a cluster's folder; `None` where there is none.
    pub fn read(folder: &Path) -> Result<Option<State>> {
        let path = folder.join(STATE_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        let malformed = |cause| {
            Error::new(Kind::Malformed, format!("{} is no state of a cluster", path.display())).because(cause)
        };
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let head: Head = serde_json::from_str(&text).map_err(malformed)?;
        if head.format > FORMAT {
            let what = format!("{} was written by a newer Fathom (format {})", path.display(), head.format);
            return Err(Error::new(Kind::Unsupported, what));
        }
        serde_json::from_str(&text).map(Some).map_err(malformed)
    }

    /// Replaces the state in a cluster's folder; when this returns, it survives a power cut.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(STATE_FILE);
        let beside = folder.join(format!("{STATE_FILE}.new"));
        let text = serde_json::to_string_pretty(self).map_err(|cause| {
            Error::new(Kind::Malformed, "the state cannot be written as JSON").because(cause)
        })?;
        let write = || {
            let mut file = File::create(&beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, &path)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|cause| Error::io("write", &path, cause))
    }
}

/// Keeps other calls of `fathom cluster` off the same cluster until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] OwnedFd);

impl Lock {
    /// Takes the lock on an existing folder, or says that somebody else has it.
    pub(crate) fn take(folder: &Path) -> Result<Lock> {
        let file = File::open(folder).map_err(|cause| Error::io("open", folder, cause))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock(file.into())),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let what = format!("another 'fathom cluster' is at work in {}", folder.display());
                Err(Error::new(Kind::Busy, what).advise("wait until it has ended"))
            }
            Err(cause) => Err(Error::io("lock", folder, cause)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Auth;

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(State::read(folder.path()).unwrap(), None);
        let auth = Auth {
            user: Some("me".into()),
            database: "admin".into(),
            roles: vec!["root".into()],
            key_file: None,
        };
        let server = Server {
            port: 27017,
            maker: Maker::Fathom,
            program: "/bin/fathom".into(),
            version: Some(Version::release(4, 4)),
            arguments: vec!["serve".into()],
            process: Some(ProcessId { pid: 7, start_time: 8 }),
            groups: Vec::new(),
        };
        let state = State::new(Topology { auth: Some(auth), ..Topology::default() }, vec![server]);
        state.write(folder.path()).unwrap();
        assert_eq!(State::read(folder.path()).unwrap(), Some(state));
    }

    #[test]
    fn a_newer_or_broken_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (text, kind) in [
            ("{\"format\": 2, \"new\": 1}", Kind::Unsupported),
            ("{", Kind::Malformed),
            ("{\"format\": 1}", Kind::Malformed),
        ] {
            fs::write(folder.path().join(STATE_FILE), text).unwrap();
            assert_eq!(State::read(folder.path()).unwrap_err().kind(), kind, "{text}");
        }
    }

    #[test]
    fn one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path()).unwrap();
        assert_eq!(Lock::take(folder.path()).unwrap_err().kind(), Kind::Busy);
        drop(lock);
        Lock::take(folder.path()).unwrap();
    }
}
