//! The catalog of tables: records under prefix 0, and a copy of them in memory.
//!
//! `metadata-<ident>` holds a small JSON document of a table. `droppedprefix-<prefix>` exists from the drop of a table
//! until its space is reclaimed. `nextprefix` is the prefix that the next table gets, so that no prefix is used twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use fathom_engine::{Error, KeyKind, Kind, Result, Table, TableSpec};
use serde::{Deserialize, Serialize};

use crate::keys::{self, MAX_PREFIX, OWN};
use crate::native::{Database, RangeScan, ReadOptions, WriteBatch};
use crate::store::cannot_read;

const METADATA: &str = "metadata-";
const DROPPED: &str = "droppedprefix-";
const NEXT: &str = "nextprefix";

/// The kind of a table's keys, as the document names it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Keys {
    Number,
    Bytes,
}

/// The document of a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TableDocument {
    prefix: u32,
    keys: Keys,
    journaled: bool,
    config: String,
}

#[derive(Debug)]
pub(crate) struct TableCatalog {
    tables: BTreeMap<String, TableDocument>,
    next: u32,
}

impl TableCatalog {
    /// Reads the records of a database, and the dropped prefixes that are not reclaimed yet.
    ///
    /// # Errors
    /// [`Kind::Corruption`] for a record that cannot be understood.
    pub(crate) fn read(database: &Arc<Database>) -> Result<(TableCatalog, Vec<u32>)> {
        let mut catalog = TableCatalog { tables: BTreeMap::new(), next: OWN + 1 };
        let mut dropped = Vec::new();
        let mut scan = RangeScan::new(database, ReadOptions::new(), None, keys::bounds(OWN));
        let mut found = scan.first().map_err(cannot_read)?;
        while found {
            catalog.take(scan.key().unwrap_or_default(), scan.value().unwrap_or_default(), &mut dropped)?;
            found = scan.next().map_err(cannot_read)?;
        }
        let used =
            catalog.tables.values().map(|document| document.prefix).chain(dropped.iter().copied()).max();
        catalog.next = catalog.next.max(used.map_or(0, |prefix| prefix.saturating_add(1)));
        Ok((catalog, dropped))
    }

    fn take(&mut self, key: &[u8], value: &[u8], dropped: &mut Vec<u32>) -> Result<()> {
        let name = String::from_utf8_lossy(key.get(4..).unwrap_or_default()).into_owned();
        let bad = || Error::new(Kind::Corruption, format!("the engine's record '{name}' is invalid"));
        if let Some(ident) = name.strip_prefix(METADATA) {
            let document: TableDocument = serde_json::from_slice(value).map_err(|e| bad().because(e))?;
            self.tables.insert(ident.to_owned(), document);
        } else if let Some(prefix) = name.strip_prefix(DROPPED) {
            dropped.push(prefix.parse().map_err(|_| bad())?);
        } else if name == NEXT {
            let text = String::from_utf8_lossy(value);
            self.next = text.parse().map_err(|_| bad())?;
        } else {
            return Err(bad());
        }
        Ok(())
    }

    /// Puts a new table into the batch and returns it. It exists once the batch is written and [`TableCatalog::created`] is called.
    ///
    /// # Errors
    /// [`Kind::Duplicate`] if the table exists, [`Kind::Usage`] for settings of its own, which RocksDB does not have.
    pub(crate) fn create(
        &self,
        ident: &str,
        spec: &TableSpec,
        batch: &mut WriteBatch,
    ) -> Result<(Table, TableDocument)> {
        if self.tables.contains_key(ident) {
            return Err(Error::new(Kind::Duplicate, format!("there is a table {ident} already")));
        }
        if !spec.config.is_empty() {
            let what = format!("RocksDB cannot take the settings '{}' for table {ident} alone", spec.config);
            return Err(
                Error::usage(what).advise("its tables share one tree: give settings for the whole engine")
            );
        }
        if self.next > MAX_PREFIX {
            return Err(Error::new(Kind::NoSpace, "all prefixes of tables are used up"));
        }
        let keys = match spec.keys {
            KeyKind::Number => Keys::Number,
            KeyKind::Bytes => Keys::Bytes,
        };
        let config = spec.config.clone();
        let document = TableDocument { prefix: self.next, keys, journaled: spec.journaled, config };
        batch.put(&own_key(METADATA, ident), document.text().as_bytes());
        batch.put(&own_key(NEXT, ""), (self.next + 1).to_string().as_bytes());
        Ok((document.table(ident), document))
    }

    /// Adds a table whose batch was written.
    pub(crate) fn created(&mut self, ident: &str, document: TableDocument) {
        self.next = document.prefix.saturating_add(1);
        self.tables.insert(ident.to_owned(), document);
    }

    /// Puts the drop of a table and of all its keys into the batch.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if it does not exist.
    pub(crate) fn remove(&self, table: &Table, batch: &mut WriteBatch) -> Result<u32> {
        let prefix = self.document(table)?.prefix;
        let [start, end] = keys::bounds(prefix);
        batch.delete(&own_key(METADATA, table.ident()));
        batch.put(&dropped_key(prefix), b"");
        batch.delete_range(&start, &end);
        Ok(prefix)
    }

    /// Forgets a table whose drop was written.
    pub(crate) fn dropped(&mut self, table: &Table) {
        self.tables.remove(table.ident());
    }

    /// The table of that name.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if it does not exist.
    pub(crate) fn open(&self, ident: &str) -> Result<Table> {
        self.tables.get(ident).map(|document| document.table(ident)).ok_or_else(|| absent(ident))
    }

    /// The document of a table that still exists.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if it does not exist.
    pub(crate) fn document(&self, table: &Table) -> Result<&TableDocument> {
        let found = self.tables.get(table.ident());
        found.filter(|one| u64::from(one.prefix) == table.slot()).ok_or_else(|| absent(table.ident()))
    }

    /// The names of all tables, sorted.
    pub(crate) fn idents(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }
}

impl TableDocument {
    /// The text that is stored.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    fn table(&self, ident: &str) -> Table {
        let kind = match self.keys {
            Keys::Number => KeyKind::Number,
            Keys::Bytes => KeyKind::Bytes,
        };
        Table::new(ident, kind, u64::from(self.prefix))
    }
}

/// The key of the record of a dropped prefix.
pub(crate) fn dropped_key(prefix: u32) -> Vec<u8> {
    own_key(DROPPED, &prefix.to_string())
}

fn own_key(kind: &str, name: &str) -> Vec<u8> {
    [OWN.to_be_bytes().as_slice(), kind.as_bytes(), name.as_bytes()].concat()
}

fn absent(ident: &str) -> Error {
    Error::new(Kind::NotFound, format!("there is no table {ident}"))
}
