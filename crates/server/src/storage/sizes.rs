//! How many records a collection has and how many bytes, without counting them each time.
//!
//! The counts live in memory and go to a table of their own, `sizeStorer`, every minute and at the end, as in mongod. After
//! a crash mongod's counts stay wrong until `validate`; here each entry says whether it was closed cleanly, and a
//! collection whose entry does not is counted again in the background (see `recount`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bson::{Document, doc};
use fathom_engine::{Durability, Engine, Key, Kind, Session, Table, TableSpec};

use super::{Collection, SetTables};
use crate::Result;

const IDENT: &str = "sizeStorer";
/// Records that are counted between two looks at whether the server stops.
const RECORDS_AT_ONCE: i64 = 1024;

/// What the table says of one collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Records.
    pub(crate) records: i64,
    /// Bytes of BSON.
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
    /// Opens the table, or makes it.
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

    /// What is known of a table of records; nothing and unclean if it is not known.
    pub(crate) fn load(&self, session: &dyn Session, ident: &str) -> Result<Counts> {
        let mut bytes = Vec::new();
        if !session.get(&self.table, Key::Bytes(ident.as_bytes()), &mut bytes)? {
            return Ok(Counts::default());
        }
        let Ok(document) = Document::from_reader(bytes.as_slice()) else { return Ok(Counts::default()) };
        let number = |name| super::catalog_entry::integer(&document, name).unwrap_or(0);
        Ok(Counts {
            records: number("numRecords"),
            bytes: number("dataSize"),
            clean: document.get_bool("clean").unwrap_or(false),
        })
    }

    /// Writes what collections count now. `clean` only at the end, when no writer is left.
    pub(crate) fn flush<'c>(
        &self,
        collections: impl Iterator<Item = &'c Arc<Collection>>,
        clean: bool,
    ) -> Result<()> {
        let session = self.engine.session()?;
        session.begin()?;
        for collection in collections.filter(|one| one.is_touched()) {
            // What was not counted to its end after a crash must be counted at the next start.
            let sure = !collection.recounting().load(Ordering::Acquire);
            self.write(&*session, collection, clean && sure)?;
        }
        session.commit(Durability::Buffered)?;
        Ok(())
    }

    /// Notes before the first write of this run that the counts on disk are about to be wrong.
    pub(crate) fn mark_unclean(&self, collection: &Collection) -> Result<()> {
        let session = self.engine.session()?;
        self.write(&*session, collection, false)
    }

    /// Forgets a collection that is gone.
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

/// Counts a collection from its records and puts the result in the place of what was believed, while others write.
///
/// The snapshot begins while no writer is in between its commit and its counting, so that the difference between what was
/// believed then and what the snapshot holds stays right whatever is written meanwhile. Ends early, with nothing changed, when
/// `stopping` says so.
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
        // The snapshot of an engine may begin with the first read only.
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
