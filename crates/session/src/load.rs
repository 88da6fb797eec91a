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

use crate::LocalServer;
use crate::context::Context;
use crate::load_drive::{Core, Drive, LoadOutcome, PartLabel, Route, Server, discover, environment};
use crate::load_spec::{CoreLoad, DocumentLoad, LoadPlan, LoadSpec, ServerSpec, WorkloadSpec};
use crate::search;

/// Bytes on the disk for each record, with its journal and its checkpoints.
const RECORD_BYTES: u64 = 4096;
/// The smallest number of records that a load is worth.
const MIN_RECORDS: u64 = 1000;

/// Runs a load and removes what it created, also after an error. A signal ends the load early, which is no error.
///
/// # Errors
/// When servers cannot be started or reached, when the load cannot be driven, and of a strict load when operations failed.
pub(crate) fn run(spec: &LoadSpec, context: &mut Context<'_>) -> Result<LoadOutcome> {
    match &spec.server {
        ServerSpec::Url => on_deployment(spec, None, context),
        ServerSpec::NewDatabase { uri, dir } => {
            let database = Ledger::open()?.unique_name();
            context.note(&format!("fathom: loading the database {database}, which is dropped at the end"));
            let url = with_database(uri, &database);
            let server = Server { name: uri.parse::<Target>()?.to_string(), url, dir: Some(dir.clone()) };
            let loaded = on_deployment(spec, Some(&server), context);
            // The database is dropped after a failed load too. The error of the load takes precedence.
            let dropped = drop_database(&server.url, &database);
            let outcome = loaded?;
            dropped.map(|()| outcome)
        }
        ServerSpec::Local { engine, name, dir } => {
            let Some(spec) = within_free_space(spec, dir) else {
                context.note("fathom: too little room for the built-in server's data, so it is not loaded");
                return Ok(LoadOutcome { is_over: true, ..LoadOutcome::default() });
            };
            let process = LocalServer::start(&Ledger::open()?, dir, engine)?;
            let url = format!("mongodb://127.0.0.1:{}/ycsb", process.port());
            let server = Server { name: name.clone(), url, dir: Some(dir.clone()) };
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

/// The load, limited to the records that fit into a twentieth of the free space; none if these are fewer than [`MIN_RECORDS`].
fn within_free_space(spec: &LoadSpec, dir: &Path) -> Option<LoadSpec> {
    let system = rustix::fs::statvfs(dir).ok()?;
    let fit = system.f_bavail.saturating_mul(system.f_frsize) / 20 / RECORD_BYTES;
    if fit < MIN_RECORDS {
        return None;
    }
    let mut spec = spec.clone();
    if let WorkloadSpec::Core(parts) = &mut spec.workload {
        for records in parts.iter_mut().filter_map(|part| part.records.as_mut()) {
            *records = fit.min(*records);
        }
    }
    Some(spec)
}

fn drop_database(url: &str, database: &str) -> Result<()> {
    let target: Target = url.parse()?;
    let mut connection = Connection::connect(&target)?;
    connection.run(database, &doc! { "dropDatabase": 1 })?;
    Ok(())
}

/// Checks that the servers of a connection string answer and accept the login, before a probe that takes minutes.
///
/// # Errors
/// Of a string that cannot be read, and of servers that cannot be reached.
pub fn check_reachable(uri: &str) -> Result<()> {
    let target: Target = uri.parse()?;
    Connection::connect(&target).map(drop).map_err(|error| {
        Error::new(Kind::NotFound, format!("the deployment to load cannot be used: {}", Error::from(error)))
            .advise("name a server that runs with --uri, or leave --uri out to load a built-in server")
    })
}

/// A load on the server that the session chose, or else on the one in the properties.
fn on_deployment(spec: &LoadSpec, chosen: Option<&Server>, context: &mut Context<'_>) -> Result<LoadOutcome> {
    let first = match &spec.workload {
        WorkloadSpec::Core(parts) => parts.first(),
        WorkloadSpec::Search(search) => Some(&search.load),
        WorkloadSpec::Documents(load) => return documents(spec, load, context),
    };
    let Some(first) = first else { return Ok(LoadOutcome::default()) };
    let core = Core::open(first, chosen, context)?;
    let server = chosen.cloned().unwrap_or_else(|| core.server());
    let mut drive = Drive::start(spec, &server, Some(core.namespace()), core.binding(), context)?;
    let driven = match &spec.workload {
        WorkloadSpec::Search(search) => search::run(search, &core, &mut drive),
        WorkloadSpec::Core(parts) => drive_parts(parts, core, chosen, &mut drive),
        WorkloadSpec::Documents(_) => Ok(()),
    };
    drive.end(driven)
}

/// The parts of a core workload, one after another on the same servers.
fn drive_parts(
    parts: &[CoreLoad],
    first: Core,
    chosen: Option<&Server>,
    drive: &mut Drive<'_, '_>,
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
                Core::open(&part, chosen, drive.context)?
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
fn documents(spec: &LoadSpec, load: &DocumentLoad, context: &mut Context<'_>) -> Result<LoadOutcome> {
    let LoadPlan { workload, phase, binding, settings, properties, .. } = load.plan()?;
    let servers = discover(&binding, true)?;
    let mut connection = servers.connect(0).map_err(environment)?;
    let shared = workload.prepare(&mut connection, binding.clone(), phase == Phase::Load)?;
    let url = fathom_load::binding::url(&properties);
    let server = Server { name: binding.target.to_string(), url: url.to_owned(), dir: None };
    // A workload may use several collections. The samplers find the busiest.
    let mut drive = Drive::start(spec, &server, None, &binding, context)?;
    let route = Route { servers: &servers, binding: &binding, url };
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
