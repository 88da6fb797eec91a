//! Applies oplog entries to the data: those of another member, or this member's own after a crash.
//!
//! A batch's entries on one document are applied in order by one thread, entries on different documents by several threads, like mongod's
//! 16 writers (docs/methods.md#the-oplog). If an index besides `_id` is unique, one document may pass its key to another, so the whole
//! collection's entries are applied in order. Commands run while nothing else is applied.

mod command;
mod document;

pub(super) use command::build_relaxed;
pub(super) use document::ApplyMode;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use fathom_engine::Session;
use fathom_query::{Code, Failure};
use fathom_wire::DocumentWriter;

use crate::Result;
use crate::client::Client;
use crate::instance::Instance;
use crate::operation_context::OperationContext;
use crate::replica_set::{ChangeKind, OplogEntry, UnreplicatedWritesBlock};

/// Fewer entries than this are applied by one thread: starting others would take longer.
const MIN_PARALLEL_ENTRIES: usize = 32;

/// The threads' sessions, kept from batch to batch.
pub(crate) struct Applier {
    instance: Arc<Instance>,
    sessions: Vec<Box<dyn Session>>,
}

impl std::fmt::Debug for Applier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Applier").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}

impl Applier {
    /// Makes an applier with this number of threads.
    pub(crate) fn new(instance: &Arc<Instance>, threads: usize) -> Result<Applier> {
        let sessions = (0..threads.max(1)).map(|_| instance.engine.session());
        Ok(Applier { instance: Arc::clone(instance), sessions: sessions.collect::<Result<_, _>>()? })
    }

    pub(crate) fn apply(&mut self, entries: &[OplogEntry], manner: ApplyMode) -> Result<()> {
        let mut from = 0;
        while let Some(rest) = entries.get(from..)
            && !rest.is_empty()
        {
            let documents = rest.iter().take_while(|entry| entry.kind != ChangeKind::Command).count();
            self.apply_documents(rest.get(..documents).unwrap_or_default(), manner)?;
            if let Some(entry) = rest.get(documents) {
                self.apply_command(entry, manner)?;
            }
            from += documents + 1;
        }
        Ok(())
    }

    fn apply_command(&self, entry: &OplogEntry, manner: ApplyMode) -> Result<()> {
        let Some(session) = self.sessions.first() else { return Ok(()) };
        with_operation(&self.instance, &**session, |op| command::apply(op, entry, manner))
            .map_err(|failure| explained(entry, &failure))
    }

    fn apply_documents(&mut self, entries: &[OplogEntry], manner: ApplyMode) -> Result<()> {
        let lanes = self.lanes(entries);
        let instance = &self.instance;
        let run = |session: &dyn Session, lane: &[&OplogEntry]| {
            with_operation(instance, session, |op| {
                lane.iter().try_for_each(|entry| {
                    document::apply(op, entry, manner).map_err(|failure| explained(entry, &failure))
                })
            })
        };
        if let [lane] = lanes.as_slice() {
            return self.sessions.first().map_or(Ok(()), |session| run(&**session, lane));
        }
        let run = &run;
        std::thread::scope(|scope| {
            // A session may be used by one thread at a time.
            let pairs = lanes.iter().zip(&mut self.sessions);
            let threads: Vec<_> =
                pairs.map(|(lane, session)| scope.spawn(move || run(&**session, lane))).collect();
            let panicked = || Failure::new(Code::InternalError, "a thread that applies entries panicked");
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(panicked())))
        })
    }

    /// Distributes the entries over threads; each lane keeps their order.
    fn lanes<'e>(&self, entries: &'e [OplogEntry]) -> Vec<Vec<&'e OplogEntry>> {
        let work = || entries.iter().filter(|entry| entry.kind != ChangeKind::Noop);
        let threads = self.sessions.len().min(entries.len() / (MIN_PARALLEL_ENTRIES / 2));
        if entries.len() < MIN_PARALLEL_ENTRIES || threads < 2 {
            return vec![work().collect()];
        }
        let mut lanes = vec![Vec::new(); threads];
        let mut whole: HashMap<&str, bool> = HashMap::new();
        for entry in work() {
            let together =
                *whole.entry(&entry.namespace).or_insert_with(|| self.is_one_lane(&entry.namespace));
            let mut hasher = DefaultHasher::new();
            entry.namespace.hash(&mut hasher);
            if !together && let Some(id) = entry.id() {
                let mut bytes = Vec::new();
                let mut writer = DocumentWriter::new(&mut bytes);
                writer.value("", id);
                writer.end();
                bytes.hash(&mut hasher);
            }
            let lane = usize::try_from(hasher.finish() % threads as u64).unwrap_or(0);
            if let Some(lane) = lanes.get_mut(lane) {
                lane.push(entry);
            }
        }
        lanes.retain(|lane| !lane.is_empty());
        lanes
    }

    /// Whether a collection's entries must keep their order across documents.
    fn is_one_lane(&self, namespace: &str) -> bool {
        let Some(collection) = self.instance.catalog.get(namespace) else { return true };
        let state = collection.lock();
        collection.limits().is_some() || state.indexes.iter().skip(1).any(|index| index.is_unique())
    }
}

/// Runs `work` as an internal operation whose writes are not logged.
pub(crate) fn with_operation<T>(
    instance: &Arc<Instance>,
    session: &dyn Session,
    work: impl FnOnce(&mut OperationContext<'_>) -> Result<T>,
) -> Result<T> {
    let _quiet = UnreplicatedWritesBlock::begin();
    let client = Client::internal();
    work(&mut OperationContext::new(instance, session, &client))
}

fn explained(entry: &OplogEntry, failure: &Failure) -> Failure {
    let what = format!("cannot apply the entry {}: {}", entry.at, failure.message());
    Failure::new(failure.code(), what)
}
