//! The arguments that several verbs share: the servers and devices to monitor, and the documents and I/O engine of verbs that probe a
//! disk.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fathom_errors::{Error, Result};
use fathom_probe::IoEngine;
use fathom_probe::judge::DatasetSize;
use fathom_session::MonitorSpec;
use fathom_units::Bytes;

use crate::output;

/// The arguments of every verb that watches: the servers, devices and metrics to read.
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
    pub(crate) device: Vec<String>,
    /// Only count this collection's latency [default: all operations]
    #[arg(long, value_name = "DATABASE.COLLECTION", requires = "uri")]
    namespace: Option<String>,
    /// The server's log on this host: slow operations are taken from it
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) log: Vec<PathBuf>,
}

impl MonitorArgs {
    /// Whether anything to watch is named.
    pub(crate) fn names_something(&self) -> bool {
        !self.uri.is_empty() || self.dir.is_some() || !self.device.is_empty()
    }

    /// The specification. If no server or device is named, it is for the devices below the working directory.
    ///
    /// # Errors
    /// When a connection string cannot be read, the namespace has no dot, or a log is not of one server.
    pub(crate) fn spec(&self, interval: Duration) -> Result<MonitorSpec> {
        let log = match self.log.as_slice() {
            [] => None,
            [log] if !self.uri.is_empty() => Some(log.clone()),
            [_] => return Err(Error::usage("--log is the log of a server, and --uri names none")),
            [_, second, ..] => {
                let what = format!("one log is followed at a time, and {} is a second one", second.display());
                return Err(Error::usage(what));
            }
        };
        let here = (!self.names_something()).then(|| PathBuf::from("."));
        let spec = MonitorSpec {
            uris: self.uri.clone(),
            dir: self.dir.clone().or(here),
            devices: self.device.clone(),
            namespace: self.namespace.clone(),
            log,
            interval,
            ..MonitorSpec::default()
        };
        spec.check()?;
        Ok(spec)
    }
}

/// The database whose operations the sentences estimate.
#[derive(Clone, Debug, Args)]
pub(crate) struct DocumentArgs {
    /// Number of documents of the database for which the sentences estimate times [default: 100000000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    documents: Option<u64>,
    /// Size of each of these documents [default: 1K]
    #[arg(long)]
    document_size: Option<Bytes>,
}

impl DocumentArgs {
    /// The documents of the user; an error if their numbers contradict each other.
    pub(crate) fn documents(&self) -> Result<DatasetSize> {
        if self.document_size == Some(Bytes(0)) {
            return Err(Error::usage("--document-size must be at least 1 byte"));
        }
        let default = DatasetSize::default();
        Ok(DatasetSize {
            count: self.documents.unwrap_or(default.count),
            bytes: self.document_size.unwrap_or(default.bytes),
        })
    }

    /// The flag that was given, if any.
    pub(crate) fn flag(&self) -> Option<&'static str> {
        self.documents.map(|_| "--documents").or(self.document_size.map(|_| "--document-size"))
    }
}

/// The value of `--seed`.
pub(crate) fn parse_seed(text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::usage(format!("'{text}' is not a whole number from 0 to {}", u64::MAX)))
}

/// The value of `--rate`; the verb checks its bounds.
pub(crate) fn parse_rate(text: &str) -> Result<f64> {
    text.parse().map_err(|_| Error::usage(format!("'{text}' is not a number of requests a second")))
}

/// io_uring if the kernel allows it, else the thread engine, with a note.
pub(crate) fn default_engine() -> IoEngine {
    match fathom_probe::io_uring_available() {
        Ok(()) => IoEngine::IoUring,
        Err(error) => {
            output::note(&format!("fathom: {error}; probing with psync"));
            IoEngine::Psync
        }
    }
}
