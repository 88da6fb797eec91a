//! A collection: its records, its indexes, and the writes that keep them consistent.
//!
//! Every write here runs inside a transaction that the caller began. Counts change only through [`Collection::note`],
//! after the commit, while the state is still held.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bson::RawDocument;
use fathom_engine::{Key, Session, Splice, Table};
use fathom_query::{Code, Failure, Update};
use parking_lot::RwLockWriteGuard;

use super::capped::{CappedLimits, CappedState};
use super::state::{SharedState, StateLock};
use super::{CollectionState, ExclusiveState, Index, LockKind, LockWaits, OperationLocks};
use crate::Result;
use crate::stats::Usage;

/// A collection or view that is open.
#[derive(Debug)]
pub(crate) struct Collection {
    namespace: String,
    uuid: bson::Uuid,
    ident: String,
    /// Its record in the catalog table.
    catalog_record: i64,
    table: Option<Table>,
    /// Outside the state, because it lives as long as the collection and every point operation needs it.
    id_index: Option<Arc<Index>>,
    /// The limits of a capped collection, which never change.
    limits: Option<CappedLimits>,
    state: StateLock,
    next_record: AtomicI64,
    records: AtomicI64,
    bytes: AtomicI64,
    touched: AtomicBool,
    /// Held while the first write is being recorded, so that no other write precedes the record.
    touching: parking_lot::Mutex<()>,
    recounting: AtomicBool,
    capped: CappedState,
    usage: Usage,
    /// Records after this one may not be read yet: oplog entries before which earlier ones may still be committed.
    readable_to: AtomicI64,
}

/// The parts of a collection being opened.
#[derive(Debug)]
pub(crate) struct CollectionParts {
    pub(crate) namespace: String,
    pub(crate) uuid: bson::Uuid,
    pub(crate) ident: String,
    pub(crate) catalog_record: i64,
    pub(crate) table: Option<Table>,
    pub(crate) state: CollectionState,
    pub(crate) next_record: i64,
    pub(crate) records: i64,
    pub(crate) bytes: i64,
    pub(crate) recounting: bool,
    /// The counters of waits for the collection.
    pub(crate) lock_waits: Arc<LockWaits>,
}

impl Collection {
    pub(crate) fn new(parts: CollectionParts) -> Collection {
        Collection {
            namespace: parts.namespace,
            uuid: parts.uuid,
            ident: parts.ident,
            catalog_record: parts.catalog_record,
            table: parts.table,
            id_index: parts.state.id_index().cloned(),
            limits: CappedLimits::from_options(&parts.state.options),
            state: StateLock::new(parts.state, parts.lock_waits),
            next_record: AtomicI64::new(parts.next_record),
            records: AtomicI64::new(parts.records),
            bytes: AtomicI64::new(parts.bytes),
            touched: AtomicBool::new(false),
            recounting: AtomicBool::new(parts.recounting),
            touching: parking_lot::Mutex::new(()),
            capped: CappedState::default(),
            usage: Usage::default(),
            readable_to: AtomicI64::new(i64::MAX),
        }
    }

    /// The last record that may be read; to be read before the snapshot begins.
    pub(crate) fn readable_to(&self) -> i64 {
        self.readable_to.load(Ordering::Acquire)
    }

    /// Allows records up to this one to be read.
    pub(crate) fn set_readable_to(&self, record: i64) {
        self.readable_to.store(record, Ordering::Release);
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The part before the first dot.
    pub(crate) fn database(&self) -> &str {
        self.namespace.split_once('.').map_or(self.namespace.as_str(), |(database, _)| database)
    }

    /// The part after the first dot.
    pub(crate) fn name(&self) -> &str {
        self.namespace.split_once('.').map_or("", |(_, name)| name)
    }

    pub(crate) fn uuid(&self) -> bson::Uuid {
        self.uuid
    }

    pub(crate) fn ident(&self) -> &str {
        &self.ident
    }

    pub(crate) fn catalog_record(&self) -> i64 {
        self.catalog_record
    }

    /// The table of its records; a view has none.
    pub(crate) fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    /// The table of its records; a failure for a view.
    pub(crate) fn records_table(&self) -> Result<&Table> {
        self.table.as_ref().ok_or_else(|| {
            Failure::new(
                Code::CommandNotSupportedOnView,
                format!("Namespace {} is a view, not a collection", self.namespace),
            )
        })
    }

    /// The index on `_id`, which a view does not have.
    pub(crate) fn id_index(&self) -> Option<&Index> {
        self.id_index.as_deref()
    }

    /// The use of the collection, by kind and with latencies.
    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// The state, shared with other operations.
    pub(crate) fn lock(&self) -> SharedState<'_> {
        self.state.shared()
    }

    /// The state, shared with other operations, for an operation whose locks others see. It stops waiting if `check` fails: a
    /// schema change may take long.
    pub(crate) fn lock_unless<'c>(
        &'c self,
        locks: &'c OperationLocks,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<SharedState<'c>> {
        let kind = locks.collection_kind();
        let state = match self.state.shared_now() {
            Some(state) => state,
            None => locks.wait(kind, || self.state.shared_unless(kind, check))?,
        };
        Ok(state.held_as(locks.hold(kind)))
    }

    /// Locks the state against every other reader and writer.
    pub(crate) fn lock_exclusive(&self) -> RwLockWriteGuard<'_, CollectionState> {
        self.state.exclusive()
    }

    /// Locks the state exclusively if that is possible soon.
    pub(crate) fn try_lock_exclusive(&self) -> Option<RwLockWriteGuard<'_, CollectionState>> {
        self.state.try_exclusive()
    }

    /// As [`Collection::lock_exclusive`], for an operation whose locks others see. It stops waiting if `check` fails.
    pub(crate) fn lock_exclusive_unless<'c>(
        &'c self,
        locks: &'c OperationLocks,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<ExclusiveState<'c>> {
        let kind = LockKind::CollectionExclusive;
        let guard = match self.state.exclusive_now() {
            Some(guard) => guard,
            None => locks.wait(kind, || self.state.exclusive_unless(check))?,
        };
        Ok(ExclusiveState::new(guard, locks.hold(kind)))
    }

    pub(crate) fn records(&self) -> i64 {
        self.records.load(Ordering::Relaxed).max(0)
    }

    pub(crate) fn bytes(&self) -> i64 {
        self.bytes.load(Ordering::Relaxed).max(0)
    }

    pub(crate) fn next_record(&self) -> i64 {
        self.next_record.load(Ordering::Relaxed)
    }

    pub(crate) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    /// Whether its counts are being recomputed after a crash.
    pub(crate) fn recounting(&self) -> &AtomicBool {
        &self.recounting
    }

    /// Calls `note` once, before the first write of this run.
    pub(crate) fn touch(&self, note: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.touched.load(Ordering::Acquire) {
            return Ok(());
        }
        let _alone = self.touching.lock();
        if !self.touched.load(Ordering::Acquire) {
            note()?;
            self.touched.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Continues the state of the same collection under its old name.
    pub(crate) fn take_over(&self, old: &Collection) {
        self.touched.store(old.is_touched(), Ordering::Release);
        self.capped.set_oldest(old.capped.oldest());
    }

    /// Adds a committed write's changes to the counts.
    pub(crate) fn note(&self, records: i64, bytes: i64) {
        if records != 0 {
            self.records.fetch_add(records, Ordering::Relaxed);
        }
        if bytes != 0 {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Corrects the counts after a recount.
    pub(crate) fn correct(&self, records: i64, bytes: i64) {
        self.touched.store(true, Ordering::Release);
        self.note(records, bytes);
    }

    /// The limits, if it is capped.
    pub(crate) fn limits(&self) -> Option<CappedLimits> {
        self.limits
    }

    /// The state that only capped collections use.
    pub(crate) fn capped(&self) -> &CappedState {
        &self.capped
    }

    /// The number of inserts into a capped collection; for [`Collection::wait_for_insert`].
    pub(crate) fn inserts(&self) -> u64 {
        self.capped.inserts()
    }

    /// Waits, at most until `until`, for more than `seen` inserts into a capped collection; returns their number.
    pub(crate) fn wait_for_insert(&self, seen: u64, until: std::time::Instant) -> u64 {
        self.capped.wait(seen, until)
    }

    /// A number for a new record.
    pub(super) fn new_record(&self) -> i64 {
        self.next_record.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a document that has an `_id`; returns its RecordId, and the indexes that it made multikey.
    pub(crate) fn insert(
        &self,
        session: &dyn Session,
        state: &CollectionState,
        document: &RawDocument,
    ) -> Result<(i64, Vec<Arc<Index>>)> {
        let table = self.records_table()?;
        let record = self.new_record();
        // The number is new, so no look-up is needed; mongod's cursors overwrite too.
        session.put(table, Key::Number(record), document.as_bytes())?;
        let mut multikey = Vec::new();
        for index in &state.indexes {
            if index.insert(session, document, record, &self.namespace)? && !index.is_noted_multikey() {
                multikey.push(Arc::clone(index));
            }
        }
        Ok((record, multikey))
    }

    /// Replaces a document. `update` allows indexes that it cannot affect to be skipped.
    pub(crate) fn replace(
        &self,
        session: &dyn Session,
        state: &CollectionState,
        record: i64,
        before: &RawDocument,
        after: &RawDocument,
        update: Option<&Update>,
    ) -> Result<Vec<Arc<Index>>> {
        let table = self.records_table()?;
        let splices = same_size_splices(before.as_bytes(), after.as_bytes());
        session.update(table, Key::Number(record), after.as_bytes(), splices.as_deref())?;
        let paths = update.and_then(Update::paths);
        let mut multikey = Vec::new();
        for index in state.indexes.iter().skip(1) {
            if paths.is_some_and(|paths| !index.may_depend_on(paths)) {
                continue;
            }
            if index.replace(session, before, after, record, &self.namespace)? && !index.is_noted_multikey() {
                multikey.push(Arc::clone(index));
            }
        }
        Ok(multikey)
    }

    pub(crate) fn remove(
        &self,
        session: &dyn Session,
        state: &CollectionState,
        record: i64,
        before: &RawDocument,
    ) -> Result<()> {
        let table = self.records_table()?;
        session.remove(table, Key::Number(record))?;
        state.indexes.iter().try_for_each(|index| index.remove(session, before, record))
    }
}

/// The ranges in which a value of the same size differs from the old one; `None` if the size differs, in which case
/// mongod also writes the whole document (it logs changes in place only, docs/methods.md#records-and-indexes).
fn same_size_splices(before: &[u8], after: &[u8]) -> Option<Vec<Splice>> {
    /// The number of equal bytes up to which two differing ranges are joined.
    const MAX_JOINED_GAP_BYTES: usize = 16;
    /// With more ranges than this, the whole value is written.
    const MAX_SPLICES: usize = 16;
    /// The number of bytes compared at once.
    const CHUNK_BYTES: usize = 32;
    if before.len() != after.len() {
        return None;
    }
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let chunks = before.chunks(CHUNK_BYTES).zip(after.chunks(CHUNK_BYTES)).enumerate();
    // Equal chunks, which are most of them, cost one comparison each.
    for (number, (old, new)) in chunks.filter(|(_, (old, new))| old != new) {
        for (place, _) in old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new) {
            let at = number * CHUNK_BYTES + place;
            let many = ranges.len() == MAX_SPLICES;
            match ranges.last_mut() {
                Some((_, end)) if at <= *end + MAX_JOINED_GAP_BYTES => *end = at + 1,
                _ if many => return None,
                _ => ranges.push((at, at + 1)),
            }
        }
    }
    let splice = |(from, to): (usize, usize)| {
        Some(Splice { offset: from, remove: to - from, data: after.get(from..to)?.to_vec() })
    };
    ranges.into_iter().map(splice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splices_say_where_values_of_one_size_differ() {
        assert_eq!(same_size_splices(b"abc", b"abcd"), None);
        assert_eq!(same_size_splices(b"abc", b"abc"), Some(Vec::new()));
        let mut after = vec![0; 100];
        after[10] = 1;
        after[12] = 1;
        after[80] = 1;
        let splices = same_size_splices(&[0; 100], &after).unwrap();
        assert_eq!(
            splices.iter().map(|one| (one.offset, one.remove)).collect::<Vec<_>>(),
            [(10, 3), (80, 1)]
        );
        assert_eq!(splices[0].data, [1, 0, 1]);
    }
}
