//! A row of the table of commands.

use fathom_wire::DocumentWriter;

use crate::Result;
use crate::operation::Operation;
use crate::request::{Kind, Request};

/// The reply being written.
pub(crate) type Reply<'a> = DocumentWriter<'a>;

/// The function of a command.
pub(crate) type Run = fn(Operation<'_>, &Request<'_>, &mut Reply<'_>) -> Result<()>;

/// A row of the table.
pub(crate) struct Command {
    /// The name in MongoDB's own spelling.
    pub(crate) name: &'static str,
    /// Other spellings.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) kind: Kind,
    /// Whether it may be run against the database `admin` only.
    pub(crate) admin_only: bool,
    /// Whether its reply is never compressed.
    pub(crate) secret: bool,
    /// One sentence for `listCommands`.
    pub(crate) help: &'static str,
    pub(crate) run: Run,
    /// Its place in the table.
    pub(super) row: usize,
}

impl Command {
    /// Its place in the table.
    pub(crate) fn row(&self) -> usize {
        self.row
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
