//! Changes of collections that are there: of their indexes and of their names, and the collections whose names they take.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bson::{Document, doc};
use fathom_engine::{Key, TableSpec};
use fathom_query::{Code, Failure};

use super::Catalog;
use crate::Result;
use crate::storage::collection::Parts;
use crate::storage::{Collection, Index, IndexSpec, State};

impl Catalog {
    /// A new table for an index that is about to be built; it is nobody's until [`Catalog::add_indexes`].
    /// `defaults` are the collection's `indexOptionDefaults`.
    pub(crate) fn new_index(&self, spec: IndexSpec, defaults: &Document, namespace: &str) -> Result<Index> {
        let ident = self.new_ident("index");
        let mut table = self.tables.spec(TableSpec::index(), namespace);
        table.config = spec.engine_config(self.engine.name(), defaults);
        Index::new(spec, self.engine.create_table(&ident, &table)?, false)
    }

    /// Makes built indexes the collection's.
    pub(crate) fn add_indexes(
        &self,
        collection: &Collection,
        state: &mut State,
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

    /// Drops indexes by name; the caller checked that they are there and that `_id_` is not among them.
    pub(crate) fn drop_indexes(
        &self,
        collection: &Collection,
        state: &mut State,
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

    /// Puts newly built indexes in the place of all that a collection has, `_id` among them. The collection is opened anew, so
    /// that nobody goes on with the old ones.
    pub(crate) fn replace_indexes(
        &self,
        collection: &Arc<Collection>,
        state: &mut State,
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

    /// Throws away the table of an index whose build failed.
    pub(crate) fn discard(&self, index: &Index) {
        self.drops.push(index.table().clone());
        self.drop_pending();
    }

    /// Writes down that indexes have become multikey, before the document that made them so is committed.
    pub(crate) fn note_multikey(
        &self,
        collection: &Collection,
        state: &State,
        indexes: &[Arc<Index>],
    ) -> Result<()> {
        let mut news = false;
        indexes.iter().for_each(|index| news |= index.become_multikey());
        if news {
            let _change = self.changes.lock();
            // Somebody else may have noted all of them while we waited.
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
    /// Gives a collection another name; the collection that has it now goes if `replace`, in the same commit.
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
            // Two collections are never waited for at once: somebody may hold the one and wait for the other.
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

    /// Opens a collection anew under a name, its own or another, and writes that down; the caller holds all that it touches.
    pub(super) fn rename_locked(
        &self,
        old: &Arc<Collection>,
        state: &mut State,
        to: &str,
        replaced: Option<(&Arc<Collection>, &mut State)>,
        commands: &[Document],
    ) -> Result<()> {
        if self.get(to).is_none() {
            self.refuse_other_case(to)?;
        }
        let mut options = state.options.clone();
        options.set_temporary(false);
        let renamed = Arc::new(Collection::new(Parts {
            namespace: to.to_owned(),
            uuid: old.uuid(),
            ident: old.ident().to_owned(),
            catalog_record: old.catalog_record(),
            table: old.table().cloned(),
            state: State {
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
