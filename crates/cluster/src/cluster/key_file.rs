//! The secret that the servers of a cluster share: a file that only its owner may read.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fathom_errors::{Error, Kind, Result};

use crate::topology::Topology;

/// How many random bytes mlaunch takes; in base64 they are within the 1024 characters that a key may have.
const KEY_BYTES: usize = 753;

/// Where the key file of a cluster is, if it has one.
pub(super) fn of(topology: &Topology, folder: &Path) -> Option<PathBuf> {
    let auth = topology.auth.as_ref()?;
    Some(auth.key_file.clone().unwrap_or_else(|| folder.join("keyfile")))
}

/// Makes one, unless it is there.
pub(super) fn make(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut key = vec![0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|cause| {
        Error::new(Kind::Io, "the kernel gives no random numbers").because(cause.to_string())
    })?;
    let text = STANDARD.encode(&key);
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened
        .and_then(|mut file| writeln!(file, "{text}"))
        .map_err(|cause| Error::io("write the key file", path, cause))
}
