//! The router's counters for `serverStatus`, and the time that an operation waits for shards. The waits are kept per thread, since
//! an operation stays on one thread from its message to its reply.

use std::cell::Cell;
use std::time::Duration;

use fathom_service::{CommandCounters, Counter, NetworkCounters};

use crate::request::SendKind;

/// The waits of the operation that this thread runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OperationWaits {
    /// The time waited, in microseconds; if several shards were asked at once, until the last had answered.
    pub(crate) us: u64,
    /// The time, in microseconds, in which a shard waited for new documents. It is in no figure, as in mongod.
    pub(crate) data_us: u64,
    /// The largest number of shards asked at once.
    pub(crate) shards: usize,
}

thread_local! {
    static WAITED: Cell<OperationWaits> = const { Cell::new(OperationWaits { us: 0, data_us: 0, shards: 0 }) };
}

/// Adds a wait for this number of shards.
pub(crate) fn add_wait(took: Duration, shards: usize) {
    WAITED.with(|cell| {
        let waits = cell.get();
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let us = waits.us.saturating_add(took_us);
        cell.set(OperationWaits { us, shards: waits.shards.max(shards), ..waits });
    });
}

/// Turns the waits of the operation so far into a wait for new documents. A shard does not say which part of its answer's time it
/// waited, so the time of the whole answer counts as such.
pub(crate) fn count_as_wait_for_data() {
    WAITED.with(|cell| {
        let waits = cell.get();
        cell.set(OperationWaits { us: 0, data_us: waits.data_us.saturating_add(waits.us), ..waits });
    });
}

/// The waits since the last call.
pub(crate) fn take_waited() -> OperationWaits {
    WAITED.with(Cell::take)
}

/// The time that operations of a kind took here, and the part of it that they waited for shards.
#[derive(Debug, Default)]
pub(crate) struct OperationTotals {
    pub(crate) operations: Counter,
    pub(crate) took_us: Counter,
    pub(crate) waited_us: Counter,
    /// Operations that asked one shard, and those that asked several at once.
    pub(crate) one_shard: Counter,
    pub(crate) several_shards: Counter,
}

impl OperationTotals {
    /// Counts an operation that ended.
    pub(crate) fn add(&self, took_us: u64, waited: OperationWaits) {
        let took_us = took_us.saturating_sub(waited.data_us);
        self.operations.add(1);
        self.took_us.add(took_us);
        self.waited_us.add(waited.us.min(took_us));
        self.one_shard.add(u64::from(waited.shards == 1));
        self.several_shards.add(u64::from(waited.shards > 1));
    }
}

#[derive(Debug)]
pub(crate) struct RouterCounters {
    pub(crate) traffic: NetworkCounters,
    pub(crate) inserts: Counter,
    pub(crate) queries: Counter,
    pub(crate) updates: Counter,
    pub(crate) deletes: Counter,
    pub(crate) getmores: Counter,
    pub(crate) commands: Counter,
    pub(crate) user_asserts: Counter,
    /// Queries that went through a loop of the relay.
    pub(crate) relayed: Counter,
    reads: OperationTotals,
    writes: OperationTotals,
    admin: OperationTotals,
    pub(crate) each: CommandCounters,
}

impl RouterCounters {
    /// Counters for this number of commands.
    pub(crate) fn new(commands: usize) -> RouterCounters {
        RouterCounters {
            traffic: NetworkCounters::default(),
            inserts: Counter::default(),
            queries: Counter::default(),
            updates: Counter::default(),
            deletes: Counter::default(),
            getmores: Counter::default(),
            commands: Counter::default(),
            user_asserts: Counter::default(),
            relayed: Counter::default(),
            reads: OperationTotals::default(),
            writes: OperationTotals::default(),
            admin: OperationTotals::default(),
            each: CommandCounters::new(commands),
        }
    }

    /// The times of a kind of commands.
    pub(crate) fn times(&self, kind: SendKind) -> &OperationTotals {
        match kind {
            SendKind::Read => &self.reads,
            SendKind::Write => &self.writes,
            SendKind::Admin => &self.admin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_add_up_until_they_are_taken() {
        add_wait(Duration::from_micros(3), 1);
        add_wait(Duration::from_micros(4), 2);
        add_wait(Duration::from_micros(5), 1);
        let waited = take_waited();
        assert_eq!((waited.us, waited.shards), (12, 2));
        assert_eq!(take_waited().us, 0);
    }

    #[test]
    fn a_wait_for_new_documents_is_in_no_latency() {
        let totals = OperationTotals::default();
        add_wait(Duration::from_secs(1), 1);
        count_as_wait_for_data();
        add_wait(Duration::from_micros(5), 1);
        totals.add(1_000_040, take_waited());
        let read = |counter: &Counter| counter.get();
        assert_eq!((read(&totals.took_us), read(&totals.waited_us), read(&totals.one_shard)), (40, 5, 1));
        // Clocks that are read at different moments never make a time of less than nothing.
        totals.add(3, OperationWaits { us: 0, data_us: 4, shards: 1 });
        assert_eq!((read(&totals.took_us), read(&totals.operations)), (40, 2));
    }
}
