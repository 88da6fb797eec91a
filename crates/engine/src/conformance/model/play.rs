//! Plays a history on an engine and on the model, and stops at the first difference.

use super::history::{CursorMove, HistoryAction, ModelStep, SESSIONS, TableKey};
use super::state::{Demand, ModelOutcome, ModelRows, ReferenceModel};
use crate::conformance::atomicity::spliced;
use crate::conformance::fixture::OwnedKey;
use crate::conformance::random::Random;
use crate::{Cursor, Durability, Engine, Kind, Result, Session, Table, TableSpec};

/// A difference, in words.
type ModelCheck<T> = std::result::Result<T, String>;

/// The names of the two tables.
pub(super) fn idents(name: &str) -> [String; 2] {
    [format!("{name}-numbers"), format!("{name}-bytes")]
}

/// Plays a history in two new tables. Returns their rows at the end, or the first difference from the model.
pub(super) fn play(engine: &dyn Engine, name: &str, history: &[ModelStep]) -> ModelCheck<[ModelRows; 2]> {
    let [numbers, bytes] = idents(name);
    let specs = [(numbers, TableSpec::records()), (bytes, TableSpec::index())];
    let tables = specs.map(|(ident, spec)| engine.create_table(&ident, &spec).unwrap());
    let sessions: Vec<_> = (0..SESSIONS).map(|_| engine.session().unwrap()).collect();
    let held = sessions.iter().map(|_| None).collect();
    let mut player = Player { engine, tables, sessions: &sessions, held, model: ReferenceModel::new() };
    for (place, step) in history.iter().enumerate() {
        let result = player.step(step);
        result.map_err(|why| format!("step {place}, session {}, {:?}: {why}", step.session, step.act))?;
    }
    player.finish()
}

/// A cursor that outlives calls, and its position in the model.
struct OpenCursor<'s> {
    cursor: Box<dyn Cursor + 's>,
    table: usize,
    here: Option<OwnedKey>,
}

struct Player<'s> {
    engine: &'s dyn Engine,
    tables: [Table; 2],
    sessions: &'s [Box<dyn Session>],
    held: Vec<Option<OpenCursor<'s>>>,
    model: ReferenceModel,
}

impl Player<'_> {
    fn step(&mut self, step: &ModelStep) -> ModelCheck<()> {
        let who = step.session;
        match &step.act {
            HistoryAction::Begin | HistoryAction::Commit { .. } | HistoryAction::Rollback => {
                self.turn(who, &step.act)
            }
            HistoryAction::Get(spot) => self.get(who, spot),
            HistoryAction::Insert(spot, value) => {
                let value = value.bytes();
                let result = self.sessions[who].insert(&self.tables[spot.table], spot.key.as_key(), &value);
                self.written(who, spot, Demand::Absent, result.map(|()| true), Some(value))
            }
            HistoryAction::Put(spot, value) => {
                let value = value.bytes();
                let result = self.sessions[who].put(&self.tables[spot.table], spot.key.as_key(), &value);
                self.written(who, spot, Demand::Any, result.map(|()| true), Some(value))
            }
            HistoryAction::Update(spot, value) => self.update(who, spot, |_| (value.bytes(), None)),
            HistoryAction::Splice(spot, seed) => self.update(who, spot, |old| {
                let (value, splices) = spliced(old, &mut Random::new(*seed));
                (value, Some(splices))
            }),
            HistoryAction::Remove(spot) => {
                let result = self.sessions[who].remove(&self.tables[spot.table], spot.key.as_key());
                self.written(who, spot, Demand::Present, result, None)
            }
            HistoryAction::Truncate { table, from, to } => {
                self.truncate(who, *table, from.as_ref(), to.as_ref())
            }
            HistoryAction::Walk { table, start, step, steps } => self.walk(who, *table, start, step, *steps),
            HistoryAction::Place { table, to } => self.place(who, *table, to),
            HistoryAction::Go(step) => self.go(who, step),
            HistoryAction::Flush => self.engine.flush_journal().map_err(|error| error.to_string()),
            HistoryAction::Checkpoint => self.engine.checkpoint().map_err(|error| error.to_string()),
        }
    }

    /// Begins and ends of transactions; those that do not fit are left out.
    fn turn(&mut self, who: usize, act: &HistoryAction) -> ModelCheck<()> {
        let session = &self.sessions[who];
        let open = self.model.is_open(who);
        if matches!(act, HistoryAction::Begin) == open {
            return Ok(());
        }
        if let Some(held) = &mut self.held[who] {
            held.here = None;
        }
        let done = match act {
            HistoryAction::Begin => session.begin().map(|()| self.model.begin(who)),
            HistoryAction::Commit { durable } => {
                let durability = if *durable { Durability::Durable } else { Durability::Buffered };
                session.commit(durability).map(|()| self.model.commit(who))
            }
            _ => {
                session.rollback();
                self.model.rollback(who);
                Ok(())
            }
        };
        done.map_err(|error| format!("failed: {error}"))?;
        same("in_transaction", &session.in_transaction(), &self.model.is_open(who))
    }

    fn get(&self, who: usize, spot: &TableKey) -> ModelCheck<()> {
        let mut out = Vec::new();
        let found = self.sessions[who].get(&self.tables[spot.table], spot.key.as_key(), &mut out);
        let found = found.map_err(|error| format!("failed: {error}"))?.then_some(out);
        same("value", &found.as_ref(), &self.model.rows(who, spot.table).get(&spot.key))
    }

    /// Updates a key if it exists, to the result of `change` for its value.
    fn update(
        &mut self,
        who: usize,
        spot: &TableKey,
        change: impl FnOnce(&[u8]) -> (Vec<u8>, Option<Vec<crate::Splice>>),
    ) -> ModelCheck<()> {
        let Some(old) = self.model.rows(who, spot.table).get(&spot.key) else { return Ok(()) };
        let (value, splices) = change(old);
        let table = &self.tables[spot.table];
        let result = self.sessions[who].update(table, spot.key.as_key(), &value, splices.as_deref());
        self.written(who, spot, Demand::Any, result.map(|()| true), Some(value))
    }

    /// Compares the result of a write with the possible ones, and applies it to the model.
    fn written(
        &mut self,
        who: usize,
        spot: &TableKey,
        demand: Demand,
        result: Result<bool>,
        value: Option<Vec<u8>>,
    ) -> ModelCheck<()> {
        let outcome = outcome(result)?;
        let allowed = self.model.outcomes(who, spot, demand);
        if !allowed.contains(&outcome) {
            return Err(format!("ended with {outcome:?}, and may end with {allowed:?}"));
        }
        match outcome {
            ModelOutcome::Done => self.model.write(who, spot, value),
            ModelOutcome::Nothing | ModelOutcome::Duplicate => self.model.touch(who, spot),
            ModelOutcome::Conflict => self.give_up(who),
        }
        same("in_transaction", &self.sessions[who].in_transaction(), &self.model.is_open(who))
    }

    /// Rolls back after a conflict.
    fn give_up(&mut self, who: usize) {
        if self.model.is_open(who) {
            self.sessions[who].rollback();
            self.model.rollback(who);
            if let Some(held) = &mut self.held[who] {
                held.here = None;
            }
        }
    }

    fn truncate(
        &mut self,
        who: usize,
        table: usize,
        from: Option<&OwnedKey>,
        to: Option<&OwnedKey>,
    ) -> ModelCheck<()> {
        let (allowed, going) = self.model.truncation(who, table, from, to);
        let ends = (from.map(OwnedKey::as_key), to.map(OwnedKey::as_key));
        let outcome =
            outcome(self.sessions[who].truncate(&self.tables[table], ends.0, ends.1).map(|()| true))?;
        if !allowed.contains(&outcome) {
            return Err(format!("ended with {outcome:?}, and may end with {allowed:?}"));
        }
        if outcome == ModelOutcome::Conflict {
            self.give_up(who);
        } else {
            going.iter().for_each(|spot| self.model.write(who, spot, None));
        }
        Ok(())
    }

    fn walk(
        &self,
        who: usize,
        table: usize,
        start: &CursorMove,
        step: &CursorMove,
        steps: usize,
    ) -> ModelCheck<()> {
        let cursor = self.sessions[who].cursor(&self.tables[table]);
        let mut cursor = cursor.map_err(|error| format!("failed: {error}"))?;
        let mut here = None;
        for to in [start].into_iter().chain(std::iter::repeat_n(step, steps)) {
            here = self.moved(who, table, &mut *cursor, here.as_ref(), to)?;
            if here.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Moves a cursor, and compares the row that it reaches.
    fn moved(
        &self,
        who: usize,
        table: usize,
        cursor: &mut dyn Cursor,
        here: Option<&OwnedKey>,
        to: &CursorMove,
    ) -> ModelCheck<Option<OwnedKey>> {
        let found = match to {
            CursorMove::First => cursor.first(),
            CursorMove::Last => cursor.last(),
            CursorMove::Seek(key) => cursor.seek(key.as_key()),
            CursorMove::SeekBack(key) => cursor.seek_back(key.as_key()),
            CursorMove::Next => cursor.next(),
            CursorMove::Previous => cursor.previous(),
        };
        let found = found.map_err(|error| format!("{to:?} failed: {error}"))?;
        let expected = self.model.go(who, table, here, to);
        let key = found.then(|| OwnedKey::from(cursor.key()));
        same(&format!("{to:?} from {here:?}: key"), &key, &expected)?;
        if let Some(key) = &key {
            let value = self.model.rows(who, table).get(key).map(Vec::as_slice);
            same(&format!("value at {key:?}"), &Some(cursor.value()), &value)?;
        }
        Ok(key)
    }

    fn place(&mut self, who: usize, table: usize, to: &CursorMove) -> ModelCheck<()> {
        if !self.model.is_open(who) {
            return Ok(());
        }
        let mut held = match self.held[who].take() {
            Some(held) if held.table == table => held,
            _ => {
                let cursor = self.sessions[who].cursor(&self.tables[table]);
                OpenCursor { cursor: cursor.map_err(|error| format!("failed: {error}"))?, table, here: None }
            }
        };
        held.here = self.moved(who, table, &mut *held.cursor, None, to)?;
        self.held[who] = Some(held);
        Ok(())
    }

    fn go(&mut self, who: usize, step: &CursorMove) -> ModelCheck<()> {
        let Some(mut held) = self.held[who].take() else { return Ok(()) };
        if held.here.is_some() && self.model.is_open(who) {
            held.here = self.moved(who, held.table, &mut *held.cursor, held.here.as_ref(), step)?;
        }
        self.held[who] = Some(held);
        Ok(())
    }

    /// Rolls back open transactions, compares all rows and lets the engine verify its tables.
    fn finish(mut self) -> ModelCheck<[ModelRows; 2]> {
        self.held.clear();
        for who in 0..self.sessions.len() {
            self.sessions[who].rollback();
            self.model.rollback(who);
        }
        for table in [0, 1] {
            for (start, step) in
                [(CursorMove::First, CursorMove::Next), (CursorMove::Last, CursorMove::Previous)]
            {
                let steps = self.model.committed[table].len();
                self.walk(0, table, &start, &step, steps).map_err(|why| format!("at the end: {why}"))?;
            }
        }
        for table in &self.tables {
            self.sessions.iter().for_each(|session| session.release(Some(table)));
            match self.engine.verify(table) {
                Err(error) if error.kind() != Kind::Busy => return Err(format!("at the end: {error}")),
                _ => (),
            }
        }
        Ok(self.model.committed)
    }
}

fn outcome(result: Result<bool>) -> ModelCheck<ModelOutcome> {
    match result {
        Ok(true) => Ok(ModelOutcome::Done),
        Ok(false) => Ok(ModelOutcome::Nothing),
        Err(error) => match error.kind() {
            Kind::Duplicate => Ok(ModelOutcome::Duplicate),
            Kind::WriteConflict => Ok(ModelOutcome::Conflict),
            _ => Err(format!("failed: {error:?}")),
        },
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> ModelCheck<()> {
    if found == expected { Ok(()) } else { Err(format!("{what} is {found:?}, and must be {expected:?}")) }
}
