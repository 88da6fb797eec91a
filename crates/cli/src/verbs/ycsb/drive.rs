//! One part of a load from its start to its report: the whole of a property workload, or a phase of a described one.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use fathom_errors::Error;
use fathom_load::binding::{Binding, url};
use fathom_load::client_settings::ClientSettings;
use fathom_load::driving::{self, End, Ended, Interval, Observer};
use fathom_load::properties::Properties;
use fathom_load::servers::Servers;
use fathom_load::source::Source;
use fathom_load::ycsb_report::{ReportSettings, RunTotals, report};
use fathom_process::Signals;
use fathom_record::disk::Entry;
use serde_json::{Value, json};

use super::config::{Config, Driver, environment};
use super::observe::Watcher;
use super::{document, points, summary};
use crate::metrics::LoadMetrics;
use crate::outcome::Outcome;
use crate::watching::{Session, WatchPlan};
use crate::{loading, output, probing};

/// What samplers brought is in the run folder; in memory it is not needed for long.
const LOOK_BACK: Duration = Duration::from_secs(10);

/// Who talks to the server.
#[derive(Clone, Copy)]
pub(super) enum Way<'d> {
    /// Event loops of our own.
    Own(&'d Servers),
    /// MongoDB's driver for Rust, with this connection string.
    Official(&'d str, &'d Binding),
}

impl<'d> Way<'d> {
    /// As the command line has it.
    pub(super) fn of(
        config: &Config,
        servers: &'d Servers,
        properties: &'d Properties,
        binding: &'d Binding,
    ) -> Way<'d> {
        match config.driver {
            Driver::Own => Way::Own(servers),
            Driver::Official => Way::Official(url(properties), binding),
        }
    }
}

/// What all parts of a load have in common.
pub(super) struct Drive<'d> {
    config: &'d Config,
    report: &'d ReportSettings,
    way: Way<'d>,
    /// The server's address, for the record.
    server: String,
    watcher: Watcher<'d>,
    failed: bool,
    /// Why it was given up.
    broken: Option<String>,
    /// What went wrong with a report.
    unshown: Option<anyhow::Error>,
    documents: Vec<Value>,
}

/// What the servers of a load are watched for.
pub(super) struct WatchTarget<'w> {
    pub(super) url: &'w str,
    /// The collection, where there is one.
    pub(super) namespace: Option<String>,
    /// Whether a write is answered once it is in the journal.
    pub(super) is_journaled: bool,
}

impl<'d> Drive<'d> {
    /// Opens the run folder and the page of metrics.
    pub(super) fn new(
        config: &'d Config,
        settings: &ClientSettings,
        report: &'d ReportSettings,
        way: Way<'d>,
        WatchTarget { url, namespace, is_journaled }: WatchTarget<'_>,
        server: String,
        signals: Signals,
    ) -> Result<Self> {
        let mut run = if config.no_record {
            None
        } else {
            probing::open_run("ycsb", config.runs.clone(), settings.plan.seed, Path::new("."))
        };
        if let Some(run) = &mut run {
            let journaled = ("client.journaled".to_owned(), is_journaled.to_string());
            run.amend(|manifest| manifest.environment.extend([journaled]))?;
        }
        let metrics = config.metrics.as_deref().map(LoadMetrics::serve).transpose()?;
        let session = match &run {
            Some(run) if config.watch => {
                let plan = WatchPlan::of_load(url, config.watch_dir.clone(), namespace, 0)?;
                Some(Session::beside(&plan, run.started(), Some(LOOK_BACK))?)
            }
            _ => None,
        };
        let mut watcher = Watcher::new(settings, report, run, metrics, signals);
        watcher.watch(session);
        Ok(Drive {
            config,
            report,
            way,
            server,
            watcher,
            failed: false,
            broken: None,
            unshown: None,
            documents: Vec::new(),
        })
    }

    /// Drives one part, and reports it. `tag` stands in front of its names in the run folder.
    pub(super) fn part<S: Source + 'static>(
        &mut self,
        name: &str,
        tag: &str,
        settings: &ClientSettings,
        source: impl Fn(usize) -> S,
    ) -> Result<()> {
        if !self.config.json && self.documents.is_empty() {
            output::line(&format!("mongo client connection created with {}", self.server))?;
        }
        self.watcher.begin(settings, tag);
        let begun = Instant::now();
        let (plan, watcher) = (&settings.plan, &mut self.watcher);
        let ended = match self.way {
            Way::Own(servers) => driving::run(plan, servers.opener(), source, watcher),
            Way::Official(url, binding) => driving::run_by_driver(plan, url, binding, source, watcher),
        };
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                self.watcher.close(Some(error.to_string()));
                return Err(environment(error).into());
            }
        };
        let wall = begun.elapsed().saturating_sub(settings.plan.warmup);
        let raw = self.watcher.take_points();
        let totals = RunTotals {
            run_time_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX).max(1),
            operations: ended.operations,
            metrics: &ended.metrics,
            series: &self.watcher.series(),
            raw: &raw,
        };
        self.watcher.last_status();
        let how = (settings.plan.connections, settings.plan.arrivals);
        self.watcher.result(&loading::entry(&self.server, name, how, &ended));
        if !self.config.json {
            // The measurement is worth more than its report: what is kept of it is kept first.
            if self.report.wants_raw() {
                let written = points::write(self.report, &raw).err();
                self.unshown = self.unshown.take().or(written.map(Into::into));
            }
            let shown = show(&report(self.report, &totals), settings.export_file.as_deref());
            self.unshown = self.unshown.take().or(shown.err());
        }
        self.failed |= summary::show(&ended, settings);
        self.documents.push(document::document(name, &ended));
        self.broken = self.broken.take().or_else(|| broken(&ended));
        Ok(())
    }

    /// Drives a step of a search, which has no report of its own: how it ended, and the mean schedule lag of each second in
    /// milliseconds; none if somebody stopped it. `name` is the workload's in the run folder, `tag` stands in front of its names
    /// there.
    pub(super) fn step<S: Source + 'static>(
        &mut self,
        (name, tag): (&str, &str),
        settings: &ClientSettings,
        servers: &Servers,
        source: impl Fn(usize) -> S,
    ) -> Result<Option<(Ended, Vec<f64>)>, Error> {
        self.watcher.begin(settings, tag);
        let mut keeper = LagKeeper { watcher: &mut self.watcher, lag_ms: Vec::new() };
        let ended = driving::run(&settings.plan, servers.opener(), source, &mut keeper);
        let lag_ms = keeper.lag_ms;
        let ended = ended.inspect_err(|error| drop(self.watcher.close(Some(error.to_string()))));
        let ended = ended.map_err(environment)?;
        self.watcher.last_status();
        if self.watcher.is_stopped() {
            return Ok(None);
        }
        let how = (settings.plan.connections, settings.plan.arrivals);
        self.watcher.result(&loading::entry(&self.server, name, how, &ended));
        Ok(Some((ended, lag_ms)))
    }

    /// Keeps a result of the whole.
    pub(super) fn result(&mut self, entry: &Entry) {
        self.watcher.result(entry);
    }

    /// Whether the parts to come shall be left out.
    pub(super) fn is_over(&self) -> bool {
        self.broken.is_some() || self.unshown.is_some() || self.watcher.is_stopped()
    }

    /// Closes the run folder, and says where it is.
    pub(super) fn close(&mut self) -> Option<PathBuf> {
        let folder = self.watcher.close(self.broken.clone());
        if let Some(folder) = &folder {
            output::note(&format!("Run folder: {}", folder.display()));
            if self.config.watch {
                output::note(&format!("What it says: fathom explain {}", folder.display()));
            }
        }
        folder
    }

    /// Closes the run folder; how it all ended.
    pub(super) fn end(mut self) -> Result<Outcome> {
        let folder = self.close();
        self.unshown.map_or(Ok(()), Err)?;
        if self.config.json {
            let document = json!({
                "schema": fathom_record::SCHEMA,
                "fathom_version": env!("CARGO_PKG_VERSION"),
                "verb": "ycsb",
                "server": self.server,
                "error": self.broken,
                "run_folder": folder,
                "parts": self.documents,
            });
            output::line(&document.to_string())?;
        }
        if let Some(broken) = self.broken {
            output::note(&format!("fathom: {broken}"));
            return Ok(Outcome::Findings);
        }
        Ok(if self.failed && !self.config.ycsb_exit_codes { Outcome::Findings } else { Outcome::Clean })
    }
}

/// A watcher that also notes how late the operations of each second began.
struct LagKeeper<'w, 's> {
    watcher: &'w mut Watcher<'s>,
    lag_ms: Vec<f64>,
}

impl Observer for LagKeeper<'_, '_> {
    fn second(&mut self, interval: &Interval<'_>) {
        if interval.second >= 0 {
            self.lag_ms.push(interval.lag.mean_ns().unwrap_or(0.0) / 1e6);
        }
        self.watcher.second(interval);
    }

    fn stop_asked(&mut self) -> bool {
        self.watcher.stop_asked()
    }
}

fn broken(ended: &Ended) -> Option<String> {
    match &ended.end {
        End::NoProgress(limit) => {
            Some(format!("nothing was answered for {limit:?}, so the run was given up"))
        }
        End::GaveUp(why) => Some(format!("the run was given up: {why}")),
        End::Done | End::TimeOver | End::Stopped => None,
    }
}

/// The report, to where it belongs; what a file does not take goes to standard output.
fn show(text: &str, file: Option<&str>) -> Result<()> {
    let Some(file) = file else { return Ok(output::line(text.trim_end())?) };
    let written = std::fs::write(file, text).map_err(|error| Error::io("write the report to", file, error));
    if written.is_err() {
        output::line(text.trim_end())?;
    }
    Ok(written?)
}
