//! What is known of a command before it runs: its name, who may run it, which fields it takes.

use crate::auth::Access;

/// What an operation counts as in `opLatencies` and for tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Command,
}

/// What the table of commands says of one, its function apart.
pub(crate) struct Command {
    /// The name in MongoDB's own spelling.
    pub(crate) name: &'static str,
    /// Other spellings.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) kind: Kind,
    /// Whether it may be run against the database `admin` only.
    pub(crate) admin_only: bool,
    /// Who may run it.
    pub(crate) access: Access,
    /// Whether its arguments or its reply hold secrets: never logged, never compressed.
    pub(crate) secret: bool,
    /// The fields it takes beside the generic ones.
    pub(crate) fields: &'static [&'static str],
    /// Whether it takes fields that nobody can list: the conditions of `currentOp`, sections of `serverStatus`, and those of
    /// commands that are refused.
    pub(crate) any_fields: bool,
    /// One sentence for `listCommands`.
    pub(crate) help: &'static str,
    /// Its place in the table.
    pub(crate) row: usize,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Fields that every command takes.
pub(crate) static GENERIC_FIELDS: &[&str] = &[
    "lsid",
    "$clusterTime",
    "$readPreference",
    "comment",
    "apiVersion",
    "apiStrict",
    "apiDeprecationErrors",
    "$audit",
    "$client",
    "$configServerState",
    "$queryOptions",
    "allowImplicitCollectionCreation",
    "shardVersion",
    "databaseVersion",
    "stmtId",
    "stmtIds",
    "coordinator",
    "$replData",
    "$oplogQueryData",
    "maxTimeMSOpOnly",
    "rawData",
];
