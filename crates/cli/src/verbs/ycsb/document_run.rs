//! `--workload FILE`: a workload of any documents and commands, loaded or run phase by phase.

use std::path::Path;

use anyhow::Result;
use fathom_errors::{Error, Kind};
use fathom_load::binding::{Binding, url};
use fathom_load::client_settings::{ClientSettings, phase_of};
use fathom_load::core_workload::Phase;
use fathom_load::document_workload::{DocumentWorkload, Part};
use fathom_load::driving::Arrivals;
use fathom_load::properties::Properties;
use fathom_load::servers::Servers;
use fathom_process::Signals;

use super::config::{Config, check_export_file, environment, report_settings, warn};
use super::drive::{Drive, WatchTarget, Way};
use crate::outcome::Outcome;
use crate::output;

/// Checks everything, prepares the collections, then loads or runs the phases.
pub(super) fn run(
    config: &Config,
    file: &Path,
    properties: &Properties,
    signals: Signals,
) -> Result<Outcome> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Error::io("read the workload in", file, error).with_kind(Kind::Usage))?;
    let workload = DocumentWorkload::parse(&text)
        .map_err(|error| Error::new(error.kind(), format!("{}: {error}", file.display())))?;
    let phase = phase_of(properties);
    if phase == Phase::Run && workload.phases().is_empty() {
        return Err(Error::usage(format!("{} has no phases to run", file.display())).into());
    }
    let mut warnings = properties.unknown();
    let (binding, more) = Binding::of(properties)?;
    warnings.extend(more);
    // How many documents a load has is known when the collections are.
    let (mut settings, more) = ClientSettings::of(properties, phase, Some(u64::MAX), &binding)?;
    warnings.extend(more.into_iter().filter(|one| !one.contains("no end") || needs_end(&workload)));
    let paced =
        workload.phases().iter().any(|phase| phase.arrivals.is_some_and(|one| one != Arrivals::Closed));
    let (report, more) = report_settings(properties, &settings)?;
    settings.plan.points = report.wants_raw();
    warnings.extend(more);
    warn(&warnings);
    if paced && properties.get("measurement.interval").is_none() {
        output::note(
            "fathom: phases come at a rate: -p measurement.interval=both shows both clocks in the report",
        );
    }
    check_export_file(&settings)?;
    let servers = Servers::discover(&binding, true).map_err(environment)?;
    let server = binding.target.to_string();
    let mut connection = servers.connect(0).map_err(environment)?;
    let shared = workload.prepare(&mut connection, binding.clone(), phase == Phase::Load)?;
    let way = Way::of(config, &servers, properties, &binding);
    // A workload may go to several collections: the busiest is found where it runs.
    let watched = WatchTarget { url: url(properties), namespace: None, is_journaled: binding.is_journaled() };
    let mut drive = Drive::new(config, &settings, &report, way, watched, server, signals)?;
    let seed = settings.plan.seed;
    if phase == Phase::Load {
        let plan = workload.load().plan(shared.documents_to_load(), &settings.plan);
        let settings = ClientSettings { plan, ..settings };
        output::note("Loading workload...");
        drive.part("load", "", &settings, |number| shared.source(Part::Load, seed, number as u64))?;
        return drive.end();
    }
    for (place, phase) in workload.phases().iter().enumerate() {
        if drive.is_over() {
            break;
        }
        let settings = ClientSettings { plan: phase.plan(&settings.plan), ..settings.clone() };
        output::note(&format!("Starting phase {}.", phase.name));
        let tag = format!("{}.", phase.name);
        let source = |number: usize| shared.source(Part::Phase(place), seed, number as u64);
        drive.part(&phase.name, &tag, &settings, source)?;
    }
    drive.end()
}

/// Whether a phase takes its end from the properties.
fn needs_end(workload: &DocumentWorkload) -> bool {
    workload.phases().iter().any(|phase| phase.time.is_none() && phase.operations.is_none())
}
