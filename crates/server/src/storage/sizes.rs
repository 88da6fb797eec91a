//! The number and bytes of a collection's records, maintained without counting them each time.
//!
//! The counts are kept in memory and written to a table of their own, `sizeStorer`, every minute and at shutdown, as in
//! mongod. After a crash mongod's counts stay wrong until `validate`; here each entry records whether it was closed
//! cleanly, and a collection whose entry was not is recounted in the background (see `recount`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bson::{Document, doc};
use fathom_engine::{Durability, Engine, Key, Kind, Session, Table, TableSpec};

use super::{Collection, SetTables};
use crate::Result;

const IDENT: &str = "sizeStorer";
/// The number of records counted between two checks whether the server stops.
const RECORDS_AT_ONCE: i64 = 1024;

/// The table's figures on one collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CollectionCounts {
    pub(crate) records: i64,
    /// Bytes of BSON in the collection.
    pub(crate) bytes: i64,
    /// Whether nothing was written since.
    pub(crate) clean: bool,
}

/// The table of counts.
#[derive(Debug)]
pub(crate) struct SizeStorer {
    engine: Arc<dyn Engine>,
    table: Table,
}

impl SizeStorer {
    /// Opens the table, or creates it.
    pub(crate) fn open(engine: &Arc<dyn Engine>, tables: SetTables) -> Result<SizeStorer> {
        let table = match engine.open_table(IDENT) {
            Err(error) if error.kind() == Kind::NotFound => {
                engine.create_table(IDENT, &tables.spec(TableSpec::index(), ""))?
            }
            other => other?,
        };
        Ok(SizeStorer { engine: Arc::clone(engine), table })
    }

    /// Its table's ident, which no collection may have.
    pub(crate) const fn ident() -> &'static str {
        IDENT
    }

    /// The counts of a table of records; zero and unclean if they are unknown.
    pub(crate) fn load(&self, session: &dyn Session, ident: &str) -> Result<CollectionCounts> {
        let mut bytes = Vec::new();
        if !session.get(&self.table, Key::Bytes(ident.as_bytes()), &mut bytes)? {
            return Ok(CollectionCounts::default());
        }
        let Ok(document) = Document::from_reader(bytes.as_slice()) else {
            return Ok(CollectionCounts::default());
        };
        let number = |name| super::catalog_entry::integer(&document, name).unwrap_or(0);
        Ok(CollectionCounts {
            records: number("numRecords"),
            bytes: number("dataSize"),
            clean: document.get_bool("clean").unwrap_or(false),
        })
    }

    /// Writes the current counts of collections. `clean` only at shutdown, when no writer is left.
    pub(crate) fn flush<'c>(
        &self,
        collections: impl Iterator<Item = &'c Arc<Collection>>,
        clean: bool,
    ) -> Result<()> {
        let session = self.engine.session()?;
        session.begin()?;
        for collection in collections.filter(|one| one.is_touched()) {
            // A collection whose recount after a crash did not finish must be counted at the next start.
            let sure = !collection.recounting().load(Ordering::Acquire);
            self.write(&*session, collection, clean && sure)?;
        }
        session.commit(Durability::Buffered)?;
        Ok(())
    }

    /// Records, before the first write of this run, that the counts on disk are about to become wrong.
    pub(crate) fn mark_unclean(&self, collection: &Collection) -> Result<()> {
        let session = self.engine.session()?;
        self.write(&*session, collection, false)
    }

    /// Removes the counts of a dropped collection.
    pub(crate) fn forget(&self, session: &dyn Session, ident: &str) -> Result<()> {
        session.remove(&self.table, Key::Bytes(ident.as_bytes()))?;
        Ok(())
    }

    fn write(&self, session: &dyn Session, collection: &Collection, clean: bool) -> Result<()> {
        let counts =
            doc! { "numRecords": collection.records(), "dataSize": collection.bytes(), "clean": clean };
        let key = Key::Bytes(collection.ident().as_bytes());
        Ok(session.put(&self.table, key, &crate::parse::bytes_of(&counts)?)?)
    }
}

/// Counts a collection from its records and corrects its counts by the result, while others write.
///
/// The snapshot begins while no writer is between its commit and its counting, so that the difference between the counts at
/// that moment and the snapshot stays valid during later writes. Ends early, without any change, if `stopping` returns true.
pub(crate) fn recount(
    engine: &dyn Engine,
    collection: &Collection,
    stopping: &dyn Fn() -> bool,
) -> Result<()> {
    let Some(table) = collection.table() else { return Ok(()) };
    let session = engine.session()?;
    let (believed_records, believed_bytes) = {
        let _nobody_writes = collection.lock_exclusive();
        session.begin()?;
        // An engine may begin its snapshot only with the first read.
        session.get(table, Key::Number(0), &mut Vec::new())?;
        (collection.records(), collection.bytes())
    };
    let (mut records, mut bytes) = (0, 0);
    let mut cursor = session.cursor(table)?;
    let mut more = cursor.first()?;
    while more {
        records += 1;
        bytes += i64::try_from(cursor.value().len()).unwrap_or(i64::MAX);
        if records % RECORDS_AT_ONCE == 0 && stopping() {
            return Ok(());
        }
        more = cursor.next()?;
    }
    drop(cursor);
    session.rollback();
    collection.correct(records - believed_records, bytes - believed_bytes);
    collection.recounting().store(false, Ordering::Release);
    Ok(())
}
