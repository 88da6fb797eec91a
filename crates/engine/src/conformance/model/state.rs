//! The model. Its snapshots are full copies of the tables, so that it is too simple to be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::history::{CursorMove, SESSIONS, TableKey};
use crate::conformance::fixture::OwnedKey;

/// A table's keys and values.
pub(super) type ModelRows = BTreeMap<OwnedKey, Vec<u8>>;

/// How a write may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelOutcome {
    Done,
    /// A removal of a key that does not exist.
    Nothing,
    Duplicate,
    Conflict,
}

/// The state of the key that a write requires before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    Absent,
    Present,
    Any,
}

#[derive(Debug)]
struct OpenTransaction {
    began: u64,
    view: [ModelRows; 2],
    written: BTreeSet<TableKey>,
    /// Keys of writes that changed nothing; an engine may treat them as written.
    touched: BTreeSet<TableKey>,
}

/// The rows of the tables, the open transactions and cursors, and when each key last changed.
#[derive(Debug)]
pub(super) struct ReferenceModel {
    pub(super) committed: [ModelRows; 2],
    changed: BTreeMap<TableKey, u64>,
    clock: u64,
    open: Vec<Option<OpenTransaction>>,
}

impl ReferenceModel {
    pub(super) fn new() -> Self {
        let open = (0..SESSIONS).map(|_| None).collect();
        ReferenceModel { committed: Default::default(), changed: BTreeMap::new(), clock: 0, open }
    }

    pub(super) fn is_open(&self, session: usize) -> bool {
        self.open[session].is_some()
    }

    pub(super) fn begin(&mut self, session: usize) {
        let view = self.committed.clone();
        let (written, touched) = (BTreeSet::new(), BTreeSet::new());
        self.open[session] = Some(OpenTransaction { began: self.clock, view, written, touched });
    }

    pub(super) fn commit(&mut self, session: usize) {
        let Some(open) = self.open[session].take() else { return };
        self.clock += 1;
        for spot in open.written {
            match open.view[spot.table].get(&spot.key) {
                Some(value) => self.committed[spot.table].insert(spot.key.clone(), value.clone()),
                None => self.committed[spot.table].remove(&spot.key),
            };
            self.changed.insert(spot, self.clock);
        }
    }

    pub(super) fn rollback(&mut self, session: usize) {
        self.open[session] = None;
    }

    /// The rows of a table that a session sees.
    pub(super) fn rows(&self, session: usize, table: usize) -> &ModelRows {
        self.open[session].as_ref().map_or(&self.committed[table], |open| &open.view[table])
    }

    /// Whether another session has written the key since the session's snapshot.
    fn is_taken(&self, session: usize, spot: &TableKey) -> bool {
        let own = self.open[session].as_ref();
        if own.is_some_and(|own| own.written.contains(spot)) {
            return false;
        }
        let newer = own.is_some_and(|own| self.changed.get(spot).is_some_and(|time| *time > own.began));
        newer || self.others(session).any(|other| other.written.contains(spot))
    }

    fn others(&self, session: usize) -> impl Iterator<Item = &OpenTransaction> {
        self.open
            .iter()
            .enumerate()
            .filter(move |(which, _)| *which != session)
            .filter_map(|(_, open)| open.as_ref())
    }

    /// Every way in which the write of one key may end.
    pub(super) fn outcomes(&self, session: usize, spot: &TableKey, demand: Demand) -> Vec<ModelOutcome> {
        let there = self.rows(session, spot.table).contains_key(&spot.key);
        let unmet = match demand {
            Demand::Absent if there => Some(ModelOutcome::Duplicate),
            Demand::Present if !there => Some(ModelOutcome::Nothing),
            _ => None,
        };
        if self.is_taken(session, spot) {
            return [ModelOutcome::Conflict].into_iter().chain(unmet).collect();
        }
        let held = self.others(session).any(|other| other.touched.contains(spot));
        [unmet.unwrap_or(ModelOutcome::Done)]
            .into_iter()
            .chain(held.then_some(ModelOutcome::Conflict))
            .collect()
    }

    /// Every way in which a truncate may end, and the keys that it removes.
    pub(super) fn truncation(
        &self,
        session: usize,
        table: usize,
        from: Option<&OwnedKey>,
        to: Option<&OwnedKey>,
    ) -> (Vec<ModelOutcome>, Vec<TableKey>) {
        let within = |key: &OwnedKey| from.is_none_or(|from| from <= key) && to.is_none_or(|to| key <= to);
        let spot = |key: &OwnedKey| TableKey { table, key: key.clone() };
        let keys = self.rows(session, table).keys();
        let going: Vec<TableKey> = keys.filter(|key| within(key)).map(spot).collect();
        if going.iter().any(|spot| self.is_taken(session, spot)) {
            return (vec![ModelOutcome::Conflict], going);
        }
        // A truncate does not affect rows that this session does not see, but an engine may report a conflict on them.
        let near = |spot: &TableKey| spot.table == table && within(&spot.key) && self.is_taken(session, spot);
        let mut others = self.others(session).flat_map(|other| other.written.iter().chain(&other.touched));
        let held =
            self.changed.keys().any(near) || others.any(|spot| spot.table == table && within(&spot.key));
        ([ModelOutcome::Done].into_iter().chain(held.then_some(ModelOutcome::Conflict)).collect(), going)
    }

    /// Records the result of a successful write: a value or none.
    pub(super) fn write(&mut self, session: usize, spot: &TableKey, value: Option<Vec<u8>>) {
        let alone = self.open[session].is_none();
        if alone {
            self.begin(session);
        }
        if let Some(open) = &mut self.open[session] {
            match value {
                Some(value) => open.view[spot.table].insert(spot.key.clone(), value),
                None => open.view[spot.table].remove(&spot.key),
            };
            open.written.insert(spot.clone());
        }
        if alone {
            self.commit(session);
        }
    }

    /// Records a write that changed nothing.
    pub(super) fn touch(&mut self, session: usize, spot: &TableKey) {
        if let Some(open) = &mut self.open[session] {
            open.touched.insert(spot.clone());
        }
    }

    /// The position to which a cursor on `here` moves.
    pub(super) fn go(
        &self,
        session: usize,
        table: usize,
        here: Option<&OwnedKey>,
        to: &CursorMove,
    ) -> Option<OwnedKey> {
        let rows = self.rows(session, table);
        let key = match (to, here) {
            (CursorMove::First, _) => rows.keys().next(),
            (CursorMove::Last, _) => rows.keys().next_back(),
            (CursorMove::Seek(key), _) => rows.range(key..).next().map(|row| row.0),
            (CursorMove::SeekBack(key), _) => rows.range(..=key).next_back().map(|row| row.0),
            (CursorMove::Next, Some(here)) => {
                rows.range((Bound::Excluded(here), Bound::Unbounded)).next().map(|row| row.0)
            }
            (CursorMove::Previous, Some(here)) => rows.range(..here).next_back().map(|row| row.0),
            (CursorMove::Next | CursorMove::Previous, None) => None,
        };
        key.cloned()
    }
}
