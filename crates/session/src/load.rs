//! A load from its specification to its results: starts or finds the servers, loads them, and removes what it created.

use std::path::Path;

use bson::doc;
use fathom_client::connection_text::with_database;
use fathom_client::{Connection, Target};
use fathom_errors::{Error, Kind, Result};
use fathom_load::client_settings::ClientSettings;
use fathom_load::core_workload::{CoreSource, Phase};
use fathom_load::document_workload::Part;
use fathom_process::Ledger;
use fathom_units::Bytes;

use crate::context::SessionContext;
use crate::load_drive::{
    ConnectionRoute, CoreWorkloadDrive, LoadDrive, LoadOutcome, LoadTarget, PartLabel, discover, environment,
};
use crate::load_spec::{CoreLoad, DocumentLoad, LoadPlan, LoadSpec, ServerSpec, WorkloadSpec};
use crate::{LocalServer, LocalStorage};
use crate::{capacity, search};

/// Bytes on the disk for each record, with its journal and its checkpoints.
const RECORD_BYTES: u64 = 4096;
/// The smallest useful number of records of a load.
const MIN_RECORDS: u64 = 1000;

/// The smallest cache with which an engine works as it does with a large one.
const MIN_CACHE: Bytes = Bytes::mib(4);

/// Runs a load and removes what it created, also after an error. A signal ends the load early, which is no error.
///
/// # Errors
/// When servers cannot be started or reached, when the load cannot be driven, and of a strict load when operations failed.
pub(crate) fn run(spec: &LoadSpec, context: &mut SessionContext<'_>) -> Result<LoadOutcome> {
    match &spec.server {
        ServerSpec::Url => on_deployment(spec, None, context),
        ServerSpec::NewDatabase { uri, database, dir } => {
            let name = uri.parse::<Target>()?.to_string();
            let url = with_database(uri, database);
            let server = LoadTarget { name, url, dir: dir.clone(), is_direct: false };
            let loaded = on_deployment(spec, Some(&server), context);
            // The database is dropped after a failed load too. The error of the load takes precedence.
            let dropped = drop_database(&server.url, database);
            let outcome = loaded?;
            dropped.map(|()| outcome)
        }
        ServerSpec::Local { engine, name, dir, storage } => {
            let Some((spec, storage)) = within_free_space(spec, storage, dir) else {
                context.note("fathom: too little room for the built-in server's data, so it is not loaded");
                return Ok(LoadOutcome { is_over: true, ..LoadOutcome::default() });
            };
            let process = LocalServer::start(&Ledger::open()?, dir, engine, &storage)?;
            let url = format!("mongodb://127.0.0.1:{}/ycsb", process.port());
            let is_direct = process.is_direct();
            let server = LoadTarget { name: name.clone(), url, dir: Some(dir.clone()), is_direct };
            let loaded = on_deployment(&spec, Some(&server), context);
            let stopped = process.stop();
            match loaded {
                // The signal has stopped the server too.
                Err(_) if context.is_stopped() => Ok(LoadOutcome::default()),
                // If the server died, its error explains that of the load.
                loaded => stopped.and(loaded),
            }
        }
    }
}

/// The load and the server's storage, limited to what fits into the free space: a twentieth of it for a load whose size does not matter, and half
/// of it for the search of capacities, whose table must be larger than the cache. `None` if that is too little.
fn within_free_space(
    spec: &LoadSpec,
    storage: &LocalStorage,
    dir: &Path,
) -> Option<(LoadSpec, LocalStorage)> {
    let system = rustix::fs::statvfs(dir).ok()?;
    let records_in = |part: u64| system.f_bavail.saturating_mul(system.f_frsize) / part / RECORD_BYTES;
    let (mut spec, mut storage) = (spec.clone(), storage.clone());
    match &mut spec.workload {
        WorkloadSpec::Core(parts) => {
            let fit = Some(records_in(20)).filter(|fit| *fit >= MIN_RECORDS)?;
            for records in parts.iter_mut().filter_map(|part| part.records.as_mut()) {
                *records = fit.min(*records);
            }
        }
        WorkloadSpec::Capacity(capacity) => {
            let fit = records_in(2).min(capacity.records);
            if let Some(cache) = &mut storage.cache {
                // It shrinks with the table, so that reads stay past memory.
                let share = fit as f64 / capacity.records.max(1) as f64;
                *cache =
                    Some(Bytes((cache.get() as f64 * share) as u64)).filter(|cache| *cache >= MIN_CACHE)?;
            }
            capacity.records = fit;
        }
        WorkloadSpec::Search(_) | WorkloadSpec::Documents(_) => {}
    }
    Some((spec, storage))
}

fn drop_database(url: &str, database: &str) -> Result<()> {
    let target: Target = url.parse()?;
    let mut connection = Connection::connect(&target)?;
    connection.run(database, &doc! { "dropDatabase": 1 })?;
    Ok(())
}

/// Makes a database name that is unique to this load.
///
/// # Errors
/// When this process cannot be distinguished from others.
pub fn new_database_name() -> Result<String> {
    Ok(Ledger::open()?.unique_name())
}

/// Checks that the servers of a connection string answer and accept the login, before a probe that takes minutes.
///
/// # Errors
/// Of a string that cannot be read, and of servers that cannot be reached.
pub fn check_reachable(uri: &str) -> Result<()> {
    let target: Target = uri.parse()?;
    Connection::connect(&target).map(drop).map_err(|error| {
        Error::new(Kind::NotFound, format!("the deployment to load cannot be used: {}", Error::from(error)))
            .advise(
                "name a server that runs with --uri, or leave --uri and --load out to load a built-in server",
            )
    })
}

/// A load on the server that the session chose, or else on the one in the properties.
fn on_deployment(
    spec: &LoadSpec,
    chosen: Option<&LoadTarget>,
    context: &mut SessionContext<'_>,
) -> Result<LoadOutcome> {
    let first = match &spec.workload {
        WorkloadSpec::Core(parts) => parts.first(),
        WorkloadSpec::Search(search) => Some(&search.load),
        WorkloadSpec::Capacity(capacity) => return capacity::run(capacity, spec, chosen, context),
        WorkloadSpec::Documents(load) => return documents(spec, load, context),
    };
    let Some(first) = first else { return Ok(LoadOutcome::default()) };
    let core = CoreWorkloadDrive::open(first, chosen, context)?;
    let server = chosen.cloned().unwrap_or_else(|| core.server());
    let mut drive = LoadDrive::start(spec, &server, Some(core.namespace()), core.binding(), context)?;
    let driven = match &spec.workload {
        WorkloadSpec::Search(search) => search::run(search, &core, &mut drive),
        WorkloadSpec::Core(parts) => drive_parts(parts, core, chosen, &mut drive),
        WorkloadSpec::Capacity(_) | WorkloadSpec::Documents(_) => Ok(()),
    };
    drive.end(driven)
}

/// The parts of a core workload, one after another on the same servers.
fn drive_parts(
    parts: &[CoreLoad],
    first: CoreWorkloadDrive,
    chosen: Option<&LoadTarget>,
    drive: &mut LoadDrive<'_, '_>,
) -> Result<()> {
    let mut opened = Some(first);
    let mut loaded = None;
    for part in parts {
        if drive.is_over() {
            break;
        }
        let core = match opened.take() {
            Some(first) => first,
            None => {
                // A load that its time ended has inserted fewer records.
                let part = CoreLoad { records: loaded.or(part.records), ..part.clone() };
                CoreWorkloadDrive::open(&part, chosen, drive.context)?
            }
        };
        let seed = core.plan.settings.plan.seed;
        let source = |number: usize| CoreSource::new(&core.shared, seed, number as u64);
        let tag = chosen.map_or_else(String::new, |server| server.tag(&part.name));
        let label = PartLabel { name: &part.name, tag: &tag, phase: core.plan.phase };
        let ended = drive.part(label, &core.plan.settings, core.route(), source)?;
        if core.plan.phase == Phase::Load {
            loaded = Some(ended.operations.max(1));
        }
    }
    Ok(())
}

/// A workload of documents: its load, or its phases one after another.
fn documents(spec: &LoadSpec, load: &DocumentLoad, context: &mut SessionContext<'_>) -> Result<LoadOutcome> {
    let LoadPlan { workload, phase, binding, settings, properties, .. } = load.plan()?;
    let servers = discover(&binding, true)?;
    let mut connection = servers.connect(0).map_err(environment)?;
    let shared = workload.prepare(&mut connection, binding.clone(), phase == Phase::Load)?;
    let url = fathom_load::binding::url(&properties);
    let server =
        LoadTarget { name: binding.target.to_string(), url: url.to_owned(), dir: None, is_direct: false };
    // A workload may use several collections. The samplers find the busiest.
    let mut drive = LoadDrive::start(spec, &server, None, &binding, context)?;
    let route = ConnectionRoute { servers: &servers, binding: &binding, url };
    let seed = settings.plan.seed;
    if phase == Phase::Load {
        let plan = workload.load().plan(shared.documents_to_load(), &settings.plan);
        let settings = ClientSettings { plan, ..settings };
        let source = |number: usize| shared.source(Part::Load, seed, number as u64);
        let label = PartLabel { name: "load", tag: "", phase: Phase::Load };
        let driven = drive.part(label, &settings, route, source).map(drop);
        return drive.end(driven);
    }
    let mut driven = Ok(());
    for (number, phase) in workload.phases().iter().enumerate() {
        if driven.is_err() || drive.is_over() {
            break;
        }
        let settings = ClientSettings { plan: phase.plan(&settings.plan), ..settings.clone() };
        let tag = format!("{}.", phase.name);
        let source = |client: usize| shared.source(Part::Phase(number), seed, client as u64);
        let label = PartLabel { name: &phase.name, tag: &tag, phase: Phase::Run };
        driven = drive.part(label, &settings, route, source).map(drop);
    }
    drive.end(driven)
}
