//! How long a study will take and how much room it needs, before anything runs.
//!
//! The room is an upper limit, since disks are files that only take what was written. The time is a guess from the rates below, told as
//! one; once trials have run, what they took is used in place of it.

use std::time::Duration;

use fathom_errors::Result;
use fathom_units::Bytes;

use crate::setup::Setup;
use crate::{Measures, Plan, Study};

/// Operations a second that are guessed, of a load and of a run, where neither time nor rate says it.
const LOAD_PER_S: f64 = 10_000.0;
const RUN_PER_S: f64 = 10_000.0;
/// Starting and ending servers, for each of them; file systems and arrays, for each disk.
const SERVER_S: f64 = 1.5;
const DISK_S: f64 = 1.0;
/// A record with its index, its journal and its checkpoints, for each byte of its fields: measured with YCSB's records of 1 KB.
const RECORD_FACTOR: u64 = 3;
/// The disk of a file that is laid out, in bytes a second.
const LAYOUT_PER_S: f64 = 300e6;

/// What a study takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Trials.
    pub trials: usize,
    /// A guess of the time.
    pub time: Duration,
    /// The most room that any trial takes below the working folder.
    pub room: Bytes,
}

/// Estimates a study.
pub fn estimate(study: &Study, plan: &Plan) -> Result<Estimate> {
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

/// A guess of how long one trial takes.
fn trial_seconds(measures: Measures, setup: &Setup) -> f64 {
    let made = if setup.storage.is_made() { DISK_S * setup.storage.count() as f64 } else { 0.0 };
    let own = match measures {
        Measures::Probe => setup.probe.size.0 as f64 / LAYOUT_PER_S + setup.probe.time.as_secs_f64() + 1.0,
        Measures::Load => {
            let load = &setup.load;
            let run =
                load.operations.map(|operations| operations as f64 / load.target_per_s.unwrap_or(RUN_PER_S));
            let time = load.time.map(|time| time.as_secs_f64());
            let run = match (run, time) {
                (Some(run), Some(time)) => run.min(time),
                (run, time) => run.or(time).unwrap_or(0.0),
            };
            let routers = if setup.servers.shards.is_some() { 2 } else { 0 };
            let servers = f64::from(setup.servers.data_servers() + routers);
            load.records as f64 / LOAD_PER_S + load.warmup.as_secs_f64() + run + SERVER_S * servers
        }
    };
    made + own
}

/// The most that one trial puts on the disk.
pub(crate) fn room_of(measures: Measures, setup: &Setup) -> u64 {
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
                .saturating_mul(RECORD_FACTOR)
                .saturating_mul(copies)
                .saturating_add(256 << 20)
        }
    };
    if storage.is_made() { disks.min(data.saturating_add(512 << 20)) } else { data }
}
