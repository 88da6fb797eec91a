//! Histories: sequences of calls of several sessions, generated from a seed independently of any engine.

use crate::conformance::fixture::OwnedKey;
use crate::conformance::random::Random;

/// The number of sessions that take turns.
pub(super) const SESSIONS: u64 = 5;

/// A key of one of the two tables: 0 has numbers, 1 has bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TableKey {
    pub(super) table: usize,
    pub(super) key: OwnedKey,
}

/// The target of a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CursorMove {
    First,
    Last,
    Seek(OwnedKey),
    SeekBack(OwnedKey),
    Next,
    Previous,
}

/// One call, or a few that belong together.
#[derive(Clone, Debug)]
pub(super) enum HistoryAction {
    Begin,
    Commit {
        durable: bool,
    },
    Rollback,
    Get(TableKey),
    Insert(TableKey, ValueRecipe),
    Put(TableKey, ValueRecipe),
    Update(TableKey, ValueRecipe),
    /// Changes parts of the existing value, with splices made from the seed.
    Splice(TableKey, u64),
    Remove(TableKey),
    Truncate {
        table: usize,
        from: Option<OwnedKey>,
        to: Option<OwnedKey>,
    },
    /// A cursor that is made, placed, moved by some steps and dropped.
    Walk {
        table: usize,
        start: CursorMove,
        step: CursorMove,
        steps: usize,
    },
    /// Places the session's lasting cursor; within a transaction only.
    Place {
        table: usize,
        to: CursorMove,
    },
    /// The lasting cursor takes a step, if it is on a key.
    Go(CursorMove),
    Flush,
    Checkpoint,
}

/// The inputs from which a value is generated.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueRecipe {
    tag: u64,
    size: usize,
}

impl ValueRecipe {
    pub(super) fn bytes(self) -> Vec<u8> {
        Random::new(self.tag).bytes(self.size)
    }
}

/// An act and the session that does it.
#[derive(Clone, Debug)]
pub(super) struct ModelStep {
    pub(super) session: usize,
    pub(super) act: HistoryAction,
}

/// The history of a seed over `keys` different keys in each table.
pub(super) fn make(seed: u64, keys: u64, steps: usize) -> Vec<ModelStep> {
    let mut maker = HistoryGenerator { random: Random::new(seed), keys };
    (0..steps)
        .map(|_| {
            let session = maker.random.below(SESSIONS) as usize;
            ModelStep { session, act: maker.act() }
        })
        .collect()
}

struct HistoryGenerator {
    random: Random,
    keys: u64,
}

impl HistoryGenerator {
    fn act(&mut self) -> HistoryAction {
        match self.random.below(100) {
            0..14 => HistoryAction::Begin,
            14..22 => HistoryAction::Commit { durable: self.random.once_in(20) },
            22..25 => HistoryAction::Rollback,
            25..35 => HistoryAction::Get(self.spot()),
            35..45 => HistoryAction::Insert(self.spot(), self.value()),
            45..53 => HistoryAction::Put(self.spot(), self.value()),
            53..57 => HistoryAction::Update(self.spot(), self.value()),
            57..61 => HistoryAction::Splice(self.spot(), self.random.next()),
            61..69 => HistoryAction::Remove(self.spot()),
            69..71 => self.truncate(),
            71..81 => self.walk(),
            81..88 => {
                let TableKey { table, key } = self.spot();
                HistoryAction::Place { table, to: self.start(key) }
            }
            88..98 => HistoryAction::Go(self.step()),
            98 => HistoryAction::Flush,
            _ if self.random.once_in(5) => HistoryAction::Checkpoint,
            _ => HistoryAction::Flush,
        }
    }

    fn spot(&mut self) -> TableKey {
        let table = self.random.below(2) as usize;
        TableKey { table, key: self.key(table) }
    }

    /// Numbers around zero; bytes with shared prefixes, and zero and 0xff among them.
    fn key(&mut self, table: usize) -> OwnedKey {
        let which = self.random.below(self.keys);
        if table == 0 {
            return OwnedKey::Number(which.cast_signed() - (self.keys / 2).cast_signed());
        }
        let prefix = [0x00, 0xff, 0x61].into_iter().take((which % 4) as usize);
        OwnedKey::Bytes(prefix.chain((which as u16).to_be_bytes()).collect())
    }

    fn value(&mut self) -> ValueRecipe {
        let size = match self.random.below(20) {
            0 => 0,
            1 => 3000,
            2..6 => 200,
            _ => 12,
        };
        ValueRecipe { tag: self.random.next(), size }
    }

    /// Mostly short ranges; occasionally one that is open or crossed.
    fn truncate(&mut self) -> HistoryAction {
        let TableKey { table, key } = self.spot();
        match self.random.below(8) {
            0 => HistoryAction::Truncate { table, from: None, to: Some(key) },
            1 => HistoryAction::Truncate { table, from: Some(key), to: None },
            2 => HistoryAction::Truncate { table, from: Some(key), to: Some(self.key(table)) },
            _ => HistoryAction::Truncate { table, from: Some(key.clone()), to: Some(key) },
        }
    }

    fn start(&mut self, key: OwnedKey) -> CursorMove {
        match self.random.below(6) {
            0 => CursorMove::First,
            1 => CursorMove::Last,
            2 | 3 => CursorMove::Seek(key),
            _ => CursorMove::SeekBack(key),
        }
    }

    fn step(&mut self) -> CursorMove {
        if self.random.once_in(2) { CursorMove::Next } else { CursorMove::Previous }
    }

    fn walk(&mut self) -> HistoryAction {
        let TableKey { table, key } = self.spot();
        let (start, step) = (self.start(key), self.step());
        let steps = if self.random.once_in(4) { self.keys } else { self.random.below(5) };
        HistoryAction::Walk { table, start, step, steps: steps as usize }
    }
}
