//! Tables and their keys, as the server and the engines name them.

use std::sync::Arc;

/// What the keys of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// A signed 64-bit record number (MongoDB's RecordId), ordered as a number: a record store.
    Number,
    /// A string of bytes, ordered as `memcmp` orders: an index.
    Bytes,
}

/// A key; its kind must be the table's.
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

    /// The record number; none for a key of bytes.
    pub fn number(&self) -> Option<i64> {
        match self {
            Key::Number(number) => Some(*number),
            Key::Bytes(_) => None,
        }
    }
}

impl<'a> Key<'a> {
    /// The bytes; none for a record number.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Key::Number(_) => None,
            Key::Bytes(bytes) => Some(bytes),
        }
    }
}

/// How a new table is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// What its keys are; it also says whether MongoDB's record store or index settings apply.
    pub keys: KeyKind,
    /// Whether its writes go to the journal. In a replica set MongoDB journals only what is in `local`.
    pub journaled: bool,
    /// The user's own settings (`configString`), in the engine's words, put over the defaults.
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
    /// For engines: `slot` is a number that the engine finds the table by (WiredTiger: its place in each session's cache of
    /// cursors; RocksDB: the prefix of its keys).
    pub fn new(ident: &str, keys: KeyKind, slot: u64) -> Self {
        Table { ident: ident.into(), keys, slot }
    }

    /// The name it was made under, such as `collection-7-4611`.
    pub fn ident(&self) -> &str {
        &self.ident
    }

    /// What its keys are.
    pub fn keys(&self) -> KeyKind {
        self.keys
    }

    /// The engine's own number for it.
    pub fn slot(&self) -> u64 {
        self.slot
    }
}

/// How a table was made, for `collStats`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableMetadata {
    /// The engine's whole configuration of it (WiredTiger's creation string); empty if the engine has none.
    pub creation: String,
    /// The engine's address of it, such as `table:collection-7-4611`.
    pub uri: String,
}
