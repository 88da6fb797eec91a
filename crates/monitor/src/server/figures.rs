//! Turns replies to `serverStatus` into readings: sums over windows, gauges, facts, and notes on missing counters.

use std::sync::Arc;
use std::time::Duration;

use bson::RawDocument;
use fathom_record::catalog::{Additivity, kind_of};

use super::collection::number_at;
use super::link::WatchedServer;
use super::names::{NAMES, Name};
use super::snapshot::NameTree;
use super::{needs, server_status};
use crate::sampler::Notes;
use crate::{Batch, Sums};

/// One row of the table of names as a series of one server.
#[derive(Debug)]
struct ServerSeries {
    name: String,
    unit: &'static str,
    kind: Additivity,
}

/// The identity of a server's process at its last answer.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ProcessIdentity {
    pid: f64,
    uptime_ms: f64,
}

/// The counters of one server so far.
#[derive(Debug)]
pub(crate) struct CounterFigures {
    names: Arc<NameTree>,
    targets: Vec<Option<ServerSeries>>,
    life: Option<ProcessIdentity>,
    /// The totals of the server's counters; other samplers of the same server put theirs here too, since all of
    /// them restart with it.
    pub(crate) sums: Sums,
    pub(crate) notes: Notes,
}

impl CounterFigures {
    pub(crate) fn new(watched: &WatchedServer, names: Arc<NameTree>) -> CounterFigures {
        let target = |name: &Name| {
            if name.remote_only && watched.pid.is_some() {
                return None;
            }
            let name = format!("server.{}.{}", watched.number, name.series);
            let kind = kind_of(&name)?;
            Some(ServerSeries { name, unit: kind.unit, kind: kind.kind })
        };
        CounterFigures {
            names,
            targets: NAMES.iter().map(target).collect(),
            life: None,
            sums: Sums::default(),
            notes: Notes::default(),
        }
    }

    /// Takes a reply that was requested and received within the window. Counters were read at some moment within it, so its
    /// middle is off by at most half its width.
    pub(crate) fn take(
        &mut self,
        watched: &WatchedServer,
        status: &RawDocument,
        window: (u64, u64),
        batch: &mut Batch,
    ) {
        let at_ns = window.0.midpoint(window.1);
        let who = format!("server {} ({})", watched.number, watched.address);
        let now = ProcessIdentity::from_status(status);
        if self.life.is_some_and(|before| now.is_after(before)) {
            self.sums.restart();
            self.life = None;
            let at_s = Duration::from_nanos(at_ns).as_secs();
            let note =
                format!("{who} was restarted before second {at_s} of the run: its counters began at zero");
            self.notes.once(batch, note);
        }
        let values = self.names.read(status);
        if self.life.is_none() {
            introduce(watched, status, batch);
            if watched.role.has_engine() {
                let engine = server_status::engine(status).unwrap_or_default();
                for note in needs::missing(&who, engine, &values) {
                    self.notes.once(batch, note);
                }
            }
        }
        self.life = Some(now);
        for (target, value) in self.targets.iter().zip(values) {
            let (Some(target), Some(value)) = (target, value) else { continue };
            match target.kind {
                Additivity::Sum => self.sums.put(batch, &target.name, target.unit, at_ns, value),
                Additivity::Gauge => batch.put(target.name.as_str(), target.unit, window, value),
            }
        }
    }
}

impl ProcessIdentity {
    fn from_status(status: &RawDocument) -> ProcessIdentity {
        let seconds = || number_at(status, &["uptime"]).map(|seconds| seconds * 1000.0);
        ProcessIdentity {
            pid: number_at(status, &["pid"]).unwrap_or(0.0),
            uptime_ms: number_at(status, &["uptimeMillis"]).or_else(seconds).unwrap_or(0.0),
        }
    }

    /// Returns whether this is a later process than `before`. In a container the process has the same number each time.
    fn is_after(self, before: ProcessIdentity) -> bool {
        (self.pid - before.pid).abs() > 0.5 || self.uptime_ms < before.uptime_ms
    }
}

/// Adds the facts on the server to the manifest.
fn introduce(watched: &WatchedServer, status: &RawDocument, batch: &mut Batch) {
    let prefix = format!("server.{}", watched.number);
    let mut fact = |name: &str, value: String| batch.facts.push((format!("{prefix}{name}"), value));
    fact("", watched.address.to_string());
    fact(".role", watched.role.name().to_owned());
    if let Some(shard) = &watched.shard {
        fact(".shard", shard.clone());
    }
    if let Some(set) = &watched.set {
        fact(".set", set.clone());
    }
    if let Some(engine) = server_status::engine(status) {
        fact(".engine", engine.to_owned());
    }
    if let Ok(version) = status.get_str("version") {
        fact(".version", version.to_owned());
    }
    if let Some(pid) = number_at(status, &["pid"]) {
        fact(".pid", format!("{pid:.0}"));
    }
    fact(".here", watched.pid.is_some().to_string());
    if let Some(path) = &watched.dbpath {
        fact(".dbpath", path.display().to_string());
    }
    if let Some(path) = &watched.log {
        fact(".log", path.display().to_string());
    }
}
