//! The model: whole copies of the tables for snapshots, so that it is too simple to be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::history::{Move, SESSIONS, Spot};
use crate::conformance::fixture::OwnedKey;

/// A table's keys and values.
pub(super) type Rows = BTreeMap<OwnedKey, Vec<u8>>;

/// How a write may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// A removal of a key that is not there.
    Nothing,
    Duplicate,
    Conflict,
}

/// What a write asks of the key before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    Absent,
    Present,
    Any,
}

#[derive(Debug)]
struct Open {
    began: u64,
    view: [Rows; 2],
    written: BTreeSet<Spot>,
    /// Keys of writes that changed nothing; an engine may hold them as if they were written.
    touched: BTreeSet<Spot>,
}

/// What the tables hold, who has what open, and when each key last changed.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) committed: [Rows; 2],
    changed: BTreeMap<Spot, u64>,
    clock: u64,
    open: Vec<Option<Open>>,
}

impl Model {
    pub(super) fn new() -> Self {
        let open = (0..SESSIONS).map(|_| None).collect();
        Model { committed: Default::default(), changed: BTreeMap::new(), clock: 0, open }
    }

    pub(super) fn is_open(&self, session: usize) -> bool {
        self.open[session].is_some()
    }

    pub(super) fn begin(&mut self, session: usize) {
        let view = self.committed.clone();
        let (written, touched) = (BTreeSet::new(), BTreeSet::new());
        self.open[session] = Some(Open { began: self.clock, view, written, touched });
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

    /// What a session sees of a table.
    pub(super) fn rows(&self, session: usize, table: usize) -> &Rows {
        self.open[session].as_ref().map_or(&self.committed[table], |open| &open.view[table])
    }

    /// Whether somebody else has written the key since the session's snapshot.
    fn is_taken(&self, session: usize, spot: &Spot) -> bool {
        let own = self.open[session].as_ref();
        if own.is_some_and(|own| own.written.contains(spot)) {
            return false;
        }
        let newer = own.is_some_and(|own| self.changed.get(spot).is_some_and(|time| *time > own.began));
        newer || self.others(session).any(|other| other.written.contains(spot))
    }

    fn others(&self, session: usize) -> impl Iterator<Item = &Open> {
        self.open
            .iter()
            .enumerate()
            .filter(move |(which, _)| *which != session)
            .filter_map(|(_, open)| open.as_ref())
    }

    /// Every way in which the write of one key may end.
    pub(super) fn outcomes(&self, session: usize, spot: &Spot, demand: Demand) -> Vec<Outcome> {
        let there = self.rows(session, spot.table).contains_key(&spot.key);
        let unmet = match demand {
            Demand::Absent if there => Some(Outcome::Duplicate),
            Demand::Present if !there => Some(Outcome::Nothing),
            _ => None,
        };
        if self.is_taken(session, spot) {
            return [Outcome::Conflict].into_iter().chain(unmet).collect();
        }
        let held = self.others(session).any(|other| other.touched.contains(spot));
        [unmet.unwrap_or(Outcome::Done)].into_iter().chain(held.then_some(Outcome::Conflict)).collect()
    }

    /// Every way in which a truncate may end, and the keys that go.
    pub(super) fn truncation(
        &self,
        session: usize,
        table: usize,
        from: Option<&OwnedKey>,
        to: Option<&OwnedKey>,
    ) -> (Vec<Outcome>, Vec<Spot>) {
        let within = |key: &OwnedKey| from.is_none_or(|from| from <= key) && to.is_none_or(|to| key <= to);
        let spot = |key: &OwnedKey| Spot { table, key: key.clone() };
        let keys = self.rows(session, table).keys();
        let going: Vec<Spot> = keys.filter(|key| within(key)).map(spot).collect();
        if going.iter().any(|spot| self.is_taken(session, spot)) {
            return (vec![Outcome::Conflict], going);
        }
        // Rows that this session does not see are no business of a truncate, but an engine may trip over them.
        let near = |spot: &Spot| spot.table == table && within(&spot.key) && self.is_taken(session, spot);
        let mut others = self.others(session).flat_map(|other| other.written.iter().chain(&other.touched));
        let held =
            self.changed.keys().any(near) || others.any(|spot| spot.table == table && within(&spot.key));
        ([Outcome::Done].into_iter().chain(held.then_some(Outcome::Conflict)).collect(), going)
    }

    /// Notes what a write that was done left, a value or nothing.
    pub(super) fn write(&mut self, session: usize, spot: &Spot, value: Option<Vec<u8>>) {
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

    /// Notes a write that changed nothing.
    pub(super) fn touch(&mut self, session: usize, spot: &Spot) {
        if let Some(open) = &mut self.open[session] {
            open.touched.insert(spot.clone());
        }
    }

    /// Where a cursor that stands on `here` gets to.
    pub(super) fn go(
        &self,
        session: usize,
        table: usize,
        here: Option<&OwnedKey>,
        to: &Move,
    ) -> Option<OwnedKey> {
        let rows = self.rows(session, table);
        let key = match (to, here) {
            (Move::First, _) => rows.keys().next(),
            (Move::Last, _) => rows.keys().next_back(),
            (Move::Seek(key), _) => rows.range(key..).next().map(|row| row.0),
            (Move::SeekBack(key), _) => rows.range(..=key).next_back().map(|row| row.0),
            (Move::Next, Some(here)) => {
                rows.range((Bound::Excluded(here), Bound::Unbounded)).next().map(|row| row.0)
            }
            (Move::Previous, Some(here)) => rows.range(..here).next_back().map(|row| row.0),
            (Move::Next | Move::Previous, None) => None,
        };
        key.cloned()
    }
}
