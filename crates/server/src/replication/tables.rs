//! Which tables are journaled.
//!
//! A server alone journals all. A member of a replica set journals only what is in `local`, the oplog above all: its data come
//! back from the last checkpoint and the oplog (server.md, 5). Journaling more would write more than mongod does.

use fathom_engine::TableSpec;

/// The rule of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetTables {
    set: bool,
}

impl SetTables {
    /// The rule for a server that is a member of a set, or is not.
    pub(crate) fn new(set: bool) -> SetTables {
        SetTables { set }
    }

    /// Whether the server is a member of a set.
    pub(crate) fn is_set(self) -> bool {
        self.set
    }

    /// Whether a collection's tables are journaled. The catalog and the counts, which have no name, follow the data.
    pub(crate) fn are_journaled(self, namespace: &str) -> bool {
        !self.set || (namespace.starts_with("local.") && namespace != super::MIN_VALID)
    }

    /// `spec` for a table of that collection.
    pub(crate) fn spec(self, spec: TableSpec, namespace: &str) -> TableSpec {
        TableSpec { journaled: self.are_journaled(namespace), ..spec }
    }
}
