//! The state file of a cluster, in its folder: the topology and the running processes. It holds no secret.
//!
//! It is replaced as a whole, so that a kill at any moment leaves a readable file. mlaunch's own file is never written.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fathom_errors::{Error, Kind, Result};
use fathom_process::ProcessId;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::arguments::Maker;
use crate::topology::Topology;
use crate::version::Version;

pub const STATE_FILE: &str = ".fathom_cluster";
/// The format version of the file; a newer one is refused by name.
const FORMAT: u32 = 1;

/// The progress of a cluster's creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreationPhase {
    /// Servers were started, but not everything is set up.
    Making,
    /// Sets are initiated, shards added, users created.
    Made,
}

/// The state of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterState {
    format: u32,
    /// The version of Fathom that wrote it.
    pub fathom_version: String,
    /// The progress of its creation.
    pub phase: CreationPhase,
    pub topology: Topology,
    /// Its servers, in the order of their ports.
    pub servers: Vec<ServerState>,
    /// The proxy in front of its servers, if there is one.
    pub proxy: Option<ProcessId>,
    /// Folders and files that were made for it, outer ones first, and are removed with it. A folder that was there before is not listed.
    #[serde(default)]
    pub made: Vec<PathBuf>,
    /// Whether mlaunch made it; a state of an older version does not say.
    #[serde(default)]
    pub made_by_mlaunch: Option<bool>,
    /// The folder in which it was made, and the time in nanoseconds since 1970: a copy of the folder has the same. Older versions
    /// recorded neither.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    #[serde(default)]
    pub made_ns: Option<u64>,
}

/// A server with its last command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerState {
    /// The port that clients use.
    pub port: u16,
    /// The maker of its program.
    pub maker: Maker,
    pub program: PathBuf,
    /// Its version; unknown for a cluster that mlaunch created.
    pub version: Option<Version>,
    /// Its arguments, without passwords.
    pub arguments: Vec<String>,
    /// The process, until we have stopped it.
    pub process: Option<ProcessId>,
    /// Control groups that hold its limits.
    pub groups: Vec<PathBuf>,
}

impl ServerState {
    /// The program with its version for messages: `mongod 7.0.12`, or `fathom 0.1.0 (WiredTiger)` for a built-in server.
    pub fn title(&self) -> String {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        match (self.maker, self.version) {
            (Maker::Fathom, _) => format!("fathom {} ({})", env!("CARGO_PKG_VERSION"), self.kind()),
            (Maker::MongoDb, Some(version)) => format!("{name} {version}"),
            (Maker::MongoDb, None) => name.into_owned(),
        }
    }

    /// The engine of a built-in server, or that it is a router.
    fn kind(&self) -> &str {
        let value = |name: &str| {
            let place = self.arguments.iter().position(|word| word == name)?;
            self.arguments.get(place + 1).map(String::as_str)
        };
        if value("--configdb").is_some() {
            return "router";
        }
        match value("--storageEngine") {
            None | Some("wiredTiger") => "WiredTiger",
            Some("rocksdb") => "RocksDB",
            Some(other) => other,
        }
    }
}

impl ClusterState {
    /// The state of a cluster whose creation begins.
    pub fn new(topology: Topology, servers: Vec<ServerState>) -> ClusterState {
        ClusterState {
            format: FORMAT,
            fathom_version: env!("CARGO_PKG_VERSION").to_owned(),
            phase: CreationPhase::Making,
            topology,
            servers,
            proxy: None,
            made: Vec::new(),
            made_by_mlaunch: Some(false),
            folder: None,
            made_ns: None,
        }
    }

    /// Records that the cluster is made in this folder, which exists, now.
    pub(crate) fn begin_in(&mut self, folder: &Path) -> Result<()> {
        self.folder = Some(folder.canonicalize().map_err(|cause| Error::io("find", folder, cause))?);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.made_ns = u64::try_from(since.as_nanos()).ok();
        Ok(())
    }

    /// Reads the state in a cluster's folder; `None` if there is none. Of a folder that was moved, what was made outside of it is no
    /// longer listed: it may be another's by now.
    ///
    /// # Errors
    /// When it cannot be read, or the folder is a copy of that of a cluster: its processes and files would be taken for the copy's.
    pub fn read(folder: &Path) -> Result<Option<ClusterState>> {
        let Some(mut state) = ClusterState::parse(folder)? else { return Ok(None) };
        let here = folder.canonicalize().map_err(|cause| Error::io("find", folder, cause))?;
        let Some(home) = state.folder.clone().filter(|home| *home != here) else { return Ok(Some(state)) };
        let original = ClusterState::parse(&home).ok().flatten();
        if original.is_some_and(|original| original.made_ns == state.made_ns) {
            let what = format!("{} is a copy of the cluster in {}", folder.display(), home.display());
            return Err(Error::new(Kind::NotOurs, what).advise(
                "name that one with --dir; its servers and ports are recorded in the copy too, so remove the copy by hand",
            ));
        }
        let moved = |path: &PathBuf| Some(here.join(path.strip_prefix(&home).ok()?));
        state.made = state.made.iter().filter_map(moved).collect();
        state.folder = Some(here);
        Ok(Some(state))
    }

    fn parse(folder: &Path) -> Result<Option<ClusterState>> {
        let path = folder.join(STATE_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        let malformed = |cause| {
            Error::new(Kind::Malformed, format!("{} is not the state of a cluster", path.display()))
                .because(cause)
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

/// Keeps other calls of `fathom cluster` away from the same cluster until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] OwnedFd);

impl Lock {
    /// Takes the lock on an existing folder, or reports that another process has it.
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
        assert_eq!(ClusterState::read(folder.path()).unwrap(), None);
        let auth = Auth {
            user: Some("me".into()),
            database: "admin".into(),
            roles: vec!["root".into()],
            key_file: None,
        };
        let server = ServerState {
            port: 27017,
            maker: Maker::Fathom,
            program: "/bin/fathom".into(),
            version: Some(Version::release(4, 4)),
            arguments: vec!["serve".into()],
            process: Some(ProcessId { pid: 7, start_time: 8 }),
            groups: Vec::new(),
        };
        let state = ClusterState::new(Topology { auth: Some(auth), ..Topology::default() }, vec![server]);
        state.write(folder.path()).unwrap();
        assert_eq!(ClusterState::read(folder.path()).unwrap(), Some(state));
    }

    #[test]
    fn a_server_says_what_program_it_is() {
        let title = |maker, program: &str, version, arguments: &str| {
            let server = ServerState {
                port: 1,
                maker,
                program: program.into(),
                version,
                arguments: arguments.split(' ').map(str::to_owned).collect(),
                process: None,
                groups: Vec::new(),
            };
            server.title()
        };
        let own = |arguments: &str| title(Maker::Fathom, "/opt/x", None, arguments);
        let of_ours = |kind: &str| format!("fathom {} ({kind})", env!("CARGO_PKG_VERSION"));
        assert_eq!(own("serve --dbpath /d"), of_ours("WiredTiger"));
        assert_eq!(own("serve --storageEngine rocksdb --dbpath /d"), of_ours("RocksDB"));
        assert_eq!(own("route --configdb c/localhost:1"), of_ours("router"));
        let release = Some(Version { major: 7, minor: 0, patch: 12 });
        assert_eq!(title(Maker::MongoDb, "/usr/bin/mongod", release, "--port 1"), "mongod 7.0.12");
        assert_eq!(title(Maker::MongoDb, "mongos", None, ""), "mongos");
    }

    /// `destroy` of a copy ended the servers of the original and removed its key file.
    #[test]
    fn a_copy_of_a_cluster_is_refused_and_a_moved_one_keeps_what_is_in_it() {
        let scratch = tempfile::tempdir().unwrap();
        let [home, other] = ["home", "other"].map(|name| scratch.path().canonicalize().unwrap().join(name));
        [&home, &other].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let mut state = ClusterState::new(Topology::default(), Vec::new());
        state.begin_in(&home).unwrap();
        state.made = vec![scratch.path().to_owned(), home.clone(), home.join("keyfile")];
        state.write(&home).unwrap();
        assert_eq!(ClusterState::read(&home).unwrap().as_ref(), Some(&state));
        fs::copy(home.join(STATE_FILE), other.join(STATE_FILE)).unwrap();
        let refused = ClusterState::read(&other).unwrap_err();
        assert_eq!(refused.kind(), Kind::NotOurs);
        assert!(refused.to_string().contains(&format!("a copy of the cluster in {}", home.display())));
        // Another cluster in the place of the first, which was moved.
        let mut later = ClusterState::new(Topology::default(), Vec::new());
        later.begin_in(&home).unwrap();
        later.write(&home).unwrap();
        let moved = ClusterState::read(&other).unwrap().unwrap();
        assert_eq!(moved.made, [other.clone(), other.join("keyfile")]);
        fs::remove_dir_all(&home).unwrap();
        assert_eq!(ClusterState::read(&other).unwrap().unwrap(), moved);
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
            assert_eq!(ClusterState::read(folder.path()).unwrap_err().kind(), kind, "{text}");
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
