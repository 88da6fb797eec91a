//! Samples the namespace under load: its latencies each second, its sizes twice a minute.
//!
//! `opLatencies` mixes in the operations of all other clients, so a budget of the load's operations needs the latencies of its own
//! collection. If none is named, the collection that takes the most time of client operations at the start is watched to the end
//! of the run; all servers of a run watch the same one. Fathom's own query is a read of the collection too, one a second, and
//! counts among its reads: this matters with a handful of operations a second.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use super::link::{Refusal, ServerLink};
use super::snapshot::number_of;
use crate::sampler::Notes;
use crate::sampler::PeriodTimer;
use crate::{Batch, Sums};

/// The namespace that all samplers of a run watch, once it is known.
#[derive(Clone, Debug, Default)]
pub struct Namespace {
    known: Arc<OnceLock<String>>,
    /// Whether the user named it.
    is_named: bool,
}

impl Namespace {
    /// Watches the named namespace, or the busiest one if none is named.
    pub fn new(named: Option<String>) -> Namespace {
        let is_named = named.is_some();
        Namespace { known: Arc::new(named.map_or_else(OnceLock::new, OnceLock::from)), is_named }
    }

    /// The database and the collection, if they are known by now.
    pub(crate) fn parts(&self) -> Option<(&str, &str)> {
        self.known.get()?.split_once('.')
    }

    /// The whole name, if it is known by now.
    pub(crate) fn name(&self) -> Option<&str> {
        self.known.get().map(String::as_str)
    }
}

/// The period of asking `top` until a collection is seen at work.
const IDLE_PERIOD: Duration = Duration::from_secs(10);
/// The period of asking for sizes: the server reads all counters of the collection's files for them, our most expensive command,
/// and they change slowly.
const SIZES_PERIOD: Duration = Duration::from_secs(30);
/// The number of consecutive readings without a named collection after which this is reported. A load that is watched creates its collection in its
/// first second.
const MAX_ABSENT_READINGS: u32 = 3;
/// The time between the first two readings.
const FIRST_PERIOD: Duration = Duration::from_secs(2);

/// Latencies and sizes of the namespace on one server.
#[derive(Debug)]
pub(crate) struct CollectionFigures {
    namespace: Namespace,
    prefix: String,
    /// The time of client operations by collection, as of the last `top`.
    times: Option<HashMap<String, f64>>,
    looks: PeriodTimer,
    sizes: PeriodTimer,
    absent_readings: u32,
}

impl CollectionFigures {
    pub(crate) fn new(number: usize, namespace: Namespace) -> CollectionFigures {
        let prefix = format!("server.{number}.");
        CollectionFigures {
            namespace,
            prefix,
            times: None,
            looks: PeriodTimer::new(FIRST_PERIOD),
            sizes: PeriodTimer::new(SIZES_PERIOD),
            absent_readings: 0,
        }
    }

    /// Takes the sample of one second. Only a lost server is an error; any other failure affects this part alone.
    pub(crate) fn sample(
        &mut self,
        link: &mut ServerLink,
        sums: &mut Sums,
        notes: &mut Notes,
        batch: &mut Batch,
    ) -> Result<(), Refusal> {
        let namespace = self.namespace.clone();
        let Some((database, collection)) = namespace.parts() else {
            return self.look_for_the_busiest(link, notes, batch);
        };
        let with_sizes = self.sizes.due(batch.clock.now_ns());
        let before_ns = batch.clock.now_ns();
        let who = link.who();
        let reply = match link.ask(database, &command(collection, with_sizes)) {
            Ok(reply) => reply,
            Err(Refusal::Lost(reason)) => return Err(Refusal::Lost(reason)),
            // A collection that does not exist yet, or a view.
            Err(Refusal::Absent) => {
                // Only the request for sizes tells, so it is repeated at once.
                self.absent_readings += 1;
                if self.absent_readings < MAX_ABSENT_READINGS {
                    self.sizes = PeriodTimer::new(SIZES_PERIOD);
                } else if namespace.is_named && self.absent_readings == MAX_ABSENT_READINGS {
                    notes.once(batch, format!(
                        "{who} has no collection {database}.{collection}, so no operation on it is counted"
                    ));
                }
                return Ok(());
            }
            Err(Refusal::Denied) => {
                notes.once(batch, format!(
                    "{who}: the user may not read $collStats of {database}.{collection} (the role clusterMonitor is enough): \
                     latencies are those of all collections together, and its size is not known"
                ));
                return Ok(());
            }
            Err(Refusal::Failed(reason)) => {
                notes.once(batch, format!(
                    "{who} gives no $collStats of {database}.{collection} ({reason}): latencies are those of all collections \
                     together, and its size is not known"
                ));
                return Ok(());
            }
        };
        let at_ns = before_ns.midpoint(batch.clock.now_ns());
        let Some(stats) = first_document(reply) else { return Ok(()) };
        for (kind, field, series, unit) in [
            ("reads", "ops", "collection.reads.operations", "1"),
            ("reads", "latency", "collection.reads.latency_us", "us"),
            ("writes", "ops", "collection.writes.operations", "1"),
            ("writes", "latency", "collection.writes.latency_us", "us"),
        ] {
            if let Some(total) = number_at(stats, &["latencyStats", kind, field]) {
                sums.put(batch, &format!("{}{series}", self.prefix), unit, at_ns, total);
            }
        }
        let size = |field| number_at(stats, &["storageStats", field]);
        if let (Some(records), Some(indexes)) = (size("storageSize"), size("totalIndexSize")) {
            let name = format!("{}storage.allocated_bytes", self.prefix);
            batch.put(name, "bytes", (at_ns, at_ns), records + indexes);
        }
        if let Some(logical) = size("size") {
            batch.put(format!("{}storage.logical_bytes", self.prefix), "bytes", (at_ns, at_ns), logical);
        }
        Ok(())
    }

    fn look_for_the_busiest(
        &mut self,
        link: &mut ServerLink,
        notes: &mut Notes,
        batch: &mut Batch,
    ) -> Result<(), Refusal> {
        if !self.looks.due(batch.clock.now_ns()) {
            return Ok(());
        }
        let who = link.who();
        match link.ask("admin", &rawdoc! { "top": 1 }) {
            Ok(reply) => {
                let now = times(reply);
                if let Some(before) = &self.times {
                    self.looks = PeriodTimer::new(IDLE_PERIOD);
                    self.looks.due(batch.clock.now_ns());
                    if let Some(name) = busiest(before, &now) {
                        let _ = self.namespace.known.set(name);
                    }
                }
                self.times = Some(now);
                Ok(())
            }
            Err(Refusal::Lost(reason)) => Err(Refusal::Lost(reason)),
            Err(_) => {
                self.looks = PeriodTimer::new(Duration::MAX);
                self.looks.due(batch.clock.now_ns());
                notes.once(batch, format!(
                    "{who} does not say which collection is busiest (the role clusterMonitor is enough for top), and none is \
                     named: latencies are those of all collections together"
                ));
                Ok(())
            }
        }
    }
}

fn command(collection: &str, with_sizes: bool) -> RawDocumentBuf {
    let mut stage = rawdoc! { "latencyStats": { "histograms": false } };
    if with_sizes {
        stage.append(bson::cstr!("storageStats"), rawdoc! {});
    }
    rawdoc! { "aggregate": collection, "pipeline": [{ "$collStats": stage }], "cursor": {} }
}

/// The first document of a cursor's first batch.
pub(crate) fn first_document(reply: &RawDocument) -> Option<&RawDocument> {
    let batch = reply.get_document("cursor").ok()?.get_array("firstBatch").ok()?;
    batch.into_iter().next()?.ok()?.as_document()
}

/// A number at a path.
pub(crate) fn number_at(document: &RawDocument, path: &[&str]) -> Option<f64> {
    let (last, inner) = path.split_last()?;
    let mut document = document;
    for field in inner {
        document = document.get_document(field).ok()?;
    }
    document.get(last).ok()?.and_then(number_of)
}

/// The time that `top` gives for each collection of users.
fn times(reply: &RawDocument) -> HashMap<String, f64> {
    let mut times = HashMap::new();
    let Ok(totals) = reply.get_document("totals") else { return times };
    for (name, value) in totals.iter().flatten() {
        let RawBsonRef::Document(usage) = value else { continue };
        let is_internal = name.as_str().split_once('.').is_none_or(|(database, collection)| {
            matches!(database, "admin" | "config" | "local") || collection.starts_with("system.")
        });
        if let (false, Some(time)) = (is_internal, number_at(usage, &["total", "time"])) {
            times.insert(name.as_str().to_owned(), time);
        }
    }
    times
}

/// Returns the collection whose time grew most; of equals, the first by name.
fn busiest(before: &HashMap<String, f64>, now: &HashMap<String, f64>) -> Option<String> {
    let grown = now.iter().map(|(name, time)| (time - before.get(name).copied().unwrap_or(0.0), name));
    let most = grown
        .filter(|(growth, _)| *growth > 0.0)
        .max_by(|one, other| one.0.total_cmp(&other.0).then_with(|| other.1.cmp(one.1)));
    most.map(|(_, name)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_collection_of_users_is_the_one_whose_time_grew_most() {
        let top = |a: i32, b: i32| {
            times(&rawdoc! { "totals": {
                "note": "all times in microseconds",
                "shop.a": { "total": { "time": a, "count": 1 } },
                "shop.b": { "total": { "time": b, "count": 1 } },
                "shop.system.profile": { "total": { "time": 1_000_000 - a, "count": 1 } },
                "local.oplog.rs": { "total": { "time": 9 * b, "count": 1 } },
            } })
        };
        assert_eq!(top(1, 2).len(), 2);
        assert_eq!(busiest(&top(900, 10), &top(905, 30)).as_deref(), Some("shop.b"));
        assert_eq!(busiest(&top(900, 10), &top(930, 40)).as_deref(), Some("shop.a"));
        assert_eq!(busiest(&top(900, 10), &top(900, 10)), None);
    }
}
