//! Drives a load part by part. Records each second with the samplers' readings, and each part's result.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use fathom_errors::{Error, Kind, Result};
use fathom_load::binding::Binding;
use fathom_load::client_settings::ClientSettings;
use fathom_load::core_workload::{CoreShared, CoreWorkload, Operation, Phase, first_free};
use fathom_load::driving::{self, End, Ended, Interval, Observer};
use fathom_load::find_max::Found;
use fathom_load::measurements::Status;
use fathom_load::servers::Servers;
use fathom_load::source::Source;
use fathom_record::disk::Entry;
use fathom_record::load::{Load, LoadOperation};
use fathom_stats::MAX_CLIENT_CPU_SHARE;

use crate::context::Context;
use crate::load_seconds::{self, LoadSecond};
use crate::load_spec::{CoreLoad, Driver, LoadPlan, LoadSpec};
use crate::{Assessment, LoadPart, MonitorSession, MonitorSpec};

/// The outcome of a search for the highest rate.
#[derive(Clone, Debug)]
pub struct SearchOutcome {
    /// The rates.
    pub found: Found,
    /// The answer in words.
    pub sentence: String,
    /// Whether the steps were too short to see a checkpoint.
    pub is_checkpoint_blind: bool,
}

/// How a load ended.
#[derive(Debug, Default)]
pub(crate) struct LoadOutcome {
    /// Why the load was given up, if it was.
    pub(crate) broken: Option<String>,
    /// The outcome of a search, if the load is one.
    pub(crate) search: Option<SearchOutcome>,
    /// Whether the loads that follow are left out.
    pub(crate) is_over: bool,
}

/// The server of a load.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// Its name in results.
    pub(crate) name: String,
    pub(crate) url: String,
    /// The directory of its data, if known.
    pub(crate) dir: Option<PathBuf>,
}

impl Server {
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

pub(crate) fn discover(binding: &Binding, writes: bool) -> Result<Servers> {
    Servers::discover(binding, writes).map_err(environment)
}

/// A core workload and its servers.
pub(crate) struct Core {
    pub(crate) plan: LoadPlan<CoreWorkload>,
    pub(crate) shared: Arc<CoreShared>,
    pub(crate) servers: Servers,
}

impl Core {
    /// Finds the servers of a load, and where its inserts begin.
    pub(crate) fn open(load: &CoreLoad, server: Option<&Server>, context: &Context<'_>) -> Result<Core> {
        let mut load = load.clone();
        if let Some(server) = server {
            load.properties.set("mongodb.url", &server.url, "the session");
        }
        let plan = load.plan()?;
        let servers = discover(&plan.binding, plan.workload.writes())?;
        let next = first_number(&plan, &servers, context)?;
        let (workload, binding) = (plan.workload.clone(), plan.binding.clone());
        let shared = Arc::new(CoreShared::new(workload, binding, plan.settings.retry, next));
        Ok(Core { plan, shared, servers })
    }

    pub(crate) fn binding(&self) -> &Binding {
        &self.plan.binding
    }

    /// `DATABASE.COLLECTION` of its records.
    pub(crate) fn namespace(&self) -> String {
        format!("{}.{}", self.plan.binding.database, self.plan.workload.table)
    }

    /// The deployment in its properties.
    pub(crate) fn server(&self) -> Server {
        Server { name: self.plan.binding.target.to_string(), url: self.plan.url().to_owned(), dir: None }
    }

    /// How its connections are opened.
    pub(crate) fn route(&self) -> Route<'_> {
        Route { servers: &self.servers, binding: self.binding(), url: self.plan.url() }
    }
}

/// The number of the first record that is inserted.
fn first_number(plan: &LoadPlan<CoreWorkload>, servers: &Servers, context: &Context<'_>) -> Result<u64> {
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

/// How connections to the servers are opened.
#[derive(Clone, Copy)]
pub(crate) struct Route<'r> {
    pub(crate) servers: &'r Servers,
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
    /// In results.
    pub(crate) name: &'p str,
    /// In front of its names in the run folder.
    pub(crate) tag: &'p str,
    pub(crate) phase: Phase,
}

/// A load in progress, with its samplers.
pub(crate) struct Drive<'d, 'c> {
    spec: &'d LoadSpec,
    server: &'d Server,
    pub(crate) context: &'d mut Context<'c>,
    monitor: Option<MonitorSession>,
    pub(crate) outcome: LoadOutcome,
}

impl<'d, 'c> Drive<'d, 'c> {
    /// Begins a load, and starts its samplers if it has any.
    pub(crate) fn start(
        spec: &'d LoadSpec,
        server: &'d Server,
        namespace: Option<String>,
        binding: &Binding,
        context: &'d mut Context<'c>,
    ) -> Result<Drive<'d, 'c>> {
        let journaled = ("client.journaled".to_owned(), binding.is_journaled().to_string());
        context.recorder.write(|run| run.amend(|manifest| manifest.environment.extend([journaled])));
        let monitor = match &spec.monitor {
            // Readings that are neither recorded nor judged would be lost.
            Some(monitor) if monitor.is_judged || context.recorder.is_recording() => {
                start_monitor(monitor, server, namespace, context)?
            }
            _ => None,
        };
        Ok(Drive { spec, server, context, monitor, outcome: LoadOutcome::default() })
    }

    /// Drives one part to its result.
    pub(crate) fn part<S: Source + 'static>(
        &mut self,
        label: PartLabel<'_>,
        settings: &ClientSettings,
        route: Route<'_>,
        source: impl Fn(usize) -> S,
    ) -> Result<Ended> {
        let mut settings = settings.clone();
        settings.plan.points = self.spec.has_points;
        let begun = Instant::now();
        let (ended, _) = self.drive(label, &settings, route, source)?;
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

    /// Drives a step of a search. Returns its outcome and the mean schedule lag of each second in milliseconds; none after a signal.
    pub(crate) fn step<S: Source + 'static>(
        &mut self,
        label: PartLabel<'_>,
        settings: &ClientSettings,
        route: Route<'_>,
        source: impl Fn(usize) -> S,
    ) -> Result<Option<(Ended, Vec<f64>)>> {
        let driven = self.drive(label, settings, route, source)?;
        if self.context.is_stopped() {
            return Ok(None);
        }
        self.context.result(&load_entry(load_part(self.server, label, settings), &driven.0))?;
        Ok(Some(driven))
    }

    fn drive<S: Source + 'static>(
        &mut self,
        label: PartLabel<'_>,
        settings: &ClientSettings,
        route: Route<'_>,
        source: impl Fn(usize) -> S,
    ) -> Result<(Ended, Vec<f64>)> {
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
        };
        let ended = match driver {
            Driver::Own => driving::run(plan, route.servers.opener(), source, &mut recording),
            Driver::Official => {
                driving::run_by_driver(plan, route.url, route.binding, source, &mut recording)
            }
        };
        let lag_ms = recording.lag_ms;
        Ok((ended.map_err(environment)?, lag_ms))
    }

    /// Whether the parts that follow are left out.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome.broken.is_some() || self.outcome.is_over || self.context.is_stopped()
    }

    /// Stops the samplers and judges their window, also after a failed load.
    pub(crate) fn end(self, driven: Result<()>) -> Result<LoadOutcome> {
        if let Some(mut monitor) = self.monitor {
            monitor.stop(&mut self.context.recorder);
            if self.spec.monitor.as_ref().is_some_and(|spec| spec.is_judged) {
                let assessment = Assessment::of_window(self.server.name.clone(), monitor.window);
                self.context.recorder.judgement(&assessment.judgement);
                self.context.assessments.push(assessment);
            }
        }
        driven.map(|()| self.outcome)
    }
}

/// A part as the caller sees it.
fn load_part<'p>(server: &'p Server, label: PartLabel<'p>, settings: &'p ClientSettings) -> LoadPart<'p> {
    LoadPart { server: &server.name, name: label.name, phase: label.phase, settings }
}

/// Starts the samplers of a load. Unless they are required, a failure is a note.
fn start_monitor(
    spec: &MonitorSpec,
    server: &Server,
    namespace: Option<String>,
    context: &Context<'_>,
) -> Result<Option<MonitorSession>> {
    let spec = MonitorSpec {
        uris: vec![server.url.clone()],
        dir: spec.dir.clone().or_else(|| server.dir.clone()),
        namespace,
        ..spec.clone()
    };
    match MonitorSession::start(&spec, context.recorder.clock()) {
        Ok(session) => Ok(Some(session)),
        Err(error) if spec.is_required => Err(error),
        Err(error) => {
            context.note(&format!("fathom: the load is not watched: {error}"));
            Ok(None)
        }
    }
}

/// Records a load second by second, with the samplers' readings.
struct LoadRecording<'l, 'c> {
    context: &'l mut Context<'c>,
    monitor: Option<&'l mut MonitorSession>,
    tag: &'l str,
    zero_ns: u64,
    /// The mean schedule lag of each second, in milliseconds.
    lag_ms: Vec<f64>,
}

impl Observer for LoadRecording<'_, '_> {
    fn second(&mut self, interval: &Interval<'_>) {
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
    }

    fn stop_asked(&mut self) -> bool {
        self.context.is_stopped()
    }
}

/// Why a load was given up, if it was.
fn broken(ended: &Ended) -> Option<String> {
    match &ended.end {
        End::NoProgress(limit) => {
            Some(format!("nothing was answered for {limit:?}, so the run was given up"))
        }
        End::GaveUp(why) => Some(format!("the run was given up: {why}")),
        End::Done | End::TimeOver | End::Stopped => None,
    }
}

/// The figures of a load as a result of the run.
fn load_entry(part: LoadPart<'_>, ended: &Ended) -> Entry {
    let seconds = ended.elapsed.as_secs_f64();
    let by_operation = ended.metrics.iter().map(|(name, measured)| {
        let (service, response) = (&measured.succeeded.service, &measured.succeeded.response);
        let batched = measured.returned(Status::BatchedOk);
        LoadOperation::new(name, service.len() + batched, measured.failures(), service, response)
    });
    let share = ended.cpu.as_secs_f64() / (seconds * ended.loops as f64).max(1e-9);
    Entry::Load(Load {
        server: part.server.to_owned(),
        workload: part.name.to_owned(),
        connections: part.settings.plan.connections as u64,
        seconds,
        operations: ended.operations,
        per_s: ended.operations as f64 / seconds.max(1e-9),
        offered_per_s: part.settings.plan.arrivals.rate_per_s(),
        by_operation: by_operation.collect(),
        client_cpu_share: share,
        client_limited: share > MAX_CLIENT_CPU_SHARE,
    })
}
