//! What the router counts of itself, for `serverStatus`, and what an operation waits for shards: the waits are kept by thread, since an
//! operation runs on one from its message to its reply.

use std::cell::Cell;
use std::time::Duration;

use fathom_service::{CommandCounters, Counter, Traffic};

use crate::request::Kind;

/// The waits of the operation that this thread runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waited {
    /// How long, in microseconds; where several shards were asked at once, until the last had answered.
    pub(crate) us: u64,
    /// The most shards that were asked at once.
    pub(crate) shards: usize,
}

thread_local! {
    static WAITED: Cell<Waited> = const { Cell::new(Waited { us: 0, shards: 0 }) };
}

/// Adds a wait for so many shards.
pub(crate) fn add_wait(took: Duration, shards: usize) {
    WAITED.with(|cell| {
        let Waited { us, shards: most } = cell.get();
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        cell.set(Waited { us: us.saturating_add(took_us), shards: most.max(shards) });
    });
}

/// What was waited since it was last taken.
pub(crate) fn take_waited() -> Waited {
    WAITED.with(Cell::take)
}

/// How long operations of a kind took here, and what of it they waited for shards.
#[derive(Debug, Default)]
pub(crate) struct Times {
    pub(crate) operations: Counter,
    pub(crate) took_us: Counter,
    pub(crate) waited_us: Counter,
    /// Those that went to one shard, and those that went to several at once.
    pub(crate) one_shard: Counter,
    pub(crate) several_shards: Counter,
}

impl Times {
    /// Counts one that ended.
    pub(crate) fn add(&self, took_us: u64, waited: Waited) {
        self.operations.add(1);
        self.took_us.add(took_us);
        self.waited_us.add(waited.us.min(took_us));
        self.one_shard.add(u64::from(waited.shards == 1));
        self.several_shards.add(u64::from(waited.shards > 1));
    }
}

/// All counters.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) traffic: Traffic,
    pub(crate) inserts: Counter,
    pub(crate) queries: Counter,
    pub(crate) updates: Counter,
    pub(crate) deletes: Counter,
    pub(crate) getmores: Counter,
    pub(crate) commands: Counter,
    pub(crate) user_asserts: Counter,
    /// Queries that went through a loop of the relay.
    pub(crate) relayed: Counter,
    reads: Times,
    writes: Times,
    admin: Times,
    pub(crate) each: CommandCounters,
}

impl Counters {
    /// Of so many commands.
    pub(crate) fn new(commands: usize) -> Counters {
        Counters {
            traffic: Traffic::default(),
            inserts: Counter::default(),
            queries: Counter::default(),
            updates: Counter::default(),
            deletes: Counter::default(),
            getmores: Counter::default(),
            commands: Counter::default(),
            user_asserts: Counter::default(),
            relayed: Counter::default(),
            reads: Times::default(),
            writes: Times::default(),
            admin: Times::default(),
            each: CommandCounters::new(commands),
        }
    }

    /// The times of a kind of commands.
    pub(crate) fn times(&self, kind: Kind) -> &Times {
        match kind {
            Kind::Read => &self.reads,
            Kind::Write => &self.writes,
            Kind::Admin => &self.admin,
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
}
