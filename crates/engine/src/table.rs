//! Tables and their keys, as the server and the engines name them.

use std::sync::Arc;

/// The kind of a table's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// A signed 64-bit record number (MongoDB's RecordId), ordered as a number: a record store.
    Number,
    /// A string of bytes, ordered as `memcmp` orders: an index.
    Bytes,
}

/// A key of a table, whose kind it must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key<'a> {
    /// The key of a record.
    Number(i64),
    /// The key of an index entry.
    Bytes(&'a [u8]),
}

impl Key<'_> {
    /// Which kind of table it belongs to.
    pub fn kind(&self) -> KeyKind {
        match self {
            Key::Number(_) => KeyKind::Number,
            Key::Bytes(_) => KeyKind::Bytes,
        }
    }

    /// The record number; `None` for a key of bytes.
    pub fn number(&self) -> Option<i64> {
        match self {
            Key::Number(number) => Some(*number),
            Key::Bytes(_) => None,
        }
    }
}

impl<'a> Key<'a> {
    /// The bytes; `None` for a record number.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Key::Number(_) => None,
            Key::Bytes(bytes) => Some(bytes),
        }
    }
}

/// The settings of a new table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// The kind of its keys, which also decides whether MongoDB's record store or index settings apply.
    pub keys: KeyKind,
    /// Whether its writes go to the journal. In a replica set MongoDB journals only what is in `local`.
    pub journaled: bool,
    /// The user's own settings (`configString`), in the engine's syntax, which override the defaults.
    pub config: String,
}

impl TableSpec {
    /// A journaled record store with the defaults.
    pub fn records() -> Self {
        TableSpec { keys: KeyKind::Number, journaled: true, config: String::new() }
    }

    /// A journaled index with the defaults.
    pub fn index() -> Self {
        TableSpec { keys: KeyKind::Bytes, ..TableSpec::records() }
    }
}

/// A table that an engine opened; cheap to clone. Only the engine that made it can use it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    ident: Arc<str>,
    keys: KeyKind,
    slot: u64,
}

impl Table {
    /// Makes a table, for engines. `slot` is the number by which the engine finds it (WiredTiger: its place in each session's
    /// cache of cursors; RocksDB: the prefix of its keys).
    pub fn new(ident: &str, keys: KeyKind, slot: u64) -> Self {
        Table { ident: ident.into(), keys, slot }
    }

    /// The name that it was created with, such as `collection-7-4611`.
    pub fn ident(&self) -> &str {
        &self.ident
    }

    /// The kind of its keys.
    pub fn keys(&self) -> KeyKind {
        self.keys
    }

    /// The engine's own number for it.
    pub fn slot(&self) -> u64 {
        self.slot
    }
}

/// The creation string and the address of a table, for `collStats`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableMetadata {
    /// The engine's full configuration of it (WiredTiger's creation string); empty if the engine has none.
    pub creation: String,
    /// The engine's address of it, such as `table:collection-7-4611`.
    pub uri: String,
}
