//! The specification of monitoring, and the start of its samplers.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use fathom_client::Target;
use fathom_errors::{Error, Kind, Result};
use fathom_host::View;
use fathom_monitor::{
    Batch, Clock, Devices, Monitor, MonitorPlan, Namespace, Servers, WatchedServer, server_samplers,
};
use fathom_record::disk::Entry;
use serde::{Deserialize, Serialize};

use crate::device_stack;

/// The default interval between two reads of the servers' counters.
const INTERVAL: Duration = Duration::from_secs(1);

/// The systems to monitor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MonitorSpec {
    /// The connection strings of deployments.
    pub uris: Vec<String>,
    /// A directory of the data on this host: the devices below it are read.
    pub dir: Option<PathBuf>,
    /// Devices by the kernel's names, in place of those below `dir`.
    pub devices: Vec<String>,
    /// `DATABASE.COLLECTION` whose latency counts; without it, that of all operations counts.
    pub namespace: Option<String>,
    /// The log of a server on this host: slow operations are taken from it.
    pub log: Option<PathBuf>,
    /// The interval between two reads of the servers' counters.
    pub interval: Duration,
    /// The length of the window for judgements; without a limit if absent.
    pub hindsight: Option<Duration>,
    /// The length of the monitoring. Without it, the caller ends the monitoring; during a load, the load does.
    pub time: Option<Duration>,
    /// True if the window is judged at the end.
    pub is_judged: bool,
    /// True if a failure to start is an error; otherwise it is a note.
    pub is_required: bool,
    /// Results of earlier runs for the judgement, such as the steps of a probe of the same device.
    pub known_results: Vec<Entry>,
    /// The number of the first server in the run: above 0 if others were monitored before it.
    pub first_member: usize,
}

impl Default for MonitorSpec {
    fn default() -> MonitorSpec {
        MonitorSpec {
            uris: Vec::new(),
            dir: None,
            devices: Vec::new(),
            namespace: None,
            log: None,
            interval: INTERVAL,
            hindsight: None,
            time: None,
            is_judged: false,
            is_required: true,
            known_results: Vec::new(),
            first_member: 0,
        }
    }
}

impl MonitorSpec {
    /// Refuses connection strings that cannot be read and a namespace without a dot; opens nothing.
    ///
    /// # Errors
    /// `Kind::Usage`, with one sentence.
    pub fn check(&self) -> Result<()> {
        if let Some(namespace) = &self.namespace
            && namespace.split_once('.').is_none_or(|(database, name)| database.is_empty() || name.is_empty())
        {
            let what = format!("'{namespace}' is not a namespace");
            return Err(Error::usage(what).advise("write DATABASE.COLLECTION, as in shop.orders"));
        }
        self.targets().map(drop)
    }

    fn targets(&self) -> Result<Vec<Target>> {
        self.uris.iter().map(|uri| uri.parse()).collect()
    }

    /// The monitored systems in words, without secrets.
    pub fn subject(&self) -> String {
        let targets = self.targets().unwrap_or_default();
        let mut words: Vec<String> = targets.iter().map(ToString::to_string).collect();
        words.extend(self.namespace.clone());
        words.extend(self.dir.iter().map(|dir| dir.display().to_string()));
        words.extend(self.devices.iter().cloned());
        words.join(", ")
    }

    /// The directory that the facts of the run describe.
    pub fn directory(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| Path::new(".").to_owned())
    }

    /// Refuses a directory, a log and devices that do not exist or cannot be read. Directories that follow from the named ones may be
    /// missing.
    fn check_sources(&self, view: &View) -> Result<()> {
        if let Some(log) = &self.log
            && let Err(error) = std::fs::metadata(log).and_then(|_| std::fs::File::open(log))
        {
            return Err(Error::io("read the log", log, error)
                .with_kind(Kind::Unsupported)
                .advise("name the log of the server on this host"));
        }
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

    pub(crate) fn start(&self, clock: Clock) -> Result<(Monitor, Receiver<Batch>)> {
        let view = View::live();
        self.check_sources(&view)?;
        let (sink, batches) = channel();
        let mut first = Batch::new(clock);
        let servers = self.servers(&mut first)?;
        let engines = servers.iter().filter(|watched| watched.role.has_engine());
        let own = |watched: &WatchedServer| watched.dbpath.clone().filter(|_| watched.pid.is_some());
        let engines: Vec<(usize, Option<PathBuf>)> =
            engines.map(|watched| (watched.number, own(watched))).collect();
        let directories = device_stack::directories(&engines, self.dir.as_deref());
        first.facts.extend(device_stack::facts(&view, &directories));
        first.notes.extend(device_stack::notes(&view, &directories));
        let processes = servers.iter().filter_map(|watched| Some((watched.number.to_string(), watched.pid?)));
        let namespace = Namespace::new(self.namespace.clone());
        let servers = Servers { watched: servers.clone(), notes: Vec::new() };
        let mut samplers = server_samplers(&servers, &namespace);
        // The interval applies to the servers' own counters, which renew the view; other samplers keep their periods.
        let is_second = |period: Duration| period == Duration::from_secs(1);
        samplers
            .iter_mut()
            .filter(|(period, _)| is_second(*period))
            .for_each(|(period, _)| *period = self.interval);
        let plan = MonitorPlan {
            devices: self.devices(&view, &directories),
            processes: processes.collect(),
            periods: samplers.iter().map(|(period, sampler)| (sampler.name(), *period)).collect(),
            servers: samplers.into_iter().map(|(_, sampler)| sampler).collect(),
            trace: true,
            ..MonitorPlan::for_host(Devices::All)
        };
        let schedule = plan.schedule();
        first.notes.extend(schedule.notes);
        // The receiver is ours, so it still exists.
        let _ = sink.send(first);
        Ok((Monitor::start(schedule.samplers, clock, sink), batches))
    }

    /// The servers behind the connection strings, with their numbers in the run. None of a deployment that was named is an error: a view of
    /// nothing would pass for a view of a server at rest.
    fn servers(&self, first: &mut Batch) -> Result<Vec<WatchedServer>> {
        let mut watched: Vec<WatchedServer> = Vec::new();
        for target in &self.targets()? {
            // A server that cannot be reached is the environment's fault.
            let next = self.first_member + watched.len();
            let servers = Servers::find(target, next).map_err(|error| match error.kind() {
                Kind::Io | Kind::Malformed => error.with_kind(Kind::Unsupported),
                _ => error,
            })?;
            let is_known = |one: &&WatchedServer| watched.iter().any(|other| other.address == one.address);
            if let Some(twice) = servers.watched.iter().find(is_known) {
                let what = format!("two connection strings lead to {}", twice.address);
                return Err(Error::usage(what).advise("name each deployment once"));
            }
            first.notes.extend(servers.notes);
            watched.extend(servers.watched);
        }
        if watched.is_empty() && !self.uris.is_empty() {
            let what = format!("no server is left to watch: {}", first.notes.join("; "));
            return Err(Error::new(Kind::NotFound, what).advise("name a server that holds data, or a router"));
        }
        if let Some(log) = &self.log {
            first.notes.extend(assign_log(log, &mut watched));
        }
        Ok(watched)
    }

    /// The devices to watch: the named ones, else those under the named directory, else those under the servers that run here.
    fn devices(&self, view: &View, directories: &[(usize, PathBuf)]) -> Option<Devices> {
        if !self.devices.is_empty() {
            return Some(Devices::Named(self.devices.clone()));
        }
        if let Some(dir) = &self.dir {
            return Some(Devices::Under(dir.clone()));
        }
        let mut names: Vec<String> = directories
            .iter()
            .filter_map(|(_, directory)| device_stack::stack(view, directory))
            .flat_map(|stack| stack.top_names())
            .collect();
        names.sort();
        names.dedup();
        match directories.first() {
            Some(_) if !names.is_empty() => Some(Devices::Named(names)),
            // Its own check reports the error.
            Some((_, directory)) => Some(Devices::Under(directory.clone())),
            None => None,
        }
    }
}

/// Gives a named log to the server that writes it: the one that reports this path, else the first that runs on this host. Returns a note if
/// none runs here, or if several do and none reports it.
fn assign_log(log: &Path, watched: &mut [WatchedServer]) -> Option<String> {
    let is_here = |one: &&mut WatchedServer| one.pid.is_some() && one.role.has_engine();
    let is_same = |other: &Path| other.canonicalize().ok() == log.canonicalize().ok();
    let mut here: Vec<&mut WatchedServer> = watched.iter_mut().filter(is_here).collect();
    let owner = here.iter().position(|one| one.log.as_deref().is_some_and(is_same));
    let (count, shown) = (here.len(), log.display());
    let Some(one) = here.get_mut(owner.unwrap_or(0)) else {
        return Some(format!("{shown} is not read: the server that writes it does not run on this host."));
    };
    one.log = Some(log.to_owned());
    (owner.is_none() && count > 1).then(|| {
        format!(
            "{shown} is taken for the log of server {} ({}): {count} servers run here, and none of them reports it.",
            one.number, one.address
        )
    })
}
