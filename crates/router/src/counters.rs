//! What the router counts of itself, for `serverStatus`.

use fathom_service::{CommandCounter, Counter, Traffic};

use crate::request::Kind;
use crate::waits::Waited;

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
    pub(crate) unknown_commands: Counter,
    pub(crate) user_asserts: Counter,
    /// Queries that went through a loop of the relay.
    pub(crate) relayed: Counter,
    reads: Times,
    writes: Times,
    admin: Times,
    /// In the order of the table of commands.
    each: Vec<CommandCounter>,
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
            unknown_commands: Counter::default(),
            user_asserts: Counter::default(),
            relayed: Counter::default(),
            reads: Times::default(),
            writes: Times::default(),
            admin: Times::default(),
            each: (0..commands).map(|_| CommandCounter::default()).collect(),
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

    /// A command's counter, by its place in the table.
    pub(crate) fn command(&self, row: usize) -> Option<&CommandCounter> {
        self.each.get(row)
    }
}
