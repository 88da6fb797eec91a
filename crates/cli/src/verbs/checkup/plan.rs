//! The parts of a checkup with their times, for the line at its start and for the progress.

use std::time::Duration;

use fathom_record::capacity::CapacityLoad;
use fathom_report::wrapped;

use super::config::{Config, server_name};
use crate::output::WIDTH;
use crate::progress::{PlanPart, time_words};

/// The time of a whole checkup of one engine, and the times of the probe and of the load of the table in it.
const QUICK_S: (u64, u64, u64) = (45, 17, 3);
const FULL_S: (u64, u64, u64) = (240, 20, 15);
/// The times of a whole probe without a capacity and of a load of a deployment, full and quick.
const PROBE_S: (u64, u64) = (120, 17);
const LOAD_S: (u64, u64) = (65, 6);
/// The part in which the deployment is watched, and that of the disk.
pub(super) const WATCH: &str = "watch";
pub(super) const DISK: &str = "disk";
/// A part of a load of a deployment.
pub(super) const DEPLOYMENT: &str = "deployment";

/// The key of a part of a load on the built-in server, from the server's name and the part's name in results.
pub(super) fn key_of(server: &str, part: &str) -> String {
    let load = part.split(',').next().unwrap_or(part);
    format!("{server}/{load}")
}

/// The name of a search's steps in results.
fn step_name(load: CapacityLoad) -> &'static str {
    match load {
        CapacityLoad::Reads => "reads",
        CapacityLoad::JournaledWrites => "journaled writes",
        CapacityLoad::Mix => "mix",
    }
}

fn part(key: impl Into<String>, name: impl Into<String>, time: Duration) -> PlanPart {
    PlanPart { key: key.into(), name: name.into(), time }
}

impl Config {
    /// The parts in their order.
    pub(super) fn plan(&self) -> Vec<PlanPart> {
        let seconds = Duration::from_secs;
        let mut parts = Vec::new();
        if let Some(name) = self.watched_name() {
            parts.push(part(WATCH, format!("watching {name}"), Duration::from(self.watch_time())));
        }
        if !self.examines_directory() {
            return parts;
        }
        if !self.measures_capacity() {
            let pick = |(full, quick): (u64, u64)| seconds(if self.quick { quick } else { full });
            parts.push(part(DISK, "the disk", pick(PROBE_S)));
            if self.load {
                parts.push(part(DEPLOYMENT, "loading the deployment", pick(LOAD_S)));
            }
            return parts;
        }
        let (whole_s, probe_s, table_s) = if self.quick { QUICK_S } else { FULL_S };
        parts.push(part(DISK, "the disk", seconds(probe_s)));
        let searches = self.capacity().searches;
        // A search takes as long as its steps, whose number is not known.
        let weights =
            searches.iter().map(|search| (search.steps.step + search.steps.confirmation).as_secs_f64());
        let whole: f64 = weights.clone().sum();
        let rest_s = whole_s.saturating_sub(probe_s + table_s) as f64;
        for (_, engine) in self.engines() {
            let server = server_name(engine);
            parts.push(part(key_of(&server, "load"), "loading a table", seconds(table_s)));
            for (search, weight) in searches.iter().zip(weights.clone()) {
                let key = key_of(&server, step_name(search.load));
                let time = Duration::from_secs_f64(rest_s * weight / whole.max(1e-9));
                parts.push(part(key, search.load.name(), time));
            }
        }
        parts
    }

    /// The planned work and its time.
    pub(super) fn plan_in_words(&self) -> String {
        let time: Duration = self.plan().iter().map(|part| part.time).sum();
        let time = if time < Duration::from_secs(100) {
            format!("about {}", time_words(time))
        } else {
            format!("at most {}", time_words(time))
        };
        let mut parts = Vec::new();
        if let Some(name) = self.watched_name() {
            parts.push(format!("Watching {name} for {}, reading only.", self.watch_time()));
        }
        if self.examines_directory() {
            let engines: Vec<&str> = self.engines().iter().map(|(_, name)| *name).collect();
            let loads = match (self.measures_capacity(), self.quick) {
                (false, _) => String::new(),
                (true, true) => ", then reads past memory and journaled writes".to_owned(),
                (true, false) => ", then reads past memory, journaled writes and a mix of both".to_owned(),
            };
            let server = if self.measures_capacity() {
                format!(" on {}, at {}", engines.join(" and "), self.slo().words())
            } else {
                String::new()
            };
            let dir = self.directory().display();
            parts.push(format!("Checking {dir}: the host's settings, the disk{loads}{server}."));
        }
        parts.push(format!("This takes {time}."));
        wrapped(&parts.join(" "), "", "", WIDTH).join("\n")
    }
}
