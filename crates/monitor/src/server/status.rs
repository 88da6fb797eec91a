//! The sampler of one server: sends a ping and one `serverStatus`, and reads the latencies of the watched namespace, each second.
//!
//! Sections that the server does not show, or not to our user, are noted once with the consequence, and the rest
//! continues. A lost connection is retried each second, and its `up` is 0 until it answers.

use std::sync::Arc;
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use fathom_errors::Result;

use super::busy_signs::{BusySigns, has_transactions};
use super::collection::{CollectionFigures, Namespace, number_at};
use super::figures::CounterFigures;
use super::link::{Refusal, ServerLink, WatchedServer};
use super::progress::timestamp;
use super::replication::changed;
use super::server_status;
use super::snapshot::NameTree;
use super::work_questions::{WorkQuestions, WorkSigns};
use crate::sampler::PeriodTimer;
use crate::{Batch, Sampler};

/// The sampler of one server.
#[derive(Debug)]
pub(crate) struct StatusSampler {
    watched: WatchedServer,
    link: ServerLink,
    figures: CounterFigures,
    collection: Option<CollectionFigures>,
    parameters: PeriodTimer,
    command: RawDocumentBuf,
    last_ns: Option<u64>,
    is_up: bool,
    writes: Option<Writes>,
    /// True if writes waited at the last reading and none had ended since the reading before.
    has_writes_held_up: bool,
    signs: BusySigns,
    is_busy: bool,
    has_transactions: bool,
    /// The questions on its work; a router's is that of its shards.
    work: Option<WorkQuestions>,
}

/// The figures on a server's writes in `serverStatus`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Writes {
    ended: f64,
    /// The writes in progress or in the queue.
    waiting: f64,
}

impl Writes {
    fn from_status(status: &RawDocument) -> Option<Writes> {
        let lock = |state: &str| number_at(status, &["globalLock", state, "writers"]);
        Some(Writes {
            ended: number_at(status, &["opLatencies", "writes", "ops"])?,
            waiting: lock("currentQueue")? + lock("activeClients")?,
        })
    }

    /// Returns whether writes wait and none ended since `before`.
    fn are_held_up_since(self, before: Writes) -> bool {
        self.waiting > 0.0 && self.ended <= before.ended
    }
}

/// The result of one second's sample; an error means that the server cannot be reached.
type VisitResult = std::result::Result<(), Refusal>;

impl StatusSampler {
    /// A sampler of `watched` that has not connected yet.
    pub(crate) fn new(watched: WatchedServer, names: Arc<NameTree>, namespace: Namespace) -> StatusSampler {
        StatusSampler {
            link: ServerLink::new(watched.number, watched.address.clone(), &watched.target),
            figures: CounterFigures::new(&watched, names),
            // A router's latencies are those of its shards, which are watched themselves.
            collection: watched.role.has_engine().then(|| CollectionFigures::new(watched.number, namespace)),
            parameters: PeriodTimer::new(Duration::from_secs(10)),
            command: server_status::command_for(&watched),
            last_ns: None,
            is_up: true,
            writes: None,
            has_writes_held_up: false,
            signs: BusySigns::default(),
            is_busy: false,
            has_transactions: false,
            work: watched.role.has_engine().then(|| WorkQuestions::new(watched.number)),
            watched,
        }
    }

    fn series(&self, name: &str) -> String {
        format!("server.{}.{name}", self.watched.number)
    }

    fn visit(&mut self, batch: &mut Batch) -> VisitResult {
        self.link.connect()?;
        let begin_ns = batch.clock.now_ns();
        let ping = self.link.ping()?;
        let window = (begin_ns, batch.clock.now_ns());
        batch.put(self.series("ping_us"), "us", window, ping.as_secs_f64() * 1e6);
        self.read_status(batch)?;
        self.read_fsync_lock(batch)?;
        let asks = WorkSigns { is_busy: self.is_busy, has_transactions: self.has_transactions };
        if let Some(work) = self.work.as_mut().filter(|_| asks.is_any()) {
            work.sample(asks, &mut self.link, &mut self.figures.notes, batch)?;
        }
        if let Some(collection) = &mut self.collection {
            let CounterFigures { sums, notes, .. } = &mut self.figures;
            collection.sample(&mut self.link, sums, notes, batch)?;
        }
        self.read_parameters(batch)
    }

    fn read_status(&mut self, batch: &mut Batch) -> VisitResult {
        let who = self.link.who();
        let begin_ns = batch.clock.now_ns();
        let notes = &mut self.figures.notes;
        match self.link.ask("admin", &self.command) {
            Ok(status) => {
                let window = (begin_ns, batch.clock.now_ns());
                self.figures.take(&self.watched, status, window, batch);
                let writes = Writes::from_status(status);
                self.has_writes_held_up =
                    writes.zip(self.writes).is_some_and(|(now, before)| now.are_held_up_since(before));
                self.writes = writes;
                self.is_busy = self.signs.take(status, window.1);
                self.has_transactions = has_transactions(status);
                let end = |name| timestamp(status, &["oplog"], name).map(|stamp| f64::from(stamp.time));
                if let Some((first, last)) = end("earliestOptime").zip(end("latestOptime")) {
                    let name = format!("server.{}.replication.oplog_s", self.watched.number);
                    batch.put(name, "s", window, (last - first).max(0.0));
                }
            }
            Err(Refusal::Lost(reason)) => return Err(Refusal::Lost(reason)),
            Err(Refusal::Denied) => {
                let note = "the user may not run serverStatus (the role clusterMonitor is enough)";
                notes
                    .once(batch, format!("{who}: {note}: nothing inside the server can be named as a cause"));
            }
            Err(refusal) => {
                let plain = server_status::plain();
                if self.command == plain {
                    let cost = "nothing inside the server can be named as a cause";
                    notes.once(batch, format!("{who} does not answer serverStatus ({refusal:?}): {cost}"));
                }
                // The server may reject the list of omitted sections.
                self.command = plain;
            }
        }
        Ok(())
    }

    /// Reads whether `fsync` locked the server. This is asked only while writes wait and none ends, because `currentOp` walks all connections.
    fn read_fsync_lock(&mut self, batch: &mut Batch) -> VisitResult {
        if !self.has_writes_held_up {
            return Ok(());
        }
        // A condition that no operation meets: only the reply's own field is needed.
        let command = rawdoc! { "currentOp": 1, "opid": -1 };
        let name = self.series("fsync_locked");
        match self.link.ask("admin", &command) {
            Ok(reply) => {
                let is_locked = reply.get_bool("fsyncLock").unwrap_or(false);
                let at_ns = batch.clock.now_ns();
                batch.put(name, "1", (at_ns, at_ns), f64::from(u8::from(is_locked)));
            }
            Err(Refusal::Lost(reason)) => return Err(Refusal::Lost(reason)),
            Err(Refusal::Denied) => {
                let who = self.link.who();
                let note = "the user may not run currentOp (the role clusterMonitor is enough)";
                let cost = "a server that is locked by fsyncLock cannot be distinguished from one that hangs";
                self.figures.notes.once(batch, format!("{who}: {note}: {cost}"));
            }
            Err(Refusal::Absent | Refusal::Failed(_)) => {}
        }
        Ok(())
    }

    /// Reads `syncdelay`, which sets the interval between checkpoints and may change at run time.
    fn read_parameters(&mut self, batch: &mut Batch) -> VisitResult {
        if !self.watched.role.has_engine() || !self.parameters.due(batch.clock.now_ns()) {
            return Ok(());
        }
        let who = self.link.who();
        match self.link.ask("admin", &rawdoc! { "getParameter": 1, "syncdelay": 1 }) {
            Ok(reply) => {
                let value = number_at(reply, &["syncdelay"]);
                let at_ns = batch.clock.now_ns();
                if let Some(value) = value {
                    batch.put(self.series("parameter.syncdelay_s"), "s", (at_ns, at_ns), value);
                }
            }
            Err(Refusal::Lost(reason)) => return Err(Refusal::Lost(reason)),
            Err(Refusal::Denied) => {
                let note = "the user may not run getParameter (the role clusterMonitor is enough)";
                let cost = "the period of checkpoints is not known beforehand";
                self.figures.notes.once(batch, format!("{who}: {note}: {cost}"));
            }
            // An engine without checkpoints need not have it.
            Err(Refusal::Absent | Refusal::Failed(_)) => {}
        }
        Ok(())
    }
}

impl Sampler for StatusSampler {
    fn name(&self) -> String {
        format!("server.{}", self.watched.number)
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let begin_ns = batch.clock.now_ns();
        let visit = self.visit(batch);
        let now_ns = batch.clock.now_ns();
        let window = (self.last_ns.unwrap_or(begin_ns), now_ns);
        self.last_ns = Some(now_ns);
        batch.put(self.series("up"), "1", window, f64::from(u8::from(visit.is_ok())));
        if let Err(Refusal::Lost(reason)) = &visit
            && self.is_up
        {
            let at_s = Duration::from_nanos(now_ns).as_secs();
            let who = self.link.who();
            batch.notes.push(format!("{who} went out of reach in second {at_s} of the run: {reason}"));
            batch.entries.push(changed(
                self.watched.number,
                now_ns,
                format!("{who} is out of reach: {reason}"),
            ));
        }
        if visit.is_ok() && !self.is_up {
            batch.entries.push(changed(
                self.watched.number,
                now_ns,
                format!("{} answers again", self.link.who()),
            ));
        }
        self.is_up = visit.is_ok();
        self.link.account(batch);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_held_up_while_some_wait_and_none_ends() {
        let of = |ended: i64, active: i32, queued: i32| {
            let status = rawdoc! {
                "opLatencies": { "writes": { "latency": 1_i64, "ops": ended } },
                "globalLock": { "activeClients": { "writers": active }, "currentQueue": { "writers": queued } },
            };
            Writes::from_status(&status).unwrap()
        };
        assert!(of(7, 0, 3).are_held_up_since(of(7, 1, 0)));
        assert!(!of(8, 0, 3).are_held_up_since(of(7, 1, 0)), "one ended");
        assert!(!of(7, 0, 0).are_held_up_since(of(7, 1, 0)), "an idle server");
        assert_eq!(Writes::from_status(&rawdoc! { "ok": 1 }), None);
    }
}
