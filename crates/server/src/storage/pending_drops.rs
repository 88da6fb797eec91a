//! Tables that no catalog entry names any more and that the engine must still drop.
//!
//! WiredTiger refuses to drop a table while any session has a cursor open on it. Sessions close stale cursors at their
//! next use, so a refused drop is retried with each checkpoint; the names are not in the catalog, so a crash in between
//! loses nothing.
//!
//! In a replica set the catalog itself is recovered from the last checkpoint, and so may name a table that was given up
//! after it. So a table is dropped only after a checkpoint that began later, as in mongod since 4.2.

use std::sync::atomic::{AtomicU64, Ordering};

use fathom_engine::{Engine, Kind, Table};
use parking_lot::Mutex;

use super::{Collection, SetTables};

/// The tables waiting to be dropped.
#[derive(Debug)]
pub(crate) struct PendingDrops {
    /// Each table with the number of checkpoints begun before it was given up.
    tables: Mutex<Vec<(Table, u64)>>,
    waits_for_checkpoint: bool,
    begun: AtomicU64,
    /// Tables given up before this many checkpoints had begun may be dropped.
    done: AtomicU64,
}

impl PendingDrops {
    pub(crate) fn new(tables: SetTables) -> PendingDrops {
        PendingDrops {
            tables: Mutex::default(),
            waits_for_checkpoint: tables.is_set(),
            begun: AtomicU64::new(0),
            done: AtomicU64::new(0),
        }
    }

    pub(crate) fn push(&self, table: Table) {
        self.push_since(table, self.begun.load(Ordering::Acquire));
    }

    /// Adds a table that no catalog on disk has named since the server started.
    pub(crate) fn push_nameless(&self, table: Table) {
        self.push_since(table, 0);
    }

    fn push_since(&self, table: Table, begun: u64) {
        self.tables.lock().push((table, begun));
    }

    /// Adds all tables of a collection.
    pub(crate) fn push_all(&self, collection: &Collection) {
        let state = collection.lock();
        let tables = collection.table().into_iter().chain(state.indexes.iter().map(|index| index.table()));
        tables.for_each(|table| self.push(table.clone()));
    }

    /// Records that a checkpoint begins; it may still contain tables given up from now on. Pass the result to [`PendingDrops::checkpointed`].
    pub(crate) fn begin_checkpoint(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// A checkpoint is complete.
    pub(crate) fn checkpointed(&self, number: u64) {
        self.done.fetch_max(number, Ordering::AcqRel);
    }

    /// Drops all tables that can be dropped now.
    pub(crate) fn run(&self, engine: &dyn Engine) {
        let done = self.done.load(Ordering::Acquire);
        let waiting = std::mem::take(&mut *self.tables.lock());
        for (table, begun) in waiting {
            if self.waits_for_checkpoint && begun >= done {
                self.push_since(table, begun);
                continue;
            }
            match engine.drop_table(&table) {
                Err(error) if error.kind() == Kind::Busy => self.push_since(table, begun),
                // Already dropped, or the engine has stopped: the next start looks for tables without a name.
                _ => {}
            }
        }
    }
}
