//! The use of a collection, by kind and with latencies: `top` and `$collStats.latencyStats`.

use std::sync::atomic::{AtomicU64, Ordering};

use super::LatencyHistogram;
use crate::request::OperationClass;

/// The kinds of use that `top` distinguishes.
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
    /// The kind of use of a command.
    pub(crate) fn for_command(command: &str) -> Use {
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

/// The time and number of operations of one kind.
#[derive(Debug, Default)]
pub(crate) struct UseTally {
    micros: AtomicU64,
    count: AtomicU64,
}

impl UseTally {
    fn add(&self, micros: u64) {
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Microseconds and operations, in total.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.micros.load(Ordering::Relaxed), self.count.load(Ordering::Relaxed))
    }
}

/// The use of one collection.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    uses: [UseTally; 6],
    read_lock: UseTally,
    write_lock: UseTally,
    reads: LatencyHistogram,
    writes: LatencyHistogram,
    commands: LatencyHistogram,
}

impl Usage {
    pub(crate) fn add(&self, what: Use, kind: OperationClass, micros: u64) {
        if let Some(tally) = self.uses.get(what as usize) {
            tally.add(micros);
        }
        if kind == OperationClass::Write {
            self.write_lock.add(micros)
        } else {
            self.read_lock.add(micros)
        }
        self.latency(kind).record(micros);
    }

    /// Latencies of a kind.
    pub(crate) fn latency(&self, kind: OperationClass) -> &LatencyHistogram {
        match kind {
            OperationClass::Read => &self.reads,
            OperationClass::Write => &self.writes,
            OperationClass::Command => &self.commands,
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
