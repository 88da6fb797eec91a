//! Collections that get another name, and the ones whose names they take.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bson::{Document, doc};
use fathom_engine::Key;
use fathom_query::{Code, Failure};

use super::Catalog;
use crate::Result;
use crate::storage::collection::Parts;
use crate::storage::{Collection, State};

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
        let logged = self.log(&*session, old, commands)?;
        self.commit(&*session, to, logged)?;
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
