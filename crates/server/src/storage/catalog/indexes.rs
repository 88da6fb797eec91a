//! Changes of a collection's indexes.

use std::sync::Arc;

use bson::{Document, doc};
use fathom_engine::TableSpec;

use super::Catalog;
use crate::Result;
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
