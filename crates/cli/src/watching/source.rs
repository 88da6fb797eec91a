//! What is to be watched, from the command line to running samplers.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use clap::Args;
use fathom_client::Target;
use fathom_errors::{Error, Result};
use fathom_monitor::{Batch, Clock, Devices, Monitor, Plan};

/// What to watch, on the command line of every verb that watches.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SourceArgs {
    /// The deployment to watch: one server, a replica set, or routers
    #[arg(long, value_name = "URI")]
    uri: Option<String>,
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

/// What is watched.
#[derive(Clone, Debug)]
pub(crate) struct WatchPlan {
    target: Option<Target>,
    dir: Option<PathBuf>,
    devices: Vec<String>,
    namespace: Option<String>,
    log: Option<PathBuf>,
    interval: Duration,
}

impl SourceArgs {
    /// Whether anything to watch is named.
    pub(crate) fn names_something(&self) -> bool {
        self.uri.is_some() || self.dir.is_some() || !self.device.is_empty()
    }

    /// The plan; where nothing is named, the devices below the working directory.
    ///
    /// # Errors
    /// When the connection string is none, or the namespace has no dot.
    pub(crate) fn plan(&self, interval: Duration) -> Result<WatchPlan> {
        if let Some(namespace) = &self.namespace
            && namespace.split_once('.').is_none_or(|(database, name)| database.is_empty() || name.is_empty())
        {
            let what = format!("'{namespace}' is no namespace");
            return Err(Error::usage(what).advise("write DATABASE.COLLECTION, as in shop.orders"));
        }
        let target = self.uri.as_deref().map(str::parse::<Target>).transpose()?;
        let here = (!self.names_something()).then(|| PathBuf::from("."));
        Ok(WatchPlan {
            target,
            dir: self.dir.clone().or(here),
            devices: self.device.clone(),
            namespace: self.namespace.clone(),
            log: self.log.clone(),
            interval,
        })
    }
}

impl WatchPlan {
    /// The plan beside a load on a deployment: its servers, and the devices below `dir`.
    pub(crate) fn of_load(
        uri: &str,
        dir: Option<PathBuf>,
        namespace: Option<String>,
        _first_member: usize,
    ) -> Result<WatchPlan> {
        Ok(WatchPlan {
            target: Some(uri.parse()?),
            dir,
            devices: Vec::new(),
            namespace,
            log: None,
            interval: Duration::from_secs(1),
        })
    }

    /// What is watched, in words, without secrets.
    pub(crate) fn subject(&self) -> String {
        let mut words: Vec<String> = self.target.iter().map(ToString::to_string).collect();
        words.extend(self.namespace.clone());
        words.extend(self.dir.iter().map(|dir| dir.display().to_string()));
        words.extend(self.devices.iter().cloned());
        words.join(", ")
    }

    /// A directory that stands for the host in the run's facts.
    pub(crate) fn place(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| Path::new(".").to_owned())
    }

    /// Starts the samplers.
    pub(super) fn start(&self, clock: Clock) -> Result<(Samplers, Receiver<Batch>)> {
        let (sink, batches) = channel();
        let devices = match (&self.dir, self.devices.as_slice()) {
            (Some(dir), _) => Some(Devices::Under(dir.clone())),
            (None, []) => None,
            (None, names) => Some(Devices::Named(names.to_vec())),
        };
        let plan = Plan { devices, trace: true, ..Plan::of_host(Devices::All) };
        let schedule = plan.schedule();
        let mut first = Batch::new(clock);
        first.notes = schedule.notes;
        // The receiver is ours, so it is there.
        let _ = sink.send(first);
        Ok((Samplers(Monitor::start(schedule.samplers, clock, sink)), batches))
    }
}

/// Samplers that run.
pub(super) struct Samplers(Monitor);

impl Samplers {
    /// Ends them; what they still had is with the receiver then.
    pub(super) fn stop(self) {
        let _ = self.0.stop();
    }
}
