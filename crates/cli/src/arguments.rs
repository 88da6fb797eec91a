//! The arguments that several verbs share: what to monitor, for the verbs that watch; documents and I/O engine, for those that probe a
//! disk.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fathom_errors::{Error, Result};
use fathom_probe::Engine;
use fathom_probe::judge::Documents;
use fathom_session::MonitorSpec;
use fathom_units::Bytes;

use crate::output;

/// What to watch, on the command line of every verb that watches.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MonitorArgs {
    /// The deployment to watch: one server, a replica set, or routers; repeated, several side by side
    #[arg(long, value_name = "URI")]
    uri: Vec<String>,
    /// A directory of the data on this host: the devices below it are watched
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// A device to watch, by the kernel's name; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "dir")]
    device: Vec<String>,
    /// The collection whose latency counts, without which that of all operations does
    #[arg(long, value_name = "DATABASE.COLLECTION", requires = "uri")]
    namespace: Option<String>,
    /// The server's log on this host: slow operations are taken from it
    #[arg(long, value_name = "PATH", requires = "uri")]
    log: Option<PathBuf>,
}

impl MonitorArgs {
    /// Whether anything to watch is named.
    pub(crate) fn names_something(&self) -> bool {
        !self.uri.is_empty() || self.dir.is_some() || !self.device.is_empty()
    }

    /// The specification; where nothing is named, of the devices below the working directory.
    ///
    /// # Errors
    /// When a connection string cannot be read, or the namespace has no dot.
    pub(crate) fn spec(&self, interval: Duration) -> Result<MonitorSpec> {
        let here = (!self.names_something()).then(|| PathBuf::from("."));
        let spec = MonitorSpec {
            uris: self.uri.clone(),
            dir: self.dir.clone().or(here),
            devices: self.device.clone(),
            namespace: self.namespace.clone(),
            log: self.log.clone(),
            interval,
            ..MonitorSpec::default()
        };
        spec.check()?;
        Ok(spec)
    }
}

/// The documents that the sentences speak of.
#[derive(Clone, Debug, Args)]
pub(crate) struct DocumentArgs {
    /// Documents to speak of in sentences
    #[arg(long, default_value_t = Documents::default().count, value_parser = clap::value_parser!(u64).range(1..))]
    documents: u64,
    /// Bytes of each of them
    #[arg(long, default_value = "1K")]
    document_size: Bytes,
}

impl DocumentArgs {
    /// The same, refused where it makes no sense.
    pub(crate) fn documents(&self) -> Result<Documents> {
        if self.document_size == Bytes(0) {
            return Err(Error::usage("documents of 0 bytes make no sense"));
        }
        Ok(Documents { count: self.documents, bytes: self.document_size })
    }
}

/// io_uring where the kernel gives it; the thread engine, with a note, where it does not.
pub(crate) fn default_engine() -> Engine {
    match fathom_probe::io_uring_available() {
        Ok(()) => Engine::IoUring,
        Err(error) => {
            output::note(&format!("fathom: {error}; probing with psync"));
            Engine::Psync
        }
    }
}
