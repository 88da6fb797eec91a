//! Changes of existing collections: of their indexes and names, and of the collections that a rename replaces.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bson::{Document, doc};
use fathom_engine::{Key, TableSpec};
use fathom_query::{Code, Failure};

use super::Catalog;
use crate::Result;
use crate::storage::collection::CollectionParts;
use crate::storage::{Collection, CollectionState, Index, IndexSpec};

impl Catalog {
    /// Makes a table for an index about to be built. No collection uses it until [`Catalog::add_indexes`]. `defaults`
    /// are the collection's `indexOptionDefaults`.
    pub(crate) fn new_index(&self, spec: IndexSpec, defaults: &Document, namespace: &str) -> Result<Index> {
        let ident = self.new_ident("index");
        let mut table = self.tables.spec(TableSpec::index(), namespace);
        table.config = spec.engine_config(self.engine.name(), defaults);
        Index::new(spec, self.engine.create_table(&ident, &table)?, false)
    }

    /// Adds built indexes to the collection.
    pub(crate) fn add_indexes(
        &self,
        collection: &Collection,
        state: &mut CollectionState,
        indexes: Vec<Arc<Index>>,
    ) -> Result<()> {
        let _change = self.changes.lock();
        let before = state.indexes.len();
        let created = |index: &Arc<Index>| {
            doc! { "createIndexes": collection.name() }.into_iter().chain(index.document()).collect()
        };
        let commands: Vec<Document> = indexes.iter().map(created).collect();
        state.indexes.extend(indexes);
        if let Err(failure) = self.write_as(collection, state, &commands) {
            let new = state.indexes.split_off(before);
            new.iter().for_each(|index| self.drops.push(index.table().clone()));
            return Err(failure);
        }
        state.indexes.iter().filter(|index| index.is_multikey()).for_each(|index| index.note_multikey());
        Ok(())
    }

    /// Drops indexes by name; the caller has checked that they exist and do not include `_id_`.
    pub(crate) fn drop_indexes(
        &self,
        collection: &Collection,
        state: &mut CollectionState,
        names: &[String],
    ) -> Result<()> {
        let change = self.changes.lock();
        let before = state.indexes.clone();
        let goes = |index: &Arc<Index>| names.iter().any(|name| name == index.name());
        state.indexes.retain(|index| !goes(index));
        let dropped = |name: &String| doc! { "dropIndexes": collection.name(), "index": name };
        let commands: Vec<Document> = names.iter().map(dropped).collect();
        if let Err(failure) = self.write_as(collection, state, &commands) {
            state.indexes = before;
            return Err(failure);
        }
        before.iter().filter(|index| goes(index)).for_each(|index| self.drops.push(index.table().clone()));
        drop(change);
        self.drop_pending();
        Ok(())
    }

    /// Replaces all indexes of a collection, `_id` included, by newly built ones. The collection is reopened, so that
    /// no operation continues with the old ones.
    pub(crate) fn replace_indexes(
        &self,
        collection: &Arc<Collection>,
        state: &mut CollectionState,
        indexes: Vec<Arc<Index>>,
    ) -> Result<()> {
        let change = self.changes.lock();
        let before = std::mem::replace(&mut state.indexes, indexes);
        if let Err(failure) = self.rename_locked(collection, state, collection.namespace(), None, &[]) {
            let new = std::mem::replace(&mut state.indexes, before);
            new.iter().for_each(|index| self.drops.push(index.table().clone()));
            return Err(failure);
        }
        before.iter().for_each(|index| self.drops.push(index.table().clone()));
        state.indexes.iter().filter(|index| index.is_multikey()).for_each(|index| index.note_multikey());
        drop(change);
        self.drop_pending();
        Ok(())
    }

    /// Drops the table of an index whose build failed.
    pub(crate) fn discard(&self, index: &Index) {
        self.drops.push(index.table().clone());
        self.drop_pending();
    }

    /// Records durably that indexes have become multikey, before the document that made them so is committed.
    pub(crate) fn note_multikey(
        &self,
        collection: &Collection,
        state: &CollectionState,
        indexes: &[Arc<Index>],
    ) -> Result<()> {
        let mut news = false;
        indexes.iter().for_each(|index| news |= index.become_multikey());
        if news {
            let _change = self.changes.lock();
            // Another operation may have recorded all of them during the wait.
            if indexes.iter().any(|index| !index.is_noted_multikey()) {
                let multikey: Vec<_> = state.indexes.iter().filter(|index| index.is_multikey()).collect();
                self.write(collection, state)?;
                multikey.iter().for_each(|index| index.note_multikey());
            }
        }
        Ok(())
    }
}

impl Catalog {
    /// Renames a collection. With `replace` the collection that now has the name is dropped in the same commit.
    pub(crate) fn rename(&self, from: &str, to: &str, replace: bool) -> Result<()> {
        loop {
            let old = self.get(from).ok_or_else(|| {
                Failure::new(Code::NamespaceNotFound, format!("Source collection {from} does not exist"))
            })?;
            let target = self.get(to);
            if target.is_some() && !replace {
                return Err(Failure::new(Code::NamespaceExists, "target namespace exists".to_owned()));
            }
            let mut state = old.lock_exclusive();
            // Never waits for two collections at once: another operation may hold one of them and wait for the other.
            let mut target_state = match &target {
                None => None,
                Some(target) => match target.try_lock_exclusive() {
                    None => continue,
                    state => state,
                },
            };
            let change = self.changes.lock();
            let other = match (self.get(to), &target) {
                (None, None) => false,
                (Some(now), Some(then)) => !Arc::ptr_eq(&now, then),
                _ => true,
            };
            if state.gone || other {
                continue;
            }
            let replaced = target.as_ref().zip(target_state.as_deref_mut());
            let renamed = doc! { "renameCollection": from, "to": to, "dropTarget": replace };
            self.rename_locked(&old, &mut state, to, replaced, &[renamed])?;
            drop((change, state, target_state));
            self.drop_pending();
            return Ok(());
        }
    }

    /// Reopens a collection under the same or another name, and writes that to the catalog. The caller holds everything involved.
    pub(super) fn rename_locked(
        &self,
        old: &Arc<Collection>,
        state: &mut CollectionState,
        to: &str,
        replaced: Option<(&Arc<Collection>, &mut CollectionState)>,
        commands: &[Document],
    ) -> Result<()> {
        if self.get(to).is_none() {
            self.refuse_other_case(to)?;
        }
        let mut options = state.options.clone();
        options.set_temporary(false);
        let renamed = Arc::new(Collection::new(CollectionParts {
            namespace: to.to_owned(),
            uuid: old.uuid(),
            ident: old.ident().to_owned(),
            catalog_record: old.catalog_record(),
            table: old.table().cloned(),
            state: CollectionState {
                indexes: state.indexes.clone(),
                options,
                validator: state.validator.clone(),
                gone: false,
            },
            next_record: old.next_record(),
            records: old.records(),
            bytes: old.bytes(),
            recounting: old.recounting().load(Ordering::Relaxed),
            lock_waits: Arc::clone(&self.lock_waits),
        }));
        renamed.take_over(old);
        let session = self.engine.session()?;
        session.begin()?;
        self.put(&*session, &renamed, &renamed.lock())?;
        if let Some((target, _)) = &replaced {
            session.remove(&self.table, Key::Number(target.catalog_record()))?;
            self.sizes.forget(&*session, target.ident())?;
        }
        self.commit(&*session, to, old, commands)?;
        if let Some((target, target_state)) = replaced {
            target_state.gone = true;
            target.capped().announce();
            target.table().into_iter().for_each(|table| self.drops.push(table.clone()));
            target_state.indexes.iter().for_each(|index| self.drops.push(index.table().clone()));
        }
        state.gone = true;
        old.capped().announce();
        let mut collections = self.collections.write();
        collections.remove(old.namespace());
        collections.insert(to.to_owned(), renamed);
        Ok(())
    }
}
