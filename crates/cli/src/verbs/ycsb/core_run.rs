//! A load or a run of YCSB's `CoreWorkload`, as the properties say.

use std::sync::Arc;

use anyhow::Result;
use fathom_errors::Error;
use fathom_load::binding::{Binding, url};
use fathom_load::client_settings::{ClientSettings, operation_count, phase_of};
use fathom_load::core_workload::{CoreShared, CoreSource, CoreWorkload, Mix, Operation, Phase, first_free};
use fathom_load::properties::Properties;
use fathom_load::servers::Servers;
use fathom_process::Signals;

use super::config::{Config, Driver, check_export_file, environment, report_settings, warn};
use super::drive::{Drive, WatchTarget, Way};
use super::find_max::Search;
use crate::outcome::Outcome;
use crate::output;

/// Checks everything, then loads or runs.
pub(super) fn run(config: &Config, properties: &Properties, signals: Signals) -> Result<Outcome> {
    let phase = phase_of(properties);
    let workload = CoreWorkload::of(properties, phase, operation_count(properties)?)?;
    let mut warnings = properties.unknown();
    if phase == Phase::Run {
        warnings.extend(Mix::surprise(properties));
    }
    let (binding, more) = Binding::of(properties)?;
    warnings.extend(more);
    let load_count = workload.load_count(properties)?;
    let (mut settings, more) = ClientSettings::of(properties, phase, load_count, &binding)?;
    warnings.extend(more);
    let (report, more) = report_settings(properties, &settings)?;
    settings.plan.points = report.wants_raw();
    warnings.extend(more);
    warn(&warnings);
    check_export_file(&settings)?;
    let servers = Servers::discover(&binding, workload.writes()).map_err(environment)?;
    let next = first_number(&workload, &binding, &servers, properties)?;
    let server = binding.target.to_string();
    let shared = Arc::new(CoreShared::new(workload, binding, settings.retry, next));
    if config.find_max && config.driver == Driver::Official {
        let what = "--find-max asks what a server can do, so it goes without --driver official";
        return Err(Error::usage(what).into());
    }
    let way = Way::of(config, &servers, properties, &shared.binding);
    let binding = &shared.binding;
    let namespace = format!("{}.{}", binding.database, shared.workload.table);
    let watched = WatchTarget {
        url: url(properties),
        namespace: Some(namespace),
        is_journaled: binding.is_journaled(),
    };
    let search = config.slo.as_ref().map(|slo| Ok::<_, anyhow::Error>((slo, config.step()?))).transpose()?;
    let mut drive = Drive::new(config, &settings, &report, way, watched, server, signals)?;
    if let Some((slo, step)) = search {
        let search = Search { slo, step, settings: &settings, shared: &shared, servers: &servers };
        return search.run(drive, config.json);
    }
    let (name, news) = match phase {
        Phase::Load => ("load", "Loading workload..."),
        Phase::Run => ("run", "Starting test."),
    };
    output::note(news);
    let seed = settings.plan.seed;
    drive.part(name, "", &settings, |number| CoreSource::new(&shared, seed, number as u64))?;
    drive.end()
}

/// The number of the first record that is inserted.
fn first_number(
    workload: &CoreWorkload,
    binding: &Binding,
    servers: &Servers,
    properties: &Properties,
) -> Result<u64> {
    let records = workload.records;
    if workload.phase == Phase::Load {
        return Ok(records.first);
    }
    let inserts = workload.mix.share(Operation::Insert) > 0.0;
    if !inserts || !properties.truth("insertresume", true) {
        return Ok(records.table);
    }
    let mut connection = servers.connect(0).map_err(environment)?;
    let first = first_free(&mut connection, binding, workload, records.table).map_err(Error::from)?;
    if first > records.table {
        let more = first - records.table;
        output::note(&format!(
            "fathom: {more} records behind recordcount are there already; inserts go on behind them"
        ));
    }
    Ok(first)
}
