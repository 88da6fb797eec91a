//! Writes that may be repeated: applies oplog entries to data that may already contain them, or later ones.
//!
//! After a crash the data is that of the last checkpoint or somewhat later, and the oplog is replayed from before it; during an
//! initial sync, the data changes while it is copied. In both cases an entry may find its document already inserted, removed,
//! or changed by a later entry, and a unique key with a different owner than at the time. So a missing document is inserted, a
//! removal of a missing one does nothing, and a unique key belongs to the last entry: at the end of the replay that is the
//! right owner, because each entry that assigned the key has been replayed (docs/methods.md#the-oplog; mongod relaxes its
//! indexes likewise).

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};
use fathom_engine::{Key, Session};
use fathom_query::{Bound, KeyBuilder};

use super::{Collection, CollectionState, Index, leading_record_id};
use crate::Result;

/// The effect of a write on the counts, and the indexes that became multikey.
#[derive(Debug, Default)]
pub(crate) struct WriteEffects {
    pub(crate) records: i64,
    pub(crate) bytes: i64,
    pub(crate) multikey: Vec<Arc<Index>>,
}

impl Collection {
    /// Finds the record of an `_id`, and reads its document into `out`.
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
        // An index entry whose record was lost in a crash: the document counts as missing.
        Ok(session.get(table, Key::Number(record), out)?.then_some(record))
    }

    /// Replaces the document with the same `_id`, or inserts a new one.
    pub(crate) fn put_relaxed(
        &self,
        session: &dyn Session,
        state: &CollectionState,
        document: &RawDocument,
    ) -> Result<WriteEffects> {
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
                let mut effect = WriteEffects { records: 1, bytes: length(document), multikey: Vec::new() };
                for index in &state.indexes {
                    if index.put(session, document, record)? && !index.is_noted_multikey() {
                        effect.multikey.push(Arc::clone(index));
                    }
                }
                Ok(effect)
            }
        }
    }

    /// Replaces `before` by `after`; all index entries are written again.
    pub(crate) fn replace_relaxed(
        &self,
        session: &dyn Session,
        state: &CollectionState,
        record: i64,
        before: &RawDocument,
        after: &RawDocument,
    ) -> Result<WriteEffects> {
        session.put(self.records_table()?, Key::Number(record), after.as_bytes())?;
        let mut effect =
            WriteEffects { records: 0, bytes: length(after) - length(before), multikey: Vec::new() };
        for index in &state.indexes {
            index.remove_own(session, before, record)?;
            if index.put(session, after, record)? && !index.is_noted_multikey() {
                effect.multikey.push(Arc::clone(index));
            }
        }
        Ok(effect)
    }

    /// Removes the document with an `_id`, if it exists; it is left in `out`.
    pub(crate) fn remove_relaxed(
        &self,
        session: &dyn Session,
        state: &CollectionState,
        id: RawBsonRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<WriteEffects> {
        let Some(record) = self.find_by_id(session, id, out)? else { return Ok(WriteEffects::default()) };
        let before = crate::storage::document_of(out)?;
        session.remove(self.records_table()?, Key::Number(record))?;
        for index in &state.indexes {
            index.remove_own(session, before, record)?;
        }
        Ok(WriteEffects { records: -1, bytes: -length(before), multikey: Vec::new() })
    }
}

fn length(document: &RawDocument) -> i64 {
    i64::try_from(document.as_bytes().len()).unwrap_or(i64::MAX)
}
