//! The engine: opening and closing, tables, durability, maintenance.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fathom_engine::{Engine, Error, Kind, Result, Session, Statistics, Table, TableMetadata, TableSpec};
use parking_lot::{Mutex, RwLock};

use crate::catalog::TableCatalog;
use crate::drops::Drops;
use crate::home::Home;
use crate::native::{BlockCache, Database, RangeScan, ReadOptions, WriteBatch};
use crate::options::Options;
use crate::session::RocksSession;
use crate::store::{Store, cannot_read};
use crate::{keys, options, statistics};

/// RocksDB under the options of mongo-rocks.
///
/// Tables share one tree and one log, so [`TableSpec::journaled`] makes no difference: everything is journaled, or, with
/// [`Options::journal`] off, nothing is. mongo-rocks does the same. For a study this means that in a replica set this engine
/// writes more to its log than WiredTiger does, as mongo-rocks did.
pub struct RocksEngine {
    /// `None` once the engine is closed.
    store: RwLock<Option<Arc<Store>>>,
    catalog: Mutex<TableCatalog>,
    drops: Drops,
    cache: BlockCache,
    options: Options,
}

impl RocksEngine {
    /// Opens the database in `options.dir`, or makes one if there is none.
    ///
    /// # Errors
    /// [`Kind::Busy`] if another process has it open, [`Kind::NotOurs`] if the directory holds something else, [`Kind::Usage`]
    /// for options that RocksDB does not accept, [`Kind::Unsupported`] for a compression that it lacks.
    pub fn open(options: Options) -> Result<Self> {
        let home = Home::prepare(&options.dir)?;
        let cache = options::cache(&options);
        let native = options::native(&options, &cache, &home.log, home.create)?;
        let database = Database::open(&home.data, native, options.journal).map_err(|status| {
            let what = format!("RocksDB cannot open {}", home.data.display());
            let error = Error::new(status.kind(), what).because(status);
            if error.kind() == Kind::Busy {
                error.advise("another process has it open; stop it first")
            } else {
                error
            }
        })?;
        let store = Arc::new(Store::new(database, options.journal, options.single_delete_index));
        let (catalog, unfinished) = TableCatalog::read(&store.database)?;
        store.dropped.write().extend(&unfinished);
        let drops = Drops::start(&store, unfinished)?;
        Ok(RocksEngine {
            store: RwLock::new(Some(store)),
            catalog: Mutex::new(catalog),
            drops,
            cache,
            options,
        })
    }

    /// The options that it was opened with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The number of dropped tables that still take space.
    pub fn unfinished_drops(&self) -> usize {
        self.drops.waiting()
    }

    fn store(&self) -> Result<Arc<Store>> {
        let store = self.store.read().as_ref().map(Arc::clone).ok_or_else(closed)?;
        store.check()?;
        Ok(store)
    }

    /// Runs `work` on the bounds of a table that exists.
    fn on_table<T>(
        &self,
        table: &Table,
        work: impl FnOnce(&Store, [keys::Prefix; 2]) -> Result<T>,
    ) -> Result<T> {
        let store = self.store()?;
        self.catalog.lock().document(table)?;
        work(&store, keys::bounds(keys::prefix_of(table)?))
    }

    /// Ends background work and releases the database, which closes when its last session is dropped.
    fn shut(&self, store: &Store) {
        self.drops.stop();
        store.stop(|| "it was closed".to_owned());
        store.database.stop_background_work();
        self.drops.join();
        store.snapshots.stop_sharing();
    }
}

impl Engine for RocksEngine {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    /// The version of the headers that it was built with; the C interface cannot ask the library.
    fn version(&self) -> String {
        env!("FATHOM_ROCKSDB_VERSION").to_owned()
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        // This happens under the lock, so that a close does not miss the session.
        let store = self.store.read();
        let store = store.as_ref().ok_or_else(closed)?;
        store.check()?;
        Ok(Box::new(RocksSession::new(Arc::clone(store))))
    }

    fn create_table(&self, ident: &str, spec: &TableSpec) -> Result<Table> {
        let store = self.store()?;
        let mut catalog = self.catalog.lock();
        let mut batch = WriteBatch::new();
        let (table, document) = catalog.create(ident, spec, &mut batch)?;
        store.write(&batch)?;
        catalog.created(ident, document);
        Ok(table)
    }

    fn open_table(&self, ident: &str) -> Result<Table> {
        self.store()?;
        self.catalog.lock().open(ident)
    }

    fn drop_table(&self, table: &Table) -> Result<()> {
        let store = self.store()?;
        let mut catalog = self.catalog.lock();
        let mut batch = WriteBatch::new();
        let prefix = catalog.remove(table, &mut batch)?;
        store.dropped.write().insert(prefix);
        store.write(&batch)?;
        catalog.dropped(table);
        self.drops.add(prefix, store.snapshots.tick());
        Ok(())
    }

    fn tables(&self) -> Result<Vec<String>> {
        self.store()?;
        Ok(self.catalog.lock().idents())
    }

    fn flush_journal(&self) -> Result<()> {
        self.store()?.sync()
    }

    fn checkpoint(&self) -> Result<()> {
        self.store()?.flush()
    }

    fn reconfigure(&self, settings: &str) -> Result<()> {
        options::apply_settings(settings, &self.cache, &self.store()?.database)
    }

    fn statistics(&self) -> Result<Statistics> {
        Ok(statistics::read(self.store()?.as_ref(), &self.cache, &self.drops))
    }

    /// Empty: RocksDB counts nothing by table.
    fn table_statistics(&self, table: &Table) -> Result<Statistics> {
        self.on_table(table, |_, _| Ok(Statistics::default()))
    }

    fn table_metadata(&self, table: &Table) -> Result<TableMetadata> {
        self.store()?;
        let catalog = self.catalog.lock();
        let document = catalog.document(table)?;
        Ok(TableMetadata { creation: document.text(), uri: format!("rocksdb:{}", table.ident()) })
    }

    /// RocksDB's estimate from the files; data that is still in memtables does not count.
    fn size_on_disk(&self, table: &Table) -> Result<u64> {
        self.on_table(table, |store, [start, end]| {
            store.database.approximate_size(&start, &end).map_err(cannot_read)
        })
    }

    fn compact(&self, table: &Table) -> Result<()> {
        self.on_table(table, |store, [start, end]| {
            store.database.compact(&start, &end);
            store.check()
        })
    }

    /// Reads every block of the table and verifies its checksum; cached blocks were verified when they were read.
    fn verify(&self, table: &Table) -> Result<()> {
        self.on_table(table, |store, bounds| {
            let mut scan = RangeScan::new(&store.database, ReadOptions::walk(), None, bounds);
            let mut found = scan.first().map_err(cannot_read)?;
            while found {
                if keys::decode(table.keys(), scan.key().unwrap_or_default()).is_none() {
                    let what = format!("table {} holds a key that is not a record number", table.ident());
                    return Err(Error::new(Kind::Corruption, what));
                }
                found = scan.next().map_err(cannot_read)?;
            }
            Ok(())
        })
    }

    /// Flushes, syncs and closes. While sessions are open it does nothing and returns [`Kind::Busy`].
    fn close(&self) -> Result<()> {
        let mut slot = self.store.write();
        let store = slot.as_ref().ok_or_else(closed)?;
        let sessions = store.sessions.load(Ordering::SeqCst);
        if sessions > 0 {
            return Err(Error::new(
                Kind::Busy,
                format!("{sessions} sessions of the RocksDB engine are open"),
            ));
        }
        self.drops.stop();
        let flushed = store.flush().and_then(|()| store.sync());
        self.shut(store);
        *slot = None;
        flushed
    }
}

impl Drop for RocksEngine {
    fn drop(&mut self) {
        if let Some(store) = self.store.get_mut().take() {
            // A caller that needs the result calls `close`; the log has what a failed flush leaves out.
            let _ = store.flush().and_then(|()| store.sync());
            self.shut(&store);
        }
    }
}

impl fmt::Debug for RocksEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksEngine").field("options", &self.options).finish_non_exhaustive()
    }
}

fn closed() -> Error {
    Error::new(Kind::Stopped, "the RocksDB engine was closed")
}
