//! The engine in memory with a log: the smallest durable engine.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use fathom_engine::{
    Cursor, Durability, Engine, Key, Result, Session, Statistics, Table, TableMetadata, TableSpec, memory,
};
use parking_lot::Mutex;

use super::log::{Change, Flaw, Log, LoggedKey};

#[derive(Debug)]
pub(crate) struct LoggedEngine {
    inner: Arc<memory::MemoryEngine>,
    log: Arc<Mutex<Log>>,
}

impl LoggedEngine {
    pub(crate) fn open(folder: &Path, flaw: Option<Flaw>) -> Result<Arc<dyn Engine>> {
        let (log, changes) = Log::open(folder, flaw);
        let inner = memory::open();
        let session = inner.session()?;
        for change in changes {
            replay(&*inner, &*session, change)?;
        }
        Ok(Arc::new(LoggedEngine { inner, log: Arc::new(Mutex::new(log)) }))
    }
}

fn replay(engine: &dyn Engine, session: &dyn Session, change: Change) -> Result<()> {
    match change {
        Change::Create(ident, keys) => {
            engine.create_table(&ident, &TableSpec { keys, ..TableSpec::records() }).map(|_| ())
        }
        Change::Drop(ident) => engine.drop_table(&engine.open_table(&ident)?),
        Change::Put(ident, key, value) => session.put(&engine.open_table(&ident)?, borrowed(&key), &value),
        Change::Remove(ident, key) => session.remove(&engine.open_table(&ident)?, borrowed(&key)).map(|_| ()),
    }
}

fn borrowed(key: &LoggedKey) -> Key<'_> {
    match key {
        LoggedKey::Number(number) => Key::Number(*number),
        LoggedKey::Bytes(bytes) => Key::Bytes(bytes),
    }
}

fn owned(key: Key<'_>) -> LoggedKey {
    match key {
        Key::Number(number) => LoggedKey::Number(number),
        Key::Bytes(bytes) => LoggedKey::Bytes(bytes.to_vec()),
    }
}

impl Engine for LoggedEngine {
    fn name(&self) -> &'static str {
        "logged"
    }

    fn version(&self) -> String {
        self.inner.version()
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        let session = LoggedSession {
            inner: self.inner.session()?,
            log: Arc::clone(&self.log),
            changes: RefCell::default(),
        };
        Ok(Box::new(session))
    }

    fn create_table(&self, ident: &str, spec: &TableSpec) -> Result<Table> {
        let mut log = self.log.lock();
        let table = self.inner.create_table(ident, spec)?;
        log.append(&[Change::Create(ident.to_owned(), spec.keys)], true);
        Ok(table)
    }

    fn open_table(&self, ident: &str) -> Result<Table> {
        self.inner.open_table(ident)
    }

    fn drop_table(&self, table: &Table) -> Result<()> {
        let mut log = self.log.lock();
        self.inner.drop_table(table)?;
        log.append(&[Change::Drop(table.ident().to_owned())], true);
        Ok(())
    }

    fn tables(&self) -> Result<Vec<String>> {
        self.inner.tables()
    }

    fn flush_journal(&self) -> Result<()> {
        self.inner.flush_journal()?;
        self.log.lock().flush();
        Ok(())
    }

    fn checkpoint(&self) -> Result<()> {
        self.inner.checkpoint()?;
        self.log.lock().flush();
        Ok(())
    }

    fn reconfigure(&self, settings: &str) -> Result<()> {
        self.inner.reconfigure(settings)
    }

    fn statistics(&self) -> Result<Statistics> {
        self.inner.statistics()
    }

    fn table_statistics(&self, table: &Table) -> Result<Statistics> {
        self.inner.table_statistics(table)
    }

    fn table_metadata(&self, table: &Table) -> Result<TableMetadata> {
        self.inner.table_metadata(table)
    }

    fn size_on_disk(&self, table: &Table) -> Result<u64> {
        self.inner.size_on_disk(table)
    }

    fn compact(&self, table: &Table) -> Result<()> {
        self.inner.compact(table)
    }

    fn verify(&self, table: &Table) -> Result<()> {
        self.inner.verify(table)
    }

    fn close(&self) -> Result<()> {
        self.inner.close()?;
        self.log.lock().flush();
        Ok(())
    }
}

struct LoggedSession {
    inner: Box<dyn Session>,
    log: Arc<Mutex<Log>>,
    /// The changes of the open transaction.
    changes: RefCell<Vec<Change>>,
}

impl LoggedSession {
    /// Makes a change and records it if it succeeded: in the transaction, or at once under the log's lock, so that the log
    /// has the order of the commits.
    fn change<T>(
        &self,
        act: impl FnOnce() -> Result<T>,
        changes: impl FnOnce(&T) -> Vec<Change>,
    ) -> Result<T> {
        if self.inner.in_transaction() {
            let done = act()?;
            self.changes.borrow_mut().extend(changes(&done));
            return Ok(done);
        }
        let mut log = self.log.lock();
        let done = act()?;
        log.append(&changes(&done), false);
        Ok(done)
    }
}

impl Session for LoggedSession {
    fn begin(&self) -> Result<()> {
        self.inner.begin()
    }

    fn in_transaction(&self) -> bool {
        self.inner.in_transaction()
    }

    fn commit(&self, durability: Durability) -> Result<()> {
        let changes = self.changes.take();
        let mut log = self.log.lock();
        self.inner.commit(durability)?;
        log.append(&changes, durability == Durability::Durable);
        Ok(())
    }

    fn rollback(&self) {
        self.changes.take();
        self.inner.rollback();
    }

    fn get(&self, table: &Table, key: Key<'_>, out: &mut Vec<u8>) -> Result<bool> {
        self.inner.get(table, key, out)
    }

    fn insert(&self, table: &Table, key: Key<'_>, value: &[u8]) -> Result<()> {
        let put = |(): &()| vec![Change::Put(table.ident().to_owned(), owned(key), value.to_vec())];
        self.change(|| self.inner.insert(table, key, value), put)
    }

    fn put(&self, table: &Table, key: Key<'_>, value: &[u8]) -> Result<()> {
        let put = |(): &()| vec![Change::Put(table.ident().to_owned(), owned(key), value.to_vec())];
        self.change(|| self.inner.put(table, key, value), put)
    }

    fn remove(&self, table: &Table, key: Key<'_>) -> Result<bool> {
        let change = |removed: &bool| {
            let change = removed.then(|| Change::Remove(table.ident().to_owned(), owned(key)));
            change.into_iter().collect()
        };
        self.change(|| self.inner.remove(table, key), change)
    }

    /// Logs each removed key: a replayed range would remove rows that its transaction did not see.
    fn truncate(&self, table: &Table, from: Option<Key<'_>>, to: Option<Key<'_>>) -> Result<()> {
        let keys = RefCell::new(Vec::new());
        let act = || {
            let mut cursor = self.inner.cursor(table)?;
            let mut found = if let Some(from) = from { cursor.seek(from) } else { cursor.first() }?;
            while found && to.is_none_or(|to| cursor.key() <= to) {
                keys.borrow_mut().push(Change::Remove(table.ident().to_owned(), owned(cursor.key())));
                found = cursor.next()?;
            }
            self.inner.truncate(table, from, to)
        };
        self.change(act, |()| keys.take())
    }

    fn cursor<'s>(&'s self, table: &Table) -> Result<Box<dyn Cursor + 's>> {
        self.inner.cursor(table)
    }

    fn release(&self, table: Option<&Table>) {
        self.inner.release(table);
    }
}
