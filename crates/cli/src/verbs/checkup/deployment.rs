//! The deployment of a checkup with `--uri`. It receives only reading commands, unless the user asks for a load and agrees to it.

use std::time::Duration;

use anyhow::Result;
use fathom_client::{Deployment, Target};
use fathom_errors::{Error, Kind};
use fathom_session::{Assessment, MonitorSpec};
use fathom_units::Nanos;

use super::config::Config;
use crate::{confirmation, output};

/// The time for which a deployment is watched, which includes a checkpoint if there is one each minute.
const WATCH_TIME: Nanos = Nanos::secs(60);
const QUICK_WATCH_TIME: Nanos = Nanos::secs(15);
/// The shortest time that allows a judgement.
const MIN_WATCH_TIME: Nanos = Nanos::secs(5);

impl Config {
    /// Refuses contradictory options; opens nothing.
    pub(super) fn check(&self) -> Result<()> {
        if !self.examines_directory() && self.need.is_some() {
            let what = "--need is held against the capacity of a directory, and none is named";
            return Err(Error::usage(what).advise("name the one of the data with --dir").into());
        }
        let of_directory = [
            (self.slo.is_some(), "--slo"),
            (self.storage_engine.is_some(), "--storageEngine"),
            (self.no_load, "--no-load"),
            (self.size.is_some(), "--size"),
            (self.mongodb.is_some(), "--mongodb"),
            (self.documents.flag().is_some(), self.documents.flag().unwrap_or_default()),
        ];
        if let Some((_, name)) =
            of_directory.iter().find(|(is_given, _)| *is_given && !self.examines_directory())
        {
            let what =
                format!("{name} is for a directory that is measured, and a deployment alone is watched");
            return Err(Error::usage(what).advise("name the directory of the data with --dir").into());
        }
        if self.slo.is_some() && self.need.as_ref().is_some_and(|need| need.slo.is_some()) {
            let what = "--need and --slo both state an objective";
            return Err(Error::usage(what).advise("leave one of them out").into());
        }
        if self.watch_time() < MIN_WATCH_TIME {
            let what = format!("--for {} is too short to say anything", self.watch_time());
            return Err(Error::usage(what).advise(format!("take {MIN_WATCH_TIME} or more")).into());
        }
        Ok(())
    }

    pub(super) fn watch_time(&self) -> Nanos {
        self.time.unwrap_or(if self.quick { QUICK_WATCH_TIME } else { WATCH_TIME })
    }

    /// Whether the deployment is watched and not loaded.
    pub(super) fn is_watch(&self) -> bool {
        self.uri.is_some() && !self.load
    }

    /// The deployment that is watched, without secrets.
    pub(super) fn watched_name(&self) -> Option<String> {
        let uri = self.uri.as_ref().filter(|_| self.is_watch())?;
        // A connection string that cannot be parsed is refused before it is shown.
        uri.parse::<Target>().ok().map(|target| target.to_string())
    }

    /// The monitoring of the deployment. Its servers come after the built-in ones in the numbers of the run.
    pub(super) fn monitor(&self) -> Result<Option<MonitorSpec>> {
        let Some(uri) = self.uri.clone().filter(|_| self.is_watch()) else { return Ok(None) };
        let first_member = if self.measures_capacity() { self.engines().len() } else { 0 };
        let spec = MonitorSpec {
            uris: vec![uri],
            time: Some(Duration::from(self.watch_time())),
            is_judged: true,
            first_member,
            ..MonitorSpec::default()
        };
        spec.check()?;
        Ok(Some(spec))
    }
}

/// Checks that the deployment answers and accepts the login, before a probe that takes minutes. A deployment to be loaded must accept writes.
pub(super) fn check_reachable(config: &Config, uri: &str) -> Result<()> {
    if config.load {
        return Ok(fathom_session::check_reachable(uri)?);
    }
    let found = Deployment::discover(&uri.parse()?);
    Ok(found.map(drop).map_err(|error| match error.kind() {
        Kind::Io | Kind::Malformed => error.with_kind(Kind::Unsupported),
        _ => error,
    })?)
}

/// The assessment of the deployment that was watched, and those of servers under load.
pub(super) fn parts(is_watch: bool, assessments: &[Assessment]) -> (Option<&Assessment>, &[Assessment]) {
    match assessments.split_first() {
        Some((first, rest)) if is_watch => (Some(first), rest),
        _ => (None, assessments),
    }
}

/// Prints what a load creates and drops in a deployment. Returns whether the user agrees.
pub(super) fn agrees(config: &Config, uri: &str, database: &str) -> Result<bool> {
    output::note(&format!(
        "fathom: --load makes the database {database} on {}, loads records of 1 kB into it, reads and updates them, and drops it at \
         the end. Nothing else is touched there, but everybody on the deployment feels the load.",
        uri.parse::<Target>()?
    ));
    if config.yes {
        return Ok(true);
    }
    if !confirmation::can_ask() {
        let what = "nothing was loaded: there is no terminal to ask on";
        return Err(Error::usage(what).advise("say --yes, or leave out --load to look only").into());
    }
    Ok(confirmation::ask("Continue?")?)
}
