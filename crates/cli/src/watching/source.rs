//! What is to be watched, from the command line to running samplers.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use clap::Args;
use fathom_client::Target;
use fathom_errors::{Error, Kind, Result};
use fathom_host::View;
use fathom_monitor::{Batch, Clock, Devices, Monitor, Plan};
use fathom_monitor::{Namespace, Servers, Watched, server_samplers};

use super::under;

/// What to watch, on the command line of every verb that watches.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SourceArgs {
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

/// What is watched.
#[derive(Clone, Debug)]
pub(crate) struct WatchPlan {
    targets: Vec<Target>,
    dir: Option<PathBuf>,
    devices: Vec<String>,
    namespace: Option<String>,
    log: Option<PathBuf>,
    interval: Duration,
    /// The number of the first server in the run: more than 0 where others were watched before it.
    first_member: usize,
}

impl SourceArgs {
    /// Whether anything to watch is named.
    pub(crate) fn names_something(&self) -> bool {
        !self.uri.is_empty() || self.dir.is_some() || !self.device.is_empty()
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
        let targets = self.uri.iter().map(|uri| uri.parse()).collect::<Result<Vec<Target>>>()?;
        let here = (!self.names_something()).then(|| PathBuf::from("."));
        Ok(WatchPlan {
            targets,
            dir: self.dir.clone().or(here),
            devices: self.device.clone(),
            namespace: self.namespace.clone(),
            log: self.log.clone(),
            interval,
            first_member: 0,
        })
    }
}

impl WatchPlan {
    /// The plan beside a load on a deployment: its servers, and the devices below `dir`.
    /// `first_member` is the number of the first server in the run.
    pub(crate) fn of_load(
        uri: &str,
        dir: Option<PathBuf>,
        namespace: Option<String>,
        first_member: usize,
    ) -> Result<WatchPlan> {
        Ok(WatchPlan {
            targets: vec![uri.parse()?],
            dir,
            devices: Vec::new(),
            namespace,
            log: None,
            interval: Duration::from_secs(1),
            first_member,
        })
    }

    /// What is watched, in words, without secrets.
    pub(crate) fn subject(&self) -> String {
        let mut words: Vec<String> = self.targets.iter().map(ToString::to_string).collect();
        words.extend(self.namespace.clone());
        words.extend(self.dir.iter().map(|dir| dir.display().to_string()));
        words.extend(self.devices.iter().cloned());
        words.join(", ")
    }

    /// A directory that stands for the host in the run's facts.
    pub(crate) fn place(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| Path::new(".").to_owned())
    }

    /// What a person named must be there; what follows from it need not.
    ///
    /// # Errors
    /// When the directory or a device is not.
    fn check(&self, view: &View) -> Result<()> {
        if let Some(dir) = &self.dir
            && let Err(error) = std::fs::read_dir(dir)
        {
            return Err(Error::io("look at", dir, error)
                .with_kind(Kind::Unsupported)
                .advise("name a directory of the data on this host"));
        }
        if self.devices.is_empty() {
            return Ok(());
        }
        Devices::Named(self.devices.clone()).check(view)
    }

    /// Starts the samplers.
    pub(super) fn start(&self, clock: Clock) -> Result<(Samplers, Receiver<Batch>)> {
        let view = View::live();
        self.check(&view)?;
        let (sink, batches) = channel();
        let mut first = Batch::new(clock);
        let servers = self.servers(&mut first)?;
        let engines = servers.iter().filter(|watched| watched.role.has_engine());
        let own = |watched: &Watched| watched.dbpath.clone().filter(|_| watched.pid.is_some());
        let engines: Vec<(usize, Option<PathBuf>)> =
            engines.map(|watched| (watched.number, own(watched))).collect();
        let directories = under::directories(&engines, self.dir.as_deref());
        first.facts.extend(under::facts(&view, &directories));
        let processes = servers.iter().filter_map(|watched| Some((watched.number.to_string(), watched.pid?)));
        let namespace = Namespace::new(self.namespace.clone());
        let servers = Servers { watched: servers.clone(), notes: Vec::new() };
        let mut samplers = server_samplers(&servers, &namespace);
        // The servers' own counters are what the view is renewed by; the others keep their periods.
        let is_second = |period: Duration| period == Duration::from_secs(1);
        samplers
            .iter_mut()
            .filter(|(period, _)| is_second(*period))
            .for_each(|(period, _)| *period = self.interval);
        let plan = Plan {
            devices: self.devices(&view, &directories),
            processes: processes.collect(),
            periods: samplers.iter().map(|(period, sampler)| (sampler.name(), *period)).collect(),
            servers: samplers.into_iter().map(|(_, sampler)| sampler).collect(),
            trace: true,
            ..Plan::of_host(Devices::All)
        };
        let schedule = plan.schedule();
        first.notes.extend(schedule.notes);
        // The receiver is ours, so it is there.
        let _ = sink.send(first);
        Ok((Samplers(Monitor::start(schedule.samplers, clock, sink)), batches))
    }

    /// The servers behind the connection strings, with the numbers that they have in the run.
    fn servers(&self, first: &mut Batch) -> Result<Vec<Watched>> {
        let mut watched: Vec<Watched> = Vec::new();
        for target in &self.targets {
            // A server that cannot be reached is the environment's fault.
            let next = self.first_member + watched.len();
            let servers = Servers::find(target, next).map_err(|error| match error.kind() {
                Kind::Io | Kind::Malformed => error.with_kind(Kind::Unsupported),
                _ => error,
            })?;
            let is_known = |one: &&Watched| watched.iter().any(|other| other.address == one.address);
            if let Some(twice) = servers.watched.iter().find(is_known) {
                let what = format!("two connection strings lead to {}", twice.address);
                return Err(Error::usage(what).advise("name each deployment once"));
            }
            first.notes.extend(servers.notes);
            watched.extend(servers.watched);
        }
        match (&self.log, watched.iter_mut().find(|one| one.pid.is_some() && one.role.has_engine())) {
            (Some(log), Some(one)) => one.log = Some(log.clone()),
            (Some(log), None) => {
                let log = log.display();
                first
                    .notes
                    .push(format!("{log} is not read: the server that writes it does not run on this host."));
            }
            (None, _) => {}
        }
        Ok(watched)
    }

    /// The devices to watch: those named, those under what is named, those under the servers that run here.
    fn devices(&self, view: &View, directories: &[(usize, PathBuf)]) -> Option<Devices> {
        if !self.devices.is_empty() {
            return Some(Devices::Named(self.devices.clone()));
        }
        if let Some(dir) = &self.dir {
            return Some(Devices::Under(dir.clone()));
        }
        let mut names: Vec<String> = directories
            .iter()
            .filter_map(|(_, directory)| under::stack(view, directory))
            .map(|stack| stack.top)
            .collect();
        names.sort();
        names.dedup();
        match directories.first() {
            Some(_) if !names.is_empty() => Some(Devices::Named(names)),
            // It says itself what is wrong with it.
            Some((_, directory)) => Some(Devices::Under(directory.clone())),
            None => None,
        }
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
