//! What all sessions share: the tables by name and slot, the clock, the counters, and whether the engine still runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use super::NAME;
use super::counters::Counters;
use super::faults::{Call, Faults};
use super::store::Store;
use super::times::{Garbage, Times};
use crate::{Error, KeyKind, Kind, Result, Statistics, Table};

/// The tables. Slots are given once and never again, so that a table that was dropped cannot be taken for a new one.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    slots: Vec<Option<Arc<Store>>>,
    by_ident: BTreeMap<String, Table>,
}

impl Catalog {
    pub(super) fn create(&mut self, ident: &str, keys: KeyKind) -> Result<Table> {
        if self.by_ident.contains_key(ident) {
            return Err(Error::new(Kind::Duplicate, format!("table {ident} exists already")));
        }
        let table = Table::new(ident, keys, self.slots.len() as u64);
        self.slots.push(Some(Arc::new(Store::new(ident, keys))));
        self.by_ident.insert(ident.to_owned(), table.clone());
        Ok(table)
    }

    pub(super) fn open(&self, ident: &str) -> Result<Table> {
        self.by_ident.get(ident).cloned().ok_or_else(|| no_table(ident))
    }

    /// Cursors and transactions that hold the table keep what they hold until they end.
    pub(super) fn remove(&mut self, table: &Table) -> Result<()> {
        self.store(table)?;
        self.by_ident.remove(table.ident());
        if let Some(slot) = usize::try_from(table.slot()).ok().and_then(|slot| self.slots.get_mut(slot)) {
            *slot = None;
        }
        Ok(())
    }

    pub(super) fn idents(&self) -> Vec<String> {
        self.by_ident.keys().cloned().collect()
    }

    fn store(&self, table: &Table) -> Result<&Arc<Store>> {
        let held = usize::try_from(table.slot()).ok().and_then(|slot| self.slots.get(slot)?.as_ref());
        held.filter(|store| store.ident() == table.ident()).ok_or_else(|| no_table(table.ident()))
    }
}

/// One engine, as its sessions see it.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) catalog: RwLock<Catalog>,
    pub(super) times: Mutex<Times>,
    pub(super) counters: Counters,
    pub(super) faults: Faults,
    stopped: AtomicBool,
}

impl Shared {
    /// An error once the engine was closed or has failed.
    pub(super) fn check_running(&self) -> Result<()> {
        if self.stopped.load(Ordering::Acquire) {
            return Err(Error::new(
                Kind::Stopped,
                format!("the engine {NAME} is closed or has stopped itself"),
            ));
        }
        Ok(())
    }

    /// The rows of a table; an error if it is gone, or the engine is.
    pub(super) fn store(&self, table: &Table) -> Result<Arc<Store>> {
        self.check_running()?;
        self.catalog.read().store(table).cloned()
    }

    /// Counts a call that a test may have made to fail; if it does, the engine stops.
    pub(super) fn may_fail(&self, call: Call) -> Result<()> {
        self.faults.count(call).inspect_err(|_| self.stopped.store(true, Ordering::Release))
    }

    /// Ends all calls for ever.
    pub(super) fn close(&self) -> Result<()> {
        self.check_running()?;
        self.stopped.store(true, Ordering::Release);
        Ok(())
    }

    /// Prunes the keys that were due. Not under the lock of the clock, which every transaction needs.
    pub(super) fn prune(&self, due: Vec<Garbage>, oldest: u64) {
        let pruned = due.iter().map(|one| one.store.prune(&one.key, oldest)).sum();
        self.counters.pruned.add(pruned);
    }

    /// Counters, then what is held now.
    pub(super) fn statistics(&self) -> Statistics {
        let mut statistics = Statistics::default();
        for (section, name, value) in self.counters.all() {
            statistics.push(section, name, value.cast_signed());
        }
        let open = self.times.lock().open() as u64;
        statistics.push("transaction", "transactions open", open.cast_signed());
        let catalog = self.catalog.read();
        let stores: Vec<_> = catalog.slots.iter().flatten().map(|store| store.statistics()).collect();
        for name in ["keys held", "versions held", "bytes held"] {
            statistics.push("tables", name, stores.iter().filter_map(|one| one.get("table", name)).sum());
        }
        statistics.push("tables", "tables", (stores.len() as u64).cast_signed());
        statistics
    }
}

fn no_table(ident: &str) -> Error {
    Error::new(Kind::NotFound, format!("there is no table {ident}"))
}
