//! Tables that nobody names any more and that the engine has still to drop.
//!
//! WiredTiger refuses to drop a table while any session has a cursor open on it. Sessions close stale cursors at their
//! next use, so a refused drop is tried again with each checkpoint; the names are not in the catalog, so a crash in
//! between loses nothing.

use fathom_engine::{Engine, Kind, Table};
use parking_lot::Mutex;

use super::Collection;

/// The tables that wait.
#[derive(Debug, Default)]
pub(crate) struct PendingDrops {
    tables: Mutex<Vec<Table>>,
}

impl PendingDrops {
    /// Adds one.
    pub(crate) fn push(&self, table: Table) {
        self.tables.lock().push(table);
    }

    /// Adds all tables of a collection.
    pub(crate) fn push_all(&self, collection: &Collection) {
        let state = collection.lock();
        let tables = collection.table().into_iter().chain(state.indexes.iter().map(|index| index.table()));
        self.tables.lock().extend(tables.cloned());
    }

    /// Drops what can be dropped now.
    pub(crate) fn run(&self, engine: &dyn Engine) {
        let waiting = std::mem::take(&mut *self.tables.lock());
        for table in waiting {
            match engine.drop_table(&table) {
                Err(error) if error.kind() == Kind::Busy => self.push(table),
                // Gone, or the engine stopped: the next start looks for tables without a name.
                _ => {}
            }
        }
    }
}
