//! An engine in memory, for tests and for a server whose disk must not matter.
//!
//! It follows every rule of the crate except durability, of which it has none: flushes and checkpoints succeed and store
//! nothing. Each key has a chain of versions, and each version has the stamp of its transaction. A transaction reads what was
//! stamped before it began, and versions that no snapshot can see any more are pruned as transactions end. It refuses
//! every setting by name, because it has none. [`Faults`] makes its writes fail, so that the server's reaction to a failing
//! disk can be tested without one.

mod session;
mod shared;
mod store;
mod version;

use std::sync::Arc;

use crate::{Engine, Error, Kind, Result, Session, Statistics, Table, TableMetadata, TableSpec};
use session::MemorySession;
use shared::EngineState;
pub use shared::{Call, Faults, NAME};

/// A new, empty engine.
pub fn open() -> Arc<MemoryEngine> {
    Arc::new(MemoryEngine { shared: Arc::new(EngineState::default()) })
}

/// The engine in memory.
#[derive(Debug)]
pub struct MemoryEngine {
    shared: Arc<EngineState>,
}

impl MemoryEngine {
    /// The switch that makes writes fail.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }
}

impl Engine for MemoryEngine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        self.shared.check_running()?;
        Ok(Box::new(MemorySession::new(Arc::clone(&self.shared))))
    }

    fn create_table(&self, ident: &str, spec: &TableSpec) -> Result<Table> {
        self.shared.check_running()?;
        if !spec.config.is_empty() {
            return Err(no_settings(&spec.config));
        }
        self.shared.catalog.write().create(ident, spec.keys)
    }

    fn open_table(&self, ident: &str) -> Result<Table> {
        self.shared.check_running()?;
        self.shared.catalog.read().open(ident)
    }

    fn drop_table(&self, table: &Table) -> Result<()> {
        self.shared.check_running()?;
        self.shared.catalog.write().remove(table)
    }

    fn tables(&self) -> Result<Vec<String>> {
        self.shared.check_running()?;
        Ok(self.shared.catalog.read().idents())
    }

    fn flush_journal(&self) -> Result<()> {
        self.shared.check_running()?;
        self.shared.counters.journal_flushes.add(1);
        self.shared.may_fail(Call::FlushJournal)
    }

    fn checkpoint(&self) -> Result<()> {
        self.shared.check_running()?;
        self.shared.counters.checkpoints.add(1);
        self.shared.may_fail(Call::Checkpoint)
    }

    fn reconfigure(&self, settings: &str) -> Result<()> {
        self.shared.check_running()?;
        Err(no_settings(settings))
    }

    fn statistics(&self) -> Result<Statistics> {
        self.shared.check_running()?;
        Ok(self.shared.statistics())
    }

    fn table_statistics(&self, table: &Table) -> Result<Statistics> {
        Ok(self.shared.store(table)?.statistics())
    }

    fn table_metadata(&self, table: &Table) -> Result<TableMetadata> {
        self.shared.store(table)?;
        Ok(TableMetadata { creation: String::new(), uri: format!("memory:{}", table.ident()) })
    }

    fn size_on_disk(&self, table: &Table) -> Result<u64> {
        Ok(self.shared.store(table)?.bytes())
    }

    fn compact(&self, table: &Table) -> Result<()> {
        self.shared.store(table).map(|_| ())
    }

    fn verify(&self, table: &Table) -> Result<()> {
        self.shared.store(table)?.verify()
    }

    fn close(&self) -> Result<()> {
        self.shared.close()
    }
}

/// The refusal of a setting, by its name.
fn no_settings(settings: &str) -> Error {
    let name = settings.split(['=', ',']).next().unwrap_or_default().trim();
    Error::new(Kind::Usage, format!("the engine {NAME} has no setting \"{name}\""))
        .advise("leave it out; this engine takes no settings at all")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, Key};

    #[test]
    fn settings_are_refused_by_name() {
        let engine = open();
        let error = engine.reconfigure("cache_size=1GB").unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.what().contains("\"cache_size\""), "{error}");
        let spec = TableSpec { config: "block_compressor=zlib".to_owned(), ..TableSpec::records() };
        assert_eq!(engine.create_table("t", &spec).unwrap_err().kind(), Kind::Usage);
    }

    #[test]
    fn a_commit_after_a_conflict_fails() {
        let engine = open();
        let table = engine.create_table("t", &TableSpec::records()).unwrap();
        let (first, second) = (engine.session().unwrap(), engine.session().unwrap());
        first.begin().unwrap();
        second.begin().unwrap();
        first.put(&table, Key::Number(1), b"first").unwrap();
        assert_eq!(second.put(&table, Key::Number(1), b"second").unwrap_err().kind(), Kind::WriteConflict);
        assert_eq!(second.commit(Durability::Buffered).unwrap_err().kind(), Kind::WriteConflict);
        assert!(!second.in_transaction());
        first.commit(Durability::Buffered).unwrap();
    }

    #[test]
    fn nothing_is_left_behind_when_no_snapshot_needs_it() {
        let engine = open();
        let table = engine.create_table("t", &TableSpec::records()).unwrap();
        let session = engine.session().unwrap();
        for round in 0..50_i64 {
            session.begin().unwrap();
            for number in 0..100 {
                session.put(&table, Key::Number(number), &round.to_le_bytes()).unwrap();
            }
            session.commit(Durability::Buffered).unwrap();
        }
        session.truncate(&table, None, None).unwrap();
        // The end of each transaction prunes a share.
        for _ in 0..200 {
            session.begin().unwrap();
            session.rollback();
        }
        let statistics = engine.table_statistics(&table).unwrap();
        assert_eq!(statistics.get("table", "versions held"), Some(0), "{statistics:?}");
        assert_eq!(statistics.get("table", "bytes held"), Some(0), "{statistics:?}");
    }
}
