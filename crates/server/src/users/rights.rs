//! Table: rights, each a group of MongoDB's actions, which roles grant and commands require.
//!
//! MongoDB has about a hundred actions; those that no built-in role and no command of this server distinguishes form one right.

use std::ops::BitOr;

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights(u16);

impl Rights {
    /// The right to read documents.
    pub(crate) const FIND: Rights = Rights(1);
    /// The right to list collections and indexes.
    pub(crate) const LIST: Rights = Rights(1 << 1);
    /// The right to see sizes and counts.
    pub(crate) const STATS: Rights = Rights(1 << 2);
    /// The right to write documents.
    pub(crate) const CHANGE: Rights = Rights(1 << 3);
    /// The right to create and drop collections and indexes.
    pub(crate) const SCHEMA: Rights = Rights(1 << 4);
    /// The right to change how a database works.
    pub(crate) const ADMINISTER: Rights = Rights(1 << 5);
    /// The right to manage users and their roles.
    pub(crate) const USERS: Rights = Rights(1 << 6);
    /// The right to list all databases (cluster).
    pub(crate) const DATABASES: Rights = Rights(1 << 7);
    /// The right to read parameters and counters (cluster).
    pub(crate) const FIGURES: Rights = Rights(1 << 8);
    /// The right to see all users' operations (cluster).
    pub(crate) const MONITOR: Rights = Rights(1 << 9);
    /// The right to change how the server runs (cluster).
    pub(crate) const MANAGE: Rights = Rights(1 << 10);
    /// The right to manage replica sets and shards (cluster).
    pub(crate) const SETS: Rights = Rights(1 << 11);

    /// Whether it has at least one of `wanted`.
    pub(crate) fn has_any(self, wanted: Rights) -> bool {
        self.0 & wanted.0 != 0
    }

    /// MongoDB's names of the actions, for `showPrivileges`.
    pub(crate) fn actions(self) -> Vec<&'static str> {
        let mut actions: Vec<&'static str> = ACTIONS
            .iter()
            .filter(|(right, _)| self.has_any(*right))
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        actions.sort_unstable();
        actions
    }
}

impl BitOr for Rights {
    type Output = Rights;

    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

static ACTIONS: &[(Rights, &[&str])] = &[
    (Rights::FIND, &["find", "changeStream", "killCursors", "dbHash"]),
    (Rights::LIST, &["listCollections", "listIndexes"]),
    (Rights::STATS, &["collStats", "dbStats", "indexStats"]),
    (Rights::CHANGE, &["insert", "update", "remove"]),
    (
        Rights::SCHEMA,
        &[
            "createCollection",
            "createIndex",
            "dropCollection",
            "dropIndex",
            "convertToCapped",
            "renameCollectionSameDB",
        ],
    ),
    (
        Rights::ADMINISTER,
        &[
            "bypassDocumentValidation",
            "collMod",
            "compact",
            "dropDatabase",
            "enableProfiler",
            "planCacheRead",
            "planCacheWrite",
            "reIndex",
            "validate",
        ],
    ),
    (
        Rights::USERS,
        &[
            "changeCustomData",
            "changePassword",
            "createUser",
            "dropUser",
            "grantRole",
            "revokeRole",
            "viewRole",
            "viewUser",
        ],
    ),
    (Rights::DATABASES, &["listDatabases"]),
    (Rights::FIGURES, &["getParameter", "serverStatus"]),
    (
        Rights::MONITOR,
        &["connPoolStats", "getCmdLineOpts", "getLog", "hostInfo", "inprog", "listSessions", "top"],
    ),
    (
        Rights::MANAGE,
        &[
            "fsync",
            "killAnyCursor",
            "killAnySession",
            "killop",
            "logRotate",
            "setParameter",
            "shutdown",
            "unlock",
        ],
    ),
    (Rights::SETS, &["appendOplogNote", "replSetConfigure", "replSetGetConfig", "replSetGetStatus"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_named_by_mongodbs_actions() {
        let both = Rights::LIST | Rights::DATABASES;
        assert_eq!(both.actions(), ["listCollections", "listDatabases", "listIndexes"]);
        assert!(both.has_any(Rights::LIST | Rights::FIND));
        assert!(!both.has_any(Rights::FIND));
        assert!(Rights::default().actions().is_empty());
    }
}
