//! Drives a load part by part, and records each second with the samplers' readings and each part's result.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use fathom_errors::{Error, Kind, Result};
use fathom_explain::Evidence;
use fathom_load::binding::Binding;
use fathom_load::client_settings::ClientSettings;
use fathom_load::core_workload::{CoreShared, CoreWorkload, Operation, Phase, first_free};
use fathom_load::driving::{self, End, LoadResult, Observer, SecondMeasurements};
use fathom_load::find_max::SearchResult;
use fathom_load::measurements::Status;
use fathom_load::servers::TargetServers;
use fathom_load::source::Source;
use fathom_record::disk::Entry;
use fathom_record::load::{Load, LoadOperation};

use crate::context::SessionContext;
use crate::load_seconds::{self, LoadSecond};
use crate::load_spec::{CoreLoad, Driver, LoadPlan, LoadSpec};
use crate::{Assessment, LoadPart, MonitorSession, MonitorSpec};

/// The outcome of a search for the highest rate.
#[derive(Clone, Debug)]
pub struct SearchOutcome {
    pub found: SearchResult,
    /// The answer in words.
    pub sentence: String,
    /// True if the steps were too short to see a checkpoint.
    pub is_checkpoint_blind: bool,
}

/// The outcome of a load.
#[derive(Debug, Default)]
pub(crate) struct LoadOutcome {
    /// Why the load was given up, if it was.
    pub(crate) broken: Option<String>,
    /// The outcome of a search, if the load is one.
    pub(crate) search: Option<SearchOutcome>,
    /// True if the loads that follow are left out.
    pub(crate) is_over: bool,
}

/// The server of a load.
#[derive(Clone, Debug)]
pub(crate) struct LoadTarget {
    /// Its name in results.
    pub(crate) name: String,
    pub(crate) url: String,
    /// The directory of its data, if known.
    pub(crate) dir: Option<PathBuf>,
    /// True if its data files are known to bypass the kernel's page cache.
    pub(crate) is_direct: bool,
}

impl LoadTarget {
    /// The prefix of a part's names in a run folder that holds the loads of several servers.
    pub(crate) fn tag(&self, part: &str) -> String {
        format!("{}.{}.", file_name(&self.name), file_name(part))
    }
}

/// Counts a server that cannot be reached, refuses the login or speaks another protocol as an error of the environment, not of an
/// operation.
pub(crate) fn environment(error: impl Into<Error>) -> Error {
    let error = error.into();
    match error.kind() {
        Kind::Io | Kind::Malformed => error.with_kind(Kind::Unsupported),
        _ => error,
    }
}

pub(crate) fn discover(binding: &Binding, writes: bool) -> Result<TargetServers> {
    TargetServers::discover(binding, writes).map_err(environment)
}

/// A core workload and its servers.
pub(crate) struct CoreWorkloadDrive {
    pub(crate) plan: LoadPlan<CoreWorkload>,
    pub(crate) shared: Arc<CoreShared>,
    pub(crate) servers: TargetServers,
}

impl CoreWorkloadDrive {
    /// Finds the servers of a load, and the number of its first insert.
    pub(crate) fn open(
        load: &CoreLoad,
        server: Option<&LoadTarget>,
        context: &SessionContext<'_>,
    ) -> Result<CoreWorkloadDrive> {
        let mut load = load.clone();
        if let Some(server) = server {
            load.properties.set("mongodb.url", &server.url, "the session");
        }
        let plan = load.plan()?;
        let servers = discover(&plan.binding, plan.workload.writes())?;
        let next = first_number(&plan, &servers, context)?;
        let (workload, binding) = (plan.workload.clone(), plan.binding.clone());
        let shared = Arc::new(CoreShared::new(workload, binding, plan.settings.retry, next));
        Ok(CoreWorkloadDrive { plan, shared, servers })
    }

    pub(crate) fn binding(&self) -> &Binding {
        &self.plan.binding
    }

    /// `DATABASE.COLLECTION` of its records.
    pub(crate) fn namespace(&self) -> String {
        format!("{}.{}", self.plan.binding.database, self.plan.workload.table)
    }

    /// The deployment in its properties.
    pub(crate) fn server(&self) -> LoadTarget {
        LoadTarget {
            name: self.plan.binding.target.to_string(),
            url: self.plan.url().to_owned(),
            dir: None,
            is_direct: false,
        }
    }

    /// The route of its connections.
    pub(crate) fn route(&self) -> ConnectionRoute<'_> {
        ConnectionRoute { servers: &self.servers, binding: self.binding(), url: self.plan.url() }
    }
}

/// The number of the first record that is inserted.
fn first_number(
    plan: &LoadPlan<CoreWorkload>,
    servers: &TargetServers,
    context: &SessionContext<'_>,
) -> Result<u64> {
    let (workload, records) = (&plan.workload, plan.workload.records);
    if workload.phase == Phase::Load {
        return Ok(records.first);
    }
    let inserts = workload.mix.share(Operation::Insert) > 0.0;
    if !inserts || !plan.properties.truth("insertresume", true) {
        return Ok(records.table);
    }
    let mut connection = servers.connect(0).map_err(environment)?;
    let first = first_free(&mut connection, &plan.binding, workload, records.table).map_err(Error::from)?;
    if first > records.table {
        let more = first - records.table;
        context.note(&format!(
            "fathom: {more} records behind recordcount are there already; inserts go on behind them"
        ));
    }
    Ok(first)
}

/// The route of connections to the servers.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionRoute<'r> {
    pub(crate) servers: &'r TargetServers,
    pub(crate) binding: &'r Binding,
    /// For the official driver.
    pub(crate) url: &'r str,
}

/// A name as a part of file names.
fn file_name(text: &str) -> String {
    text.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// The names of a part of a load.
#[derive(Clone, Copy)]
pub(crate) struct PartLabel<'p> {
    pub(crate) name: &'p str,
    /// The prefix of its names in the run folder.
    pub(crate) tag: &'p str,
    pub(crate) phase: Phase,
}

/// A part that was driven to its end.
pub(crate) struct DrivenPart {
    pub(crate) ended: LoadResult,
    /// The mean schedule lag of each second, in milliseconds.
    pub(crate) lag_ms: Vec<f64>,
    /// The time after the warm-up on the run's clock.
    pub(crate) window_ns: (u64, u64),
}

/// A load in progress, with its samplers.
pub(crate) struct LoadDrive<'d, 'c> {
    spec: &'d LoadSpec,
    server: &'d LoadTarget,
    pub(crate) context: &'d mut SessionContext<'c>,
    monitor: Option<MonitorSession>,
    pub(crate) outcome: LoadOutcome,
}

impl<'d, 'c> LoadDrive<'d, 'c> {
    /// Begins a load, and starts its samplers if it has any.
    pub(crate) fn start(
        spec: &'d LoadSpec,
        server: &'d LoadTarget,
        namespace: Option<String>,
        binding: &Binding,
        context: &'d mut SessionContext<'c>,
    ) -> Result<LoadDrive<'d, 'c>> {
        let journaled = ("client.journaled".to_owned(), binding.is_journaled().to_string());
        context.recorder.write(|run| run.amend(|manifest| manifest.environment.extend([journaled])));
        let monitor = match &spec.monitor {
            // Readings that are neither recorded nor judged would be lost.
            Some(monitor) if monitor.is_judged || spec.is_capacity() || context.recorder.is_recording() => {
                start_monitor(monitor, server, namespace, context)?
            }
            _ => None,
        };
        Ok(LoadDrive { spec, server, context, monitor, outcome: LoadOutcome::default() })
    }

    /// Drives one part to its result.
    pub(crate) fn part<S: Source + 'static>(
        &mut self,
        label: PartLabel<'_>,
        settings: &ClientSettings,
        route: ConnectionRoute<'_>,
        source: impl Fn(usize) -> S,
    ) -> Result<LoadResult> {
        let mut settings = settings.clone();
        settings.plan.points = self.spec.has_points;
        let begun = Instant::now();
        let ended = self.drive(label, &settings, route, source, &mut |_| false)?.ended;
        let wall = begun.elapsed().saturating_sub(settings.plan.warmup);
        let part = load_part(self.server, label, &settings);
        self.context.result(&load_entry(part, &ended))?;
        self.outcome.is_over |= self.context.events.part_ends(part, &ended, wall).is_break();
        self.outcome.broken = self.outcome.broken.take().or_else(|| broken(&ended));
        if self.spec.is_strict
            && let Some((kind, failures)) = ended.failures.first_key_value()
        {
            let what = format!("{} operations of {} failed ({kind})", failures.count, label.name);
            return Err(Error::new(Kind::Io, what).because(failures.first.clone()));
        }
        Ok(ended)
    }

    /// Drives a step of a search until `is_decided` returns true for a second, or to its end. Returns `None` after a signal.
    pub(crate) fn step<S: Source + 'static>(
        &mut self,
        label: PartLabel<'_>,
        settings: &ClientSettings,
        route: ConnectionRoute<'_>,
        source: impl Fn(usize) -> S,
        is_decided: &mut dyn FnMut(&SecondMeasurements<'_>) -> bool,
    ) -> Result<Option<DrivenPart>> {
        let driven = self.drive(label, settings, route, source, is_decided)?;
        if self.context.is_stopped() {
            return Ok(None);
        }
        self.context.result(&load_entry(load_part(self.server, label, settings), &driven.ended))?;
        Ok(Some(driven))
    }

    fn drive<S: Source + 'static>(
        &mut self,
        label: PartLabel<'_>,
        settings: &ClientSettings,
        route: ConnectionRoute<'_>,
        source: impl Fn(usize) -> S,
        is_decided: &mut dyn FnMut(&SecondMeasurements<'_>) -> bool,
    ) -> Result<DrivenPart> {
        let warmup_ns = u64::try_from(settings.plan.warmup.as_nanos()).unwrap_or(u64::MAX);
        let zero_ns = self.context.recorder.now_ns().saturating_add(warmup_ns);
        self.context.events.part_begins(load_part(self.server, label, settings))?;
        let (plan, driver) = (&settings.plan, self.spec.driver);
        let mut recording = LoadRecording {
            context: self.context,
            monitor: self.monitor.as_mut(),
            tag: label.tag,
            zero_ns,
            lag_ms: Vec::new(),
            decision: (is_decided, false),
        };
        let ended = match driver {
            Driver::Own => driving::run(plan, route.servers.opener(), source, &mut recording),
            Driver::Official => {
                driving::run_by_driver(plan, route.url, route.binding, source, &mut recording)
            }
        };
        let lag_ms = recording.lag_ms;
        let window_ns = (zero_ns, self.context.recorder.now_ns().max(zero_ns));
        Ok(DrivenPart { ended: ended.map_err(environment)?, lag_ms, window_ns })
    }

    /// The readings so far, or `None` if the load is not watched.
    pub(crate) fn evidence(&mut self) -> Option<&Evidence> {
        let monitor = self.monitor.as_mut()?;
        monitor.drain(&mut self.context.recorder);
        Some(&monitor.window.evidence)
    }

    /// Returns whether the parts that follow are left out.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome.broken.is_some() || self.outcome.is_over || self.context.is_stopped()
    }

    /// Stops the samplers and judges their window, also after a failed load.
    pub(crate) fn end(self, driven: Result<()>) -> Result<LoadOutcome> {
        if let Some(mut monitor) = self.monitor {
            monitor.stop(&mut self.context.recorder);
            if self.spec.monitor.as_ref().is_some_and(|spec| spec.is_judged) {
                let assessment = Assessment::from_window(self.server.name.clone(), monitor.window);
                self.context.recorder.judgement(&assessment.judgement);
                self.context.assessments.push(assessment);
            }
        }
        driven.map(|()| self.outcome)
    }
}

/// A part as the caller sees it.
fn load_part<'p>(server: &'p LoadTarget, label: PartLabel<'p>, settings: &'p ClientSettings) -> LoadPart<'p> {
    LoadPart { server: &server.name, name: label.name, phase: label.phase, settings }
}

/// Starts the samplers of a load. Unless they are required, a failure is a note.
fn start_monitor(
    spec: &MonitorSpec,
    server: &LoadTarget,
    namespace: Option<String>,
    context: &mut SessionContext<'_>,
) -> Result<Option<MonitorSession>> {
    let spec = MonitorSpec {
        uris: vec![server.url.clone()],
        dir: spec.dir.clone().or_else(|| server.dir.clone()),
        namespace,
        ..spec.clone()
    };
    match MonitorSession::start(&spec, context.recorder.clock()) {
        Ok(mut session) => {
            if server.is_direct {
                let name = format!("server.{}.{}", spec.first_member, fathom_explain::DIRECT_FACT);
                let fact = (name, "true".to_owned());
                session.window.evidence.environment.extend([fact.clone()]);
                context.recorder.write(|run| run.amend(|manifest| manifest.environment.extend([fact])));
            }
            Ok(Some(session))
        }
        Err(error) if spec.is_required => Err(error),
        Err(error) => {
            context.note(&format!("fathom: the load is not watched: {error}"));
            Ok(None)
        }
    }
}

/// Records a load second by second, with the samplers' readings.
struct LoadRecording<'l, 'c> {
    context: &'l mut SessionContext<'c>,
    monitor: Option<&'l mut MonitorSession>,
    tag: &'l str,
    zero_ns: u64,
    /// The mean schedule lag of each second, in milliseconds.
    lag_ms: Vec<f64>,
    /// The decision function, called for each second, and its last result.
    decision: (&'l mut dyn FnMut(&SecondMeasurements<'_>) -> bool, bool),
}

impl Observer for LoadRecording<'_, '_> {
    fn second(&mut self, interval: &SecondMeasurements<'_>) {
        if interval.second >= 0 {
            self.lag_ms.push(interval.lag.mean_ns().unwrap_or(0.0) / 1e6);
        }
        if let Some(second) = LoadSecond::new(interval, self.tag, self.zero_ns) {
            self.context.recorder.write(|run| load_seconds::write(run, interval, self.tag, &second));
            if let Some(monitor) = &mut self.monitor {
                monitor.window.readings(&second.readings);
            }
        }
        if let Some(monitor) = &mut self.monitor {
            monitor.drain(&mut self.context.recorder);
        }
        self.context.events.second(interval);
        self.decision.1 = (self.decision.0)(interval);
    }

    fn stop_asked(&mut self) -> bool {
        self.context.is_stopped() || self.decision.1
    }
}

/// Why a load was given up, if it was.
fn broken(ended: &LoadResult) -> Option<String> {
    match &ended.end {
        End::NoProgress(limit) => {
            Some(format!("nothing was answered for {limit:?}, so the run was given up"))
        }
        End::GaveUp(why) => Some(format!("the run was given up: {why}")),
        End::Done | End::TimeOver | End::Stopped => None,
    }
}

/// The figures of a load as a result of the run.
fn load_entry(part: LoadPart<'_>, ended: &LoadResult) -> Entry {
    let seconds = ended.elapsed.as_secs_f64();
    let by_operation = ended.metrics.iter().map(|(name, measured)| {
        let (service, response) = (&measured.succeeded.service, &measured.succeeded.response);
        let batched = measured.returned(Status::BatchedOk);
        LoadOperation::new(name, service.len() + batched, measured.failures(), service, response)
    });
    Entry::Load(Load {
        server: part.server.to_owned(),
        workload: part.name.to_owned(),
        connections: part.settings.plan.connections as u64,
        seconds,
        operations: ended.operations,
        per_s: ended.operations as f64 / seconds.max(1e-9),
        offered_per_s: part.settings.plan.arrivals.rate_per_s(),
        by_operation: by_operation.collect(),
        client_cpu_share: ended.cpu_share(),
        client_limited: ended.is_client_limited(),
    })
}
