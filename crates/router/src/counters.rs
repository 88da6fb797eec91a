//! What the router counts of itself, for `serverStatus`.

use fathom_service::{CommandCounter, Counter, Traffic};

use crate::commands::COMMANDS;

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
    /// In the order of the table of commands.
    each: Vec<CommandCounter>,
}

impl Default for Counters {
    fn default() -> Self {
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
            each: COMMANDS.iter().map(|_| CommandCounter::default()).collect(),
        }
    }
}

impl Counters {
    /// A command's counter, by its place in the table.
    pub(crate) fn command(&self, row: usize) -> Option<&CommandCounter> {
        self.each.get(row)
    }
}
