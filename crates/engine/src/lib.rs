//! The interface between the server and a storage engine: tables, cursors, transactions, durability, and statistics.
//!
//! The server copies MongoDB's policies and leaves the storage of bytes to an engine. Through this interface WiredTiger,
//! RocksDB and an engine in memory serve the same server and pass the same suite (`conformance`, behind the feature of that
//! name). An engine knows nothing of BSON, collections or indexes: it sees tables of ordered keys and values.
//!
//! The rules that every engine keeps:
//!
//! - **Snapshot isolation.** A transaction sees what was committed when it began, and its own writes.
//! - **First writer wins.** Writing a key that another transaction has written since our snapshot, committed or not,
//!   fails at once with [`Kind::WriteConflict`]; the caller rolls back and tries again.
//! - **Commit is atomic and visible at once.** It is durable after [`Durability::Durable`], or the next
//!   [`Engine::flush_journal`] or [`Engine::checkpoint`]; a crash keeps a prefix of the commits in their order.
//! - **Fail stop.** After a write or sync that failed, every call fails with [`Kind::Stopped`]: the state of the disk is
//!   unknown, and continuing could lose acknowledged writes.

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod memory;
mod statistics;
mod table;

use std::fmt;

pub use fathom_errors::{Error, Kind, Result};
pub use statistics::{Statistic, Statistics};
pub use table::{Key, KeyKind, Table, TableMetadata, TableSpec};

/// A storage engine over one directory. Shared by all threads; each thread works through its own [`Session`].
pub trait Engine: Send + Sync + fmt::Debug {
    /// Its name in `--storageEngine` and `serverStatus.storageEngine.name`.
    fn name(&self) -> &'static str;

    /// The version that the library reports.
    fn version(&self) -> String;

    /// A new session. Sessions are cheap to keep and expensive to create, so a connection keeps one.
    fn session(&self) -> Result<Box<dyn Session>>;

    /// Makes a table that does not exist yet; `Kind::Duplicate` if it does.
    fn create_table(&self, ident: &str, spec: &TableSpec) -> Result<Table>;

    /// Opens a table that exists; `Kind::NotFound` if it does not.
    fn open_table(&self, ident: &str) -> Result<Table>;

    /// Removes a table and, at once or in the background, its bytes. `Kind::Busy` if a cursor is open on it and
    /// the engine cannot drop it then; the caller tries again later.
    fn drop_table(&self, table: &Table) -> Result<()>;

    /// The idents of all tables, sorted, without the engine's own.
    fn tables(&self) -> Result<Vec<String>>;

    /// Makes everything committed so far durable by a synced journal. The server groups callers.
    /// Without a journal it makes a checkpoint.
    fn flush_journal(&self) -> Result<()>;

    /// Makes everything committed so far durable in the tables themselves (WiredTiger: a checkpoint; RocksDB: a flush of
    /// its memtables).
    fn checkpoint(&self) -> Result<()>;

    /// Changes settings at run time, in the engine's own syntax; `Kind::Usage` names a setting that it does not accept.
    fn reconfigure(&self, settings: &str) -> Result<()>;

    /// The engine's statistics, under its own names.
    fn statistics(&self) -> Result<Statistics>;

    /// The engine's statistics of one table; empty if it keeps none by table.
    fn table_statistics(&self, table: &Table) -> Result<Statistics>;

    /// The table's creation string and address.
    fn table_metadata(&self, table: &Table) -> Result<TableMetadata>;

    /// Bytes of the table on the disk, as closely as the engine knows.
    fn size_on_disk(&self, table: &Table) -> Result<u64>;

    /// Bytes of the table's space that are free for reuse.
    fn free_bytes(&self, _table: &Table) -> Result<u64> {
        Ok(0)
    }

    /// Returns space to the file system if the engine can (`compact`).
    fn compact(&self, table: &Table) -> Result<()>;

    /// Checks the table's internal structure; an error of `Kind::Corruption` says what is wrong, `Kind::Busy` that it is in use.
    fn verify(&self, table: &Table) -> Result<()>;

    /// Makes a last checkpoint and closes; all sessions must have been dropped. Called once; afterwards all calls fail with `Stopped`.
    fn close(&self) -> Result<()>;
}

/// Whether a commit waits until a crash cannot undo it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Visible now, durable by the next journal flush (w:1).
    Buffered,
    /// Durable when the call returns: the journal holds it.
    Durable,
}

/// One changed byte range of a value: `data` replaces `remove` bytes at `offset`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// The offset in bytes from the start of the old value.
    pub offset: usize,
    /// The number of bytes of the old value to remove.
    pub remove: usize,
    /// The bytes that replace them.
    pub data: Vec<u8>,
}

/// A session, through which one thread uses an engine. It has at most one transaction at a time; a call outside one is its own.
///
/// Methods take `&self` so that a cursor may stay open during point look-ups in the same transaction.
pub trait Session: Send {
    /// Begins a transaction on a snapshot of the current state. It is an error if one is open.
    fn begin(&self) -> Result<()>;

    /// Whether a transaction is open.
    fn in_transaction(&self) -> bool;

    /// Commits the open transaction. If it fails, the transaction is rolled back.
    fn commit(&self, durability: Durability) -> Result<()>;

    /// Rolls back the open transaction, if there is one. It reports no failure, since a caller could not act on one.
    fn rollback(&self);

    /// Appends the value of `key` to `out`; false if there is none.
    fn get(&self, table: &Table, key: Key<'_>, out: &mut Vec<u8>) -> Result<bool>;

    /// Writes a key that must not exist yet; `Kind::Duplicate` if it does (the transaction stays usable).
    fn insert(&self, table: &Table, key: Key<'_>, value: &[u8]) -> Result<()>;

    /// Writes a key, whether it exists or not.
    fn put(&self, table: &Table, key: Key<'_>, value: &[u8]) -> Result<()>;

    /// Replaces the value of a key that exists. `splices`, if given, describe how the new value follows from the old, so
    /// that an engine may log the change instead of the whole value (WiredTiger's modify).
    fn update(&self, table: &Table, key: Key<'_>, value: &[u8], splices: Option<&[Splice]>) -> Result<()> {
        let _ = splices;
        self.put(table, key, value)
    }

    /// Removes a key; false if there was none.
    fn remove(&self, table: &Table, key: Key<'_>) -> Result<bool>;

    /// Removes all keys from `from` up to and including `to` (the table's ends where `None`).
    fn truncate(&self, table: &Table, from: Option<Key<'_>>, to: Option<Key<'_>>) -> Result<()>;

    /// A cursor over the table, not on any key yet.
    fn cursor<'s>(&'s self, table: &Table) -> Result<Box<dyn Cursor + 's>>;

    /// The engine's reads, writes and waits on behalf of this session since [`Session::end_operation`]: section `data` with
    /// `bytesRead`, `bytesWritten`, `timeReadingMicros`, `timeWritingMicros`, section `timeWaitingMicros` with `cache`,
    /// `handleLock`, `schemaLock`, as in mongod's log. Zeros are left out; empty if the engine does not count by session.
    fn operation_statistics(&self) -> Statistics {
        Statistics::default()
    }

    /// Marks the end of an operation of the server: resets its counters and frees memory that it took in the engine. Does
    /// nothing within a transaction.
    fn end_operation(&self) {}

    /// Releases what the session keeps between operations on a table that is about to be dropped, or on all tables (`None`).
    fn release(&self, table: Option<&Table>);
}

impl fmt::Debug for dyn Session + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("in_transaction", &self.in_transaction()).finish_non_exhaustive()
    }
}

/// A position in a table. It sees the session's transaction, or the newest committed state outside one; it is only valid
/// within the transaction in which it was last positioned.
pub trait Cursor {
    /// Moves to the first key, in key order; false if the table is empty.
    fn first(&mut self) -> Result<bool>;

    /// Moves to the last key; false if the table is empty.
    fn last(&mut self) -> Result<bool>;

    /// Moves to the smallest key that is at least `key`; false (and no position) if there is none.
    fn seek(&mut self, key: Key<'_>) -> Result<bool>;

    /// Moves to the largest key that is at most `key`; false (and no position) if there is none.
    fn seek_back(&mut self, key: Key<'_>) -> Result<bool>;

    /// Moves to the next key; false (and no position) after the last. The cursor must be on a key.
    fn next(&mut self) -> Result<bool>;

    /// Moves to the previous key; false (and no position) before the first. The cursor must be on a key.
    fn previous(&mut self) -> Result<bool>;

    /// The key under the cursor, valid until the cursor moves. The cursor must be on a key.
    fn key(&self) -> Key<'_>;

    /// The value under the cursor, valid until the cursor moves. The cursor must be on a key.
    fn value(&self) -> &[u8];
}
