//! Checks before a study starts whether it can run here, and estimates its time, its disk space, and whether its trials are long
//! enough.
//!
//! All refusals happen here: storage that cannot be made, too little space, no root.
//!
//! The space is an upper limit, since disks are sparse files. The time is an estimate from the rates below and is shown as one; once
//! trials have run, their durations are used instead. A study of checkpoint intervals whose trials hold fewer than two checkpoints
//! compares nothing, and causes a warning.

use std::time::Duration;

use fathom_errors::{Error, Kind, Result};
use fathom_units::{Bytes, Nanos};

use crate::setup::Setup;
use crate::trial::{serving, targets};
use crate::{Bench, Measures, Study, TrialPart, TrialPlan};

/// The assumed operations a second of a load and of a run, if neither time nor rate is set.
const ASSUMED_LOAD_PER_S: f64 = 10_000.0;
const ASSUMED_RUN_PER_S: f64 = 10_000.0;
/// The time to start and end each server, and to make file systems and arrays, for each disk.
const SETUP_PER_SERVER_S: f64 = 1.5;
const SETUP_PER_DISK_S: f64 = 1.0;
/// The bytes on disk for each byte of a record's fields, with its index, journal and checkpoints: measured with YCSB's records of 1 KB.
const DISK_BYTES_PER_RECORD_BYTE: u64 = 3;
/// The rate at which a file is laid out, in bytes a second.
const LAYOUT_BYTES_PER_S: f64 = 300e6;

/// The space that stays free in addition to that of a trial.
const SPARE_BYTES: u64 = 256 << 20;

/// The time and space of a study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub trials: usize,
    /// The estimated time of a study.
    pub time: Duration,
    /// The most space that any trial takes below the working folder.
    pub room: Bytes,
}

/// Estimates the time and space of a study.
pub fn estimate(study: &Study, plan: &TrialPlan) -> Result<Estimate> {
    let mut seconds = 0.0;
    let mut room = 0;
    for trial in &plan.trials {
        let Some(levels) = plan.cells.get(trial.cell) else { continue };
        let setup = study.setup(levels)?;
        seconds += trial_seconds(study.measures, &setup);
        room = room.max(room_of(study.measures, &setup));
    }
    Ok(Estimate { trials: plan.trials.len(), time: Duration::from_secs_f64(seconds), room: Bytes(room) })
}

/// The estimated time of one trial.
fn trial_seconds(measures: Measures, setup: &Setup) -> f64 {
    let made = if setup.storage.is_made() { SETUP_PER_DISK_S * setup.storage.count() as f64 } else { 0.0 };
    let own = match measures {
        Measures::Probe => {
            setup.probe.size.0 as f64 / LAYOUT_BYTES_PER_S + setup.probe.time.as_secs_f64() + 1.0
        }
        Measures::Load => {
            let load = &setup.load;
            let run = load
                .operations
                .map(|operations| operations as f64 / load.target_per_s.unwrap_or(ASSUMED_RUN_PER_S));
            let time = load.time.map(|time| time.as_secs_f64());
            let run = match (run, time) {
                (Some(run), Some(time)) => run.min(time),
                (run, time) => run.or(time).unwrap_or(0.0),
            };
            let routers = if setup.servers.shards.is_some() { 2 } else { 0 };
            let servers = f64::from(setup.servers.data_servers() + routers);
            load.records as f64 / ASSUMED_LOAD_PER_S
                + load.warmup.as_secs_f64()
                + run
                + SETUP_PER_SERVER_S * servers
        }
    };
    made + own
}

/// The most space that one trial takes on the disk.
fn room_of(measures: Measures, setup: &Setup) -> u64 {
    let storage = &setup.storage;
    if !storage.devices.is_empty() {
        return 0;
    }
    let each = if storage.per_member { u64::from(setup.servers.data_servers()) } else { 1 };
    let disks = storage.disk_size.0.saturating_mul(u64::from(storage.disks)).saturating_mul(each);
    let data = match measures {
        Measures::Probe => setup.probe.size.0,
        Measures::Load => {
            let property = |name: &str, default: u64| {
                setup.load.properties.get(name).and_then(|text| text.parse().ok()).unwrap_or(default)
            };
            let record =
                property("fieldcount", 10).saturating_mul(property("fieldlength", 100)).saturating_add(200);
            let copies = u64::from(setup.servers.members);
            let inserted = setup.load.records.saturating_add(setup.load.operations.unwrap_or(0));
            inserted
                .saturating_mul(record)
                .saturating_mul(DISK_BYTES_PER_RECORD_BYTE)
                .saturating_mul(copies)
                .saturating_add(256 << 20)
        }
    };
    if storage.is_made() { disks.min(data.saturating_add(512 << 20)) } else { data }
}

impl Bench {
    /// Refuses a study that cannot be run here; creates nothing.
    ///
    /// # Errors
    /// One sentence, with the line of the study if it is one factor that is not available.
    pub fn check(&self, study: &Study, plan: &TrialPlan) -> Result<()> {
        let mut seen: Vec<Setup> = Vec::new();
        let mut most = 0;
        for levels in &plan.cells {
            let setup = study.setup(levels)?;
            most = most.max(room_of(study.measures, &setup));
            let is_known = |same: fn(&Setup, &Setup) -> bool| seen.iter().any(|known| same(known, &setup));
            if !is_known(|one, two| one.storage == two.storage) {
                targets::check(self, &setup)
                    .map_err(|error| study.impossible(levels, TrialPart::Storage, error))?;
            }
            if study.measures == Measures::Load && !is_known(|one, two| one.servers == two.servers) {
                serving::check(self, &setup)
                    .map_err(|error| study.impossible(levels, TrialPart::Servers, error))?;
            }
            seen.push(setup);
        }
        self.check_room(most)
    }

    /// The storage that is made for a study, each kind of it in one line.
    ///
    /// # Errors
    /// As of a study's levels.
    pub fn storage(&self, study: &Study, plan: &TrialPlan) -> Result<Vec<String>> {
        let mut lines: Vec<String> = Vec::new();
        for levels in &plan.cells {
            let line = targets::described(self, &study.setup(levels)?);
            lines.extend(line.filter(|line| !lines.contains(line)));
        }
        Ok(lines)
    }

    fn check_room(&self, most: u64) -> Result<()> {
        let room =
            rustix::fs::statvfs(&self.work).map_err(|cause| Error::io("look at", &self.work, cause))?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        if free < most.saturating_add(SPARE_BYTES) {
            let what = format!(
                "a trial needs up to {}, and {} has {}",
                Bytes(most),
                self.work.display(),
                Bytes(free)
            );
            return Err(Error::new(Kind::NoSpace, what)
                .with_id("trial-does-not-fit")
                .advise("choose a smaller size, or another folder with --dir"));
        }
        Ok(())
    }
}

/// The number of checkpoints that a trial must hold, so that one is complete whenever the trial begins.
const MIN_CHECKPOINTS: u32 = 2;

/// Returns a warning before the first trial if trials are too short for the checkpoint intervals that a study compares.
///
/// # Errors
/// As of a study's levels.
pub fn planned_blindness(study: &Study, plan: &TrialPlan) -> Result<Option<String>> {
    if study.measures != Measures::Load {
        return Ok(None);
    }
    let mut intervals: Vec<u64> = Vec::new();
    let mut shortest: Option<Duration> = None;
    for levels in &plan.cells {
        let setup = study.setup(levels)?;
        let interval = setup.servers.options.get("syncdelay").and_then(|text| text.parse::<u64>().ok());
        // At 0 the server makes no checkpoints.
        intervals.extend(interval.filter(|seconds| *seconds > 0));
        shortest = [shortest, setup.load.time].into_iter().flatten().min();
    }
    intervals.sort_unstable();
    intervals.dedup();
    let (Some(longest), Some(time), true) = (intervals.last(), shortest, intervals.len() > 1) else {
        return Ok(None);
    };
    let needed = Duration::from_secs(*longest).saturating_mul(MIN_CHECKPOINTS);
    Ok((time < needed).then(|| {
        format!(
            "A trial of {} holds no two checkpoints at a syncdelay of {longest} s, so what syncdelay does cannot be seen: make 'time' {} or \
             longer, or compare shorter intervals.",
            Nanos::from(time),
            Nanos::from(needed)
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(factors: &str, time: &str) -> Option<String> {
        let text = format!(
            "name: one\nquestion: q\nmeasures: load\nsettings: {{records: 10, time: {time}}}\nfactors: {{{factors}}}\nmetrics: {{primary: [throughput]}}\ndesign: {{blocks: 2}}\n"
        );
        let study = Study::parse(&text, None).unwrap();
        planned_blindness(&study, &TrialPlan::new(&study).unwrap()).unwrap()
    }

    #[test]
    fn a_trial_that_holds_no_two_checkpoints_is_told_before_it_runs() {
        let told = said("syncdelay: [60, 5]", "12s").unwrap();
        assert!(told.contains("make 'time' 2.00 min or longer"), "{told}");
        assert_eq!(said("syncdelay: [60, 5]", "2m"), None);
        assert_eq!(said("syncdelay: [0, 5]", "12s"), None);
        assert_eq!(said("threads: [1, 2]", "12s"), None, "a study of something else");
    }
}
