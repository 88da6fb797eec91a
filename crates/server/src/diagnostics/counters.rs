//! Counters of the whole server, for `serverStatus`.

use fathom_service::{CommandCounter, Traffic};
use fathom_wire::Code;

use super::LatencyHistogram;
use crate::command::Kind;

pub(crate) use fathom_service::Counter;

/// `opcounters`.
#[derive(Debug, Default)]
pub(crate) struct OperationCounters {
    pub(crate) inserts: Counter,
    pub(crate) queries: Counter,
    pub(crate) updates: Counter,
    pub(crate) deletes: Counter,
    pub(crate) getmores: Counter,
    pub(crate) commands: Counter,
}

impl OperationCounters {
    pub(crate) fn insert(&self, number: u64) {
        self.inserts.add(number);
    }

    pub(crate) fn query(&self, number: u64) {
        self.queries.add(number);
    }

    pub(crate) fn update(&self, number: u64) {
        self.updates.add(number);
    }

    pub(crate) fn delete(&self, number: u64) {
        self.deletes.add(number);
    }

    pub(crate) fn getmore(&self, number: u64) {
        self.getmores.add(number);
    }
}

/// `asserts`: failures by kind.
#[derive(Debug, Default)]
pub(crate) struct AssertCounters {
    regular: Counter,
    user: Counter,
}

impl AssertCounters {
    /// Counts a failure that a client sees. What should not happen at all is a regular assertion, as mongod's invariants
    /// are; everything else is a user's.
    pub(crate) fn count(&self, code: Code) {
        let unexpected = [Code::InternalError, Code::UnknownError].contains(&code);
        if unexpected { self.regular.add(1) } else { self.user.add(1) }
    }

    /// Counts failures of single writes within a command that succeeded.
    pub(crate) fn users(&self, number: usize) {
        self.user.add(number as u64);
    }

    /// Every kind under mongod's name. Warnings are zero, as they are in mongod since 4.0; there are no message assertions here,
    /// and numbers of 64 bits do not roll over.
    pub(crate) fn all(&self) -> [(&'static str, u64); 5] {
        [
            ("regular", self.regular.get()),
            ("warning", 0),
            ("msg", 0),
            ("user", self.user.get()),
            ("rollovers", 0),
        ]
    }
}

/// All counters.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) operations: OperationCounters,
    pub(crate) network: Traffic,
    /// In the order of the table of commands.
    commands: Vec<CommandCounter>,
    pub(crate) unknown_commands: Counter,
    reads: LatencyHistogram,
    writes: LatencyHistogram,
    others: LatencyHistogram,
    pub(crate) documents_inserted: Counter,
    pub(crate) documents_returned: Counter,
    pub(crate) documents_updated: Counter,
    pub(crate) documents_deleted: Counter,
    pub(crate) keys_scanned: Counter,
    pub(crate) documents_scanned: Counter,
    pub(crate) scan_and_order: Counter,
    pub(crate) write_conflicts: Counter,
    pub(crate) ttl_passes: Counter,
    pub(crate) ttl_deleted: Counter,
    pub(crate) asserts: AssertCounters,
}

impl Counters {
    /// Of so many different commands.
    pub(crate) fn new(commands: usize) -> Counters {
        Counters {
            operations: OperationCounters::default(),
            network: Traffic::default(),
            commands: (0..commands).map(|_| CommandCounter::default()).collect(),
            unknown_commands: Counter::default(),
            reads: LatencyHistogram::default(),
            writes: LatencyHistogram::default(),
            others: LatencyHistogram::default(),
            documents_inserted: Counter::default(),
            documents_returned: Counter::default(),
            documents_updated: Counter::default(),
            documents_deleted: Counter::default(),
            keys_scanned: Counter::default(),
            documents_scanned: Counter::default(),
            scan_and_order: Counter::default(),
            write_conflicts: Counter::default(),
            ttl_passes: Counter::default(),
            ttl_deleted: Counter::default(),
            asserts: AssertCounters::default(),
        }
    }
}

impl Counters {
    /// Somebody asked for a command that there is not.
    pub(crate) fn unknown_command(&self) {
        self.unknown_commands.add(1);
    }

    /// Runs and failures of a command, by its row in the table.
    pub(crate) fn command(&self, row: usize) -> Option<&CommandCounter> {
        self.commands.get(row)
    }

    /// The whole server's latencies of a kind.
    pub(crate) fn latency(&self, kind: Kind) -> &LatencyHistogram {
        match kind {
            Kind::Read => &self.reads,
            Kind::Write => &self.writes,
            Kind::Command => &self.others,
        }
    }

    /// Keys and documents that were looked at.
    pub(crate) fn scanned(&self, keys: u64, documents: u64) {
        self.keys_scanned.add(keys);
        self.documents_scanned.add(documents);
    }
}
