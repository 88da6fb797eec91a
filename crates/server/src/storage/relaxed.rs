//! Writes that bear being done twice: what an oplog says, applied to data that may already have it, or be ahead of it.
//!
//! After a crash the data stand at the last checkpoint or somewhat behind it, and the oplog is replayed from before it; while a
//! new member copies the data, they change. In both cases an entry may find its document already there, gone, or as a later
//! entry made it, and a unique key with another owner than at the time. So a document is put where it is missing, what is
//! missing is not removed, and a unique key goes to whoever comes last: when the replay has reached its end, that is the right
//! one, because each entry that gave the key to somebody has been replayed (server.md, 4.1; mongod relaxes its indexes
//! likewise).

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};
use fathom_engine::{Key, Session};
use fathom_query::{Bound, KeyBuilder};

use super::{Collection, Index, State, leading_record_id};
use crate::Result;

/// What a write did to the counts, and which indexes became multikey.
#[derive(Debug, Default)]
pub(crate) struct Effect {
    pub(crate) records: i64,
    pub(crate) bytes: i64,
    pub(crate) multikey: Vec<Arc<Index>>,
}

impl Collection {
    /// The record of an `_id`, and its document into `out`.
    pub(crate) fn find_by_id(
        &self,
        session: &dyn Session,
        id: RawBsonRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<i64>> {
        let (Some(index), Some(table)) = (self.id_index(), self.table()) else { return Ok(None) };
        let mut key = KeyBuilder::new();
        key.append(id, false);
        key.check()?;
        let key = key.finish(Bound::Exact);
        let mut value = Vec::new();
        if !session.get(index.table(), Key::Bytes(&key.bytes), &mut value)? {
            return Ok(None);
        }
        let Some((record, _)) = leading_record_id(&value) else { return Ok(None) };
        out.clear();
        // The entry of a record that a crash took: the document counts as missing.
        Ok(session.get(table, Key::Number(record), out)?.then_some(record))
    }

    /// Puts a document where the one of its `_id` is, or as a new one.
    pub(crate) fn put_relaxed(
        &self,
        session: &dyn Session,
        state: &State,
        document: &RawDocument,
    ) -> Result<Effect> {
        let id = crate::parse::field(document, "_id").unwrap_or(RawBsonRef::Null);
        let mut before = Vec::new();
        match self.find_by_id(session, id, &mut before)? {
            Some(record) => {
                let before = crate::storage::document_of(&before)?;
                self.replace_relaxed(session, state, record, before, document)
            }
            None => {
                let record = self.new_record();
                session.put(self.records_table()?, Key::Number(record), document.as_bytes())?;
                let mut effect = Effect { records: 1, bytes: length(document), multikey: Vec::new() };
                for index in &state.indexes {
                    if index.put(session, document, record)? && !index.is_noted_multikey() {
                        effect.multikey.push(Arc::clone(index));
                    }
                }
                Ok(effect)
            }
        }
    }

    /// Puts `after` in the place of `before`; its index entries are all written again.
    pub(crate) fn replace_relaxed(
        &self,
        session: &dyn Session,
        state: &State,
        record: i64,
        before: &RawDocument,
        after: &RawDocument,
    ) -> Result<Effect> {
        session.put(self.records_table()?, Key::Number(record), after.as_bytes())?;
        let mut effect = Effect { records: 0, bytes: length(after) - length(before), multikey: Vec::new() };
        for index in &state.indexes {
            index.remove_own(session, before, record)?;
            if index.put(session, after, record)? && !index.is_noted_multikey() {
                effect.multikey.push(Arc::clone(index));
            }
        }
        Ok(effect)
    }

    /// Removes the document of an `_id`, if there is one; it is left in `out`.
    pub(crate) fn remove_relaxed(
        &self,
        session: &dyn Session,
        state: &State,
        id: RawBsonRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Effect> {
        let Some(record) = self.find_by_id(session, id, out)? else { return Ok(Effect::default()) };
        let before = crate::storage::document_of(out)?;
        session.remove(self.records_table()?, Key::Number(record))?;
        for index in &state.indexes {
            index.remove_own(session, before, record)?;
        }
        Ok(Effect { records: -1, bytes: -length(before), multikey: Vec::new() })
    }
}

fn length(document: &RawDocument) -> i64 {
    i64::try_from(document.as_bytes().len()).unwrap_or(i64::MAX)
}
