//! Who used a collection for what, and how long it took: `top` and `$collStats.latencyStats`.

use std::sync::atomic::{AtomicU64, Ordering};

use super::LatencyHistogram;
use crate::request::Kind;

/// The kinds of use that `top` tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Queries,
    Getmore,
    Insert,
    Update,
    Remove,
    Commands,
}

impl Use {
    /// The kind of use that a command is.
    pub(crate) fn of(command: &str) -> Use {
        match command {
            "find" => Use::Queries,
            "getMore" => Use::Getmore,
            "insert" => Use::Insert,
            "update" => Use::Update,
            "delete" => Use::Remove,
            _ => Use::Commands,
        }
    }

    /// Its name as the `op` of `currentOp` and `system.profile`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Use::Queries => "query",
            Use::Getmore => "getmore",
            Use::Insert => "insert",
            Use::Update => "update",
            Use::Remove => "remove",
            Use::Commands => "command",
        }
    }
}

/// Time and number of one kind of use.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    micros: AtomicU64,
    count: AtomicU64,
}

impl Tally {
    fn add(&self, micros: u64) {
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Microseconds, and operations.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.micros.load(Ordering::Relaxed), self.count.load(Ordering::Relaxed))
    }
}

/// The use of one collection.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    uses: [Tally; 6],
    read_lock: Tally,
    write_lock: Tally,
    reads: LatencyHistogram,
    writes: LatencyHistogram,
    commands: LatencyHistogram,
}

impl Usage {
    /// Counts one operation.
    pub(crate) fn add(&self, what: Use, kind: Kind, micros: u64) {
        if let Some(tally) = self.uses.get(what as usize) {
            tally.add(micros);
        }
        if kind == Kind::Write {
            self.write_lock.add(micros)
        } else {
            self.read_lock.add(micros)
        }
        self.latency(kind).record(micros);
    }

    /// Latencies of a kind.
    pub(crate) fn latency(&self, kind: Kind) -> &LatencyHistogram {
        match kind {
            Kind::Read => &self.reads,
            Kind::Write => &self.writes,
            Kind::Command => &self.commands,
        }
    }

    /// Every tally under `top`'s name, as (name, microseconds, operations).
    pub(crate) fn tallies(&self) -> Vec<(&'static str, u64, u64)> {
        let names = ["queries", "getmore", "insert", "update", "remove", "commands"];
        let (read, write) = (self.read_lock.totals(), self.write_lock.totals());
        let mut all = vec![
            ("total", read.0 + write.0, read.1 + write.1),
            ("readLock", read.0, read.1),
            ("writeLock", write.0, write.1),
        ];
        all.extend(
            names.iter().zip(&self.uses).map(|(name, tally)| (*name, tally.totals().0, tally.totals().1)),
        );
        all
    }
}
