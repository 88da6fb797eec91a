//! The catalog of collections: the catalog table on disk, the open collections in memory, and changes of both.
//!
//! A change is written durably to the catalog table before a table is dropped, so that a crash leaves at most tables that no
//! entry names; these are dropped at the next start, as in mongod.

mod changes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bson::{Document, doc};
use fathom_engine::{Durability, Engine, Key, Kind, Session, Table, TableSpec};
use fathom_query::{Code, Failure};
use parking_lot::{Mutex, RwLock};

use super::catalog_entry::CatalogEntry;
use super::collection::CollectionParts;
use super::pending_drops::PendingDrops;
use super::sizes::SizeStorer;
use super::{
    Collection, CollectionOptions, CollectionState, Index, IndexSpec, LockWaits, OpObserver, SetTables,
    Validator,
};
use crate::Result;

const IDENT: &str = "_mdb_catalog";

/// The collections of a server.
#[derive(Debug)]
pub(crate) struct Catalog {
    engine: Arc<dyn Engine>,
    table: Table,
    sizes: SizeStorer,
    collections: RwLock<BTreeMap<String, Arc<Collection>>>,
    /// Held during every schema change; readers of the map do not wait for it.
    changes: Mutex<()>,
    next_record: AtomicU64,
    next_ident: AtomicU64,
    /// Makes idents differ between servers, as mongod's random suffix does.
    suffix: u64,
    drops: PendingDrops,
    lock_waits: Arc<LockWaits>,
    /// The rule for which tables are journaled: in a replica set only those in `local`.
    tables: SetTables,
    /// The observer of changes, if there is one.
    observer: OnceLock<Arc<dyn OpObserver>>,
}

impl Catalog {
    /// Opens the collections that the engine holds; also returns those that must be counted again.
    pub(crate) fn open(
        engine: &Arc<dyn Engine>,
        tables: SetTables,
    ) -> Result<(Catalog, Vec<Arc<Collection>>)> {
        let table = match engine.open_table(IDENT) {
            Err(error) if error.kind() == Kind::NotFound => {
                engine.create_table(IDENT, &tables.spec(TableSpec::records(), ""))?
            }
            other => other?,
        };
        let catalog = Catalog {
            engine: Arc::clone(engine),
            table,
            sizes: SizeStorer::open(engine, tables)?,
            tables,
            observer: OnceLock::new(),
            collections: RwLock::default(),
            changes: Mutex::new(()),
            next_record: AtomicU64::new(1),
            next_ident: AtomicU64::new(0),
            suffix: crate::random::number(),
            drops: PendingDrops::new(tables),
            lock_waits: Arc::default(),
        };
        let mut recount = catalog.load()?;
        if !tables.is_set() {
            catalog.drop_temporary()?;
            recount.retain(|one| !one.lock().gone);
        }
        Ok((catalog, recount))
    }

    fn load(&self) -> Result<Vec<Arc<Collection>>> {
        let session = self.engine.session()?;
        let mut entries = Vec::new();
        let mut cursor = session.cursor(&self.table)?;
        let mut more = cursor.first()?;
        while more {
            let record = cursor.key().number().unwrap_or_default();
            let entry =
                Document::from_reader(cursor.value()).ok().as_ref().and_then(CatalogEntry::from_document);
            let entry = entry.ok_or_else(|| {
                Failure::new(Code::UnsupportedFormat, format!("the catalog's record {record} cannot be read"))
            })?;
            entries.push((record, entry));
            more = cursor.next()?;
        }
        drop(cursor);
        let mut recount = Vec::new();
        let mut known = BTreeSet::from([IDENT.to_owned(), SizeStorer::ident().to_owned()]);
        for (record, entry) in entries {
            self.next_record.fetch_max(record.unsigned_abs() + 1, Ordering::Relaxed);
            known.insert(entry.ident.clone());
            known.extend(entry.indexes.iter().map(|(_, ident, _)| ident.clone()));
            let collection = Arc::new(self.open_collection(&*session, record, entry)?);
            if collection.recounting().load(Ordering::Relaxed) {
                recount.push(Arc::clone(&collection));
            }
            self.collections.write().insert(collection.namespace().to_owned(), collection);
        }
        for ident in self.engine.tables()? {
            self.next_ident.fetch_max(number_of(&ident).map_or(0, |number| number + 1), Ordering::Relaxed);
            if !known.contains(&ident) {
                self.drops.push_nameless(self.engine.open_table(&ident)?);
            }
        }
        self.drop_pending();
        Ok(recount)
    }

    fn open_collection(&self, session: &dyn Session, record: i64, entry: CatalogEntry) -> Result<Collection> {
        let table = if entry.ident.is_empty() { None } else { Some(self.engine.open_table(&entry.ident)?) };
        let counts = self.sizes.load(session, &entry.ident)?;
        let mut last = 0;
        if let Some(table) = &table {
            let mut cursor = session.cursor(table)?;
            if cursor.last()? {
                last = cursor.key().number().unwrap_or_default();
            }
        }
        let mut indexes = Vec::new();
        for (spec, ident, multikey) in entry.indexes {
            indexes.push(Arc::new(Index::new(spec, self.engine.open_table(&ident)?, multikey)?));
        }
        Ok(Collection::new(CollectionParts {
            namespace: entry.namespace,
            uuid: entry.uuid,
            ident: entry.ident,
            catalog_record: record,
            state: state(entry.options, indexes)?,
            next_record: last + 1,
            records: counts.records,
            bytes: counts.bytes,
            recounting: table.is_some() && !counts.clean && last > 0,
            table,
            lock_waits: Arc::clone(&self.lock_waits),
        }))
    }

    /// The waits of operations for locks.
    pub(crate) fn lock_waits(&self) -> &LockWaits {
        &self.lock_waits
    }

    /// A collection or view by its full name.
    pub(crate) fn get(&self, namespace: &str) -> Option<Arc<Collection>> {
        self.collections.read().get(namespace).cloned()
    }

    /// All collections and views, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Collection>> {
        self.collections.read().values().cloned().collect()
    }

    /// The collections and views of one database, by name.
    pub(crate) fn of_database(&self, database: &str) -> Vec<Arc<Collection>> {
        let from = format!("{database}.");
        let collections = self.collections.read();
        collections
            .range(from.clone()..)
            .take_while(|(name, _)| name.starts_with(&from))
            .map(|(_, one)| Arc::clone(one))
            .collect()
    }

    /// The names of all non-empty databases.
    pub(crate) fn databases(&self) -> Vec<String> {
        let names: BTreeSet<String> =
            self.collections.read().values().map(|one| one.database().to_owned()).collect();
        names.into_iter().collect()
    }

    /// Reports changes to an observer from now on.
    pub(crate) fn set_observer(&self, observer: Arc<dyn OpObserver>) {
        // It is set once, when the server starts.
        let _ = self.observer.set(observer);
    }

    /// Makes a collection (or a view, which has no table); `NamespaceExists` if the name is taken.
    pub(crate) fn create(&self, namespace: &str, options: CollectionOptions) -> Result<Arc<Collection>> {
        self.create_as(namespace, options, bson::Uuid::new())
    }

    /// Makes a collection as [`Catalog::create`] does, with the UUID that another member gave it.
    pub(crate) fn create_as(
        &self,
        namespace: &str,
        options: CollectionOptions,
        uuid: bson::Uuid,
    ) -> Result<Arc<Collection>> {
        let _change = self.changes.lock();
        if self.get(namespace).is_some() {
            return Err(Failure::new(
                Code::NamespaceExists,
                format!("Collection already exists. NS: {namespace}"),
            ));
        }
        self.refuse_other_case(namespace)?;
        let view = options.is_view();
        let ident = if view { String::new() } else { self.new_ident("collection") };
        let mut spec = self.tables.spec(TableSpec::records(), namespace);
        spec.config = options.engine_config(self.engine.name());
        let table = if view { None } else { Some(self.engine.create_table(&ident, &spec)?) };
        let indexes = if view || options.has_no_id_index() {
            Vec::new()
        } else {
            vec![Arc::new(self.new_index(IndexSpec::id(), &options.index_defaults(), namespace)?)]
        };
        let created = doc! { "create": namespace.split_once('.').map_or("", |(_, name)| name) };
        let created = created.into_iter().chain(options.document.clone()).collect();
        let collection = Arc::new(Collection::new(CollectionParts {
            namespace: namespace.to_owned(),
            uuid,
            ident,
            catalog_record: i64::try_from(self.next_record.fetch_add(1, Ordering::Relaxed))
                .unwrap_or(i64::MAX),
            table,
            state: state(options, indexes)?,
            next_record: 1,
            records: 0,
            bytes: 0,
            recounting: false,
            lock_waits: Arc::clone(&self.lock_waits),
        }));
        let written = self.write_as(&collection, &collection.lock(), &[created]);
        if let Err(failure) = written {
            // No entry names its tables.
            self.drops.push_all(&collection);
            return Err(failure);
        }
        self.collections.write().insert(namespace.to_owned(), Arc::clone(&collection));
        Ok(collection)
    }

    /// The collection with this name, created if it does not exist, as a first insert does.
    pub(crate) fn get_or_create(&self, namespace: &str) -> Result<Arc<Collection>> {
        if let Some(collection) = self.get(namespace) {
            return Ok(collection);
        }
        crate::namespace::check(namespace)?;
        match self.create(namespace, CollectionOptions::default()) {
            // Another connection created it first.
            Err(failure) if failure.code() == Code::NamespaceExists => self.get(namespace).ok_or_else(|| {
                Failure::new(Code::NamespaceNotFound, format!("{namespace} was dropped meanwhile"))
            }),
            other => other,
        }
    }

    /// Refuses a database whose name differs from an existing one's only by case.
    fn refuse_other_case(&self, namespace: &str) -> Result<()> {
        let database = namespace.split('.').next().unwrap_or_default();
        match self
            .databases()
            .into_iter()
            .find(|other| other != database && other.eq_ignore_ascii_case(database))
        {
            None => Ok(()),
            Some(other) => Err(Failure::new(
                Code(13297),
                format!(
                    "db already exists with different case already have: [{other}] trying to create [{database}]"
                ),
            )),
        }
    }

    /// Drops a collection or view with all its indexes; returns it as it was before.
    pub(crate) fn drop_collection(&self, namespace: &str) -> Result<Arc<Collection>> {
        let not_found = || Failure::new(Code::NamespaceNotFound, "ns not found".to_owned());
        // A writer locks the collection before the catalog, so this function must do the same.
        let collection = self.get(namespace).ok_or_else(not_found)?;
        let mut state = collection.lock_exclusive();
        let change = self.changes.lock();
        if state.gone {
            return Err(not_found());
        }
        self.remove(&collection, &mut state)?;
        drop((change, state));
        self.drop_pending();
        Ok(collection)
    }

    /// Drops the temporary collections that an `$out` left behind after a crash or a step-down.
    pub(crate) fn drop_temporary(&self) -> Result<()> {
        let all = self.all();
        let temporary = all.iter().filter(|one| one.lock().options.is_temporary());
        temporary
            .map(|one| one.namespace())
            .try_for_each(|namespace| self.drop_collection(namespace).map(drop))
    }

    /// Removes a collection from the catalog; the caller holds it exclusively, and the catalog.
    fn remove(&self, collection: &Arc<Collection>, state: &mut CollectionState) -> Result<()> {
        let session = self.engine.session()?;
        session.begin()?;
        session.remove(&self.table, Key::Number(collection.catalog_record()))?;
        self.sizes.forget(&*session, collection.ident())?;
        let dropped = doc! { "drop": collection.name() };
        self.commit(&*session, collection.namespace(), collection, &[dropped])?;
        state.gone = true;
        self.collections.write().remove(collection.namespace());
        collection.capped().announce();
        collection.table().into_iter().for_each(|table| self.drops.push(table.clone()));
        state.indexes.iter().for_each(|index| self.drops.push(index.table().clone()));
        Ok(())
    }

    /// Writes a collection's entry after its options or indexes changed; other members are not informed.
    pub(crate) fn write(&self, collection: &Collection, state: &CollectionState) -> Result<()> {
        self.write_as(collection, state, &[])
    }

    /// Writes a collection's entry, and logs the commands for other members.
    pub(crate) fn write_as(
        &self,
        collection: &Collection,
        state: &CollectionState,
        commands: &[Document],
    ) -> Result<()> {
        let session = self.engine.session()?;
        session.begin()?;
        self.put(&*session, collection, state)?;
        self.commit(&*session, collection.namespace(), collection, commands)
    }

    /// Commits the session's transaction with the durability required for `namespace`, and reports to the observer the commands by which
    /// the collection changed.
    fn commit(
        &self,
        session: &dyn Session,
        namespace: &str,
        collection: &Collection,
        commands: &[Document],
    ) -> Result<()> {
        let durability = self.durability(namespace);
        match self.observer.get() {
            Some(observer) => observer.on_commands(session, collection, commands, durability),
            None => Ok(session.commit(durability)?),
        }
    }

    /// The durability of a change: one that the journal holds, or that a replay of the oplog restores, need not be synced now.
    fn durability(&self, namespace: &str) -> Durability {
        if self.tables.are_journaled(namespace) { Durability::Durable } else { Durability::Buffered }
    }

    fn put(&self, session: &dyn Session, collection: &Collection, state: &CollectionState) -> Result<()> {
        let index = |index: &Arc<Index>| {
            (IndexSpec::new(index.document()), index.table().ident().to_owned(), index.is_multikey())
        };
        let entry = CatalogEntry {
            namespace: collection.namespace().to_owned(),
            ident: collection.ident().to_owned(),
            uuid: collection.uuid(),
            options: state.options.clone(),
            indexes: state.indexes.iter().map(index).collect(),
        };
        let bytes = crate::parse::bytes_of(&entry.to_document())?;
        Ok(session.put(&self.table, Key::Number(collection.catalog_record()), &bytes)?)
    }

    /// Writes a collection's entry with the options or indexes as `change` sets them (`collMod`); after a failure nothing has changed.
    pub(crate) fn change_options(
        &self,
        collection: &Collection,
        state: &mut CollectionState,
        options: CollectionOptions,
        command: Document,
    ) -> Result<()> {
        let _change = self.changes.lock();
        let validator = Validator::from_options(&options.document)?.map(Arc::new);
        let before = std::mem::replace(&mut state.options, options);
        if let Err(failure) = self.write_as(collection, state, &[command]) {
            state.options = before;
            return Err(failure);
        }
        state.validator = validator;
        Ok(())
    }

    /// Records, before a collection's first write of this run, that its counts on disk are about to become wrong.
    pub(crate) fn before_write(&self, collection: &Collection) -> Result<()> {
        collection.touch(|| self.sizes.mark_unclean(collection))
    }

    /// Writes all counts to disk; `clean` only at shutdown.
    pub(crate) fn flush_sizes(&self, clean: bool) -> Result<()> {
        self.sizes.flush(self.all().iter().filter(|one| one.table().is_some()), clean)
    }

    /// Drops the tables that are no longer in use, as far as the engine allows now.
    pub(crate) fn drop_pending(&self) {
        self.drops.run(&*self.engine);
    }

    /// The tables waiting to be dropped; see [`PendingDrops`].
    pub(crate) fn drops(&self) -> &PendingDrops {
        &self.drops
    }

    fn new_ident(&self, kind: &str) -> String {
        format!("{kind}-{}-{}", self.next_ident.fetch_add(1, Ordering::Relaxed), self.suffix)
    }
}

fn state(options: CollectionOptions, indexes: Vec<Arc<Index>>) -> Result<CollectionState> {
    let validator = Validator::from_options(&options.document)?.map(Arc::new);
    Ok(CollectionState { indexes, options, validator, gone: false })
}

/// The number in `collection-7-4611`.
fn number_of(ident: &str) -> Option<u64> {
    ident.split('-').nth(1)?.parse().ok()
}
