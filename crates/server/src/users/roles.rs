//! Table: the built-in roles of MongoDB 4.4, and the privileges of each. User-defined roles are refused by name.
//!
//! Sources: mongodb/mongo@020d7876:src/mongo/db/auth/builtin_roles.cpp, a state between 4.4 and 5.0, without the actions that came with 5.0, and
//! the manual's reference/built-in-roles.

use std::borrow::Cow;

use fathom_query::{Code, Failure};

use super::actions::{ActionSet, set};
use super::privilege::{Privilege, Scope};
use crate::Result;

/// A role of a user: its name and the database that it holds for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RoleName {
    pub(crate) role: String,
    pub(crate) database: String,
}

/// A row of the table.
struct BuiltInRole {
    name: &'static str,
    /// Whether every database has it, and not only `admin`.
    everywhere: bool,
    /// Roles, each of a database, whose privileges it has too.
    includes: &'static [(&'static str, &'static str)],
    privileges: &'static [(Scope, ActionSet)],
}

/// In the table, the database of the role.
const HERE: &str = "";

const fn database(name: &'static str) -> Scope {
    Scope::Database(Cow::Borrowed(name))
}

const fn collection(database: &'static str, name: &'static str) -> Scope {
    Scope::Collection(Some(Cow::Borrowed(database)), name)
}

/// A collection of each database.
const fn every(name: &'static str) -> Scope {
    Scope::Collection(None, name)
}

const READ: ActionSet =
    set![changeStream collStats dbHash dbStats find killCursors listCollections listIndexes planCacheRead];
const READ_WRITE: ActionSet = READ.with(set![
    convertToCapped createCollection createIndex dropCollection dropIndex emptycapped insert remove renameCollectionSameDB update
]);
const WRITE: ActionSet = set![insert remove update];
const DB_ADMIN: ActionSet = set![
    bypassDocumentValidation collMod collStats compact convertToCapped createCollection createIndex dbStats dropCollection
    dropDatabase dropIndex enableProfiler listCollections listIndexes planCacheIndexFilter planCacheRead planCacheWrite
    reIndex renameCollectionSameDB storageDetails validate
];
const PROFILE: ActionSet = READ.with(set![convertToCapped createCollection dropCollection]);
const USER_ADMIN: ActionSet = set![
    changeCustomData changePassword createRole createUser dropRole dropUser grantRole revokeRole setAuthenticationRestriction
    viewRole viewUser
];
const MONITOR: ActionSet = set![collStats dbStats getDatabaseVersion getShardVersion indexStats];
const SHARD: ActionSet =
    set![clearJumboFlag enableSharding moveChunk refineCollectionShardKey splitChunk splitVector];
const RESTORE: ActionSet = set![
    bypassDocumentValidation collMod convertToCapped createCollection createIndex dropCollection insert
];

/// The roles in alphabetical order.
static ROLES: &[BuiltInRole] = &[
    BuiltInRole {
        name: "__queryableBackup",
        everywhere: false,
        includes: &[],
        privileges: &[
            (Scope::Cluster, set![getParameter listDatabases useUUID]),
            (Scope::Everything, set![collStats listCollections listIndexes]),
            (Scope::UserDatabases, set![find]),
            (database("config"), set![find]),
            (database("local"), set![find]),
            (collection("local", "replset.election"), set![find]),
            (collection("local", "replset.minvalid"), set![find]),
            (every("system.js"), set![find]),
            (every("system.profile"), set![find]),
            (every("system.users"), set![find]),
            (collection("admin", "system.backup_users"), set![find]),
            (collection("admin", "system.roles"), set![find]),
            (collection("admin", "system.version"), set![find]),
            (collection("config", "settings"), set![find]),
        ],
    },
    BuiltInRole {
        name: "__system",
        everywhere: false,
        includes: &[],
        privileges: &[(Scope::Everything, ActionSet::ALL)],
    },
    BuiltInRole {
        name: "backup",
        everywhere: false,
        includes: &[("__queryableBackup", "admin")],
        privileges: &[
            (Scope::Cluster, set![appendOplogNote serverStatus]),
            (collection("config", "settings"), set![insert update]),
        ],
    },
    BuiltInRole {
        name: "clusterAdmin",
        everywhere: false,
        includes: &[("clusterManager", "admin"), ("clusterMonitor", "admin"), ("hostManager", "admin")],
        privileges: &[(Scope::UserDatabases, set![dropDatabase])],
    },
    BuiltInRole {
        name: "clusterManager",
        everywhere: false,
        includes: &[("read", "config")],
        privileges: &[
            (
                Scope::Cluster,
                set![
                    addShard appendOplogNote applicationMessage cleanupOrphaned flushRouterConfig getDefaultRWConcern
                    listSessions listShards removeShard replSetConfigure replSetGetConfig replSetGetStatus replSetStateChange
                    resync setDefaultRWConcern setFeatureCompatibilityVersion setFreeMonitoring
                ],
            ),
            (Scope::UserDatabases, SHARD),
            (database("config"), SHARD.with(WRITE)),
            (database("local"), SHARD.with(WRITE)),
            (collection("local", "system.replset"), READ),
            (collection("local", "replset.election"), WRITE),
            (collection("local", "replset.minvalid"), WRITE),
        ],
    },
    BuiltInRole {
        name: "clusterMonitor",
        everywhere: false,
        includes: &[("read", "config"), ("read", "local")],
        privileges: &[
            (
                Scope::Cluster,
                set![
                    checkFreeMonitoringStatus connPoolStats getCmdLineOpts getDefaultRWConcern getLog getParameter
                    getShardMap hostInfo inprog listDatabases listSessions listShards netstat replSetGetConfig
                    replSetGetStatus serverStatus shardingState top useUUID
                ],
            ),
            (Scope::UserDatabases, MONITOR),
            (database("config"), MONITOR),
            (database("local"), MONITOR),
            (collection("local", "system.replset"), set![find]),
            (collection("local", "replset.election"), set![find]),
            (collection("local", "replset.minvalid"), set![find]),
            (every("system.profile"), set![find]),
        ],
    },
    BuiltInRole {
        name: "dbAdmin",
        everywhere: true,
        includes: &[],
        privileges: &[(database(HERE), DB_ADMIN), (collection(HERE, "system.profile"), PROFILE)],
    },
    BuiltInRole {
        name: "dbAdminAnyDatabase",
        everywhere: false,
        includes: &[],
        privileges: &[
            (Scope::Cluster, set![listDatabases]),
            (Scope::UserDatabases, DB_ADMIN),
            (every("system.profile"), PROFILE),
        ],
    },
    BuiltInRole {
        name: "dbOwner",
        everywhere: true,
        includes: &[("readWrite", HERE), ("dbAdmin", HERE), ("userAdmin", HERE)],
        privileges: &[],
    },
    BuiltInRole {
        name: "enableSharding",
        everywhere: true,
        includes: &[],
        privileges: &[(Scope::UserDatabases, set![enableSharding refineCollectionShardKey])],
    },
    BuiltInRole {
        name: "hostManager",
        everywhere: false,
        includes: &[],
        privileges: &[
            (
                Scope::Cluster,
                set![
                    applicationMessage connPoolSync dropConnections flushRouterConfig fsync invalidateUserCache killAnyCursor
                    killAnySession killop logRotate replSetResizeOplog resync setParameter shutdown touch trafficRecord unlock
                ],
            ),
            (Scope::UserDatabases, set![killCursors]),
        ],
    },
    BuiltInRole {
        name: "read",
        everywhere: true,
        includes: &[],
        privileges: &[(database(HERE), READ), (collection(HERE, "system.js"), READ)],
    },
    BuiltInRole {
        name: "readAnyDatabase",
        everywhere: false,
        includes: &[],
        privileges: &[
            (Scope::Cluster, set![listDatabases]),
            (Scope::UserDatabases, READ),
            (every("system.js"), READ),
        ],
    },
    BuiltInRole {
        name: "readWrite",
        everywhere: true,
        includes: &[],
        privileges: &[(database(HERE), READ_WRITE), (collection(HERE, "system.js"), READ_WRITE)],
    },
    BuiltInRole {
        name: "readWriteAnyDatabase",
        everywhere: false,
        includes: &[("readAnyDatabase", "admin")],
        privileges: &[(Scope::UserDatabases, READ_WRITE), (every("system.js"), READ_WRITE)],
    },
    BuiltInRole {
        name: "restore",
        everywhere: false,
        includes: &[],
        privileges: &[
            (Scope::Cluster, set![forceUUID getParameter useUUID]),
            (Scope::Everything, set![listCollections]),
            (Scope::UserDatabases, RESTORE.with(USER_ADMIN)),
            (database("config"), RESTORE),
            (database("local"), RESTORE),
            (collection("local", "system.replset"), RESTORE),
            (collection("local", "replset.election"), RESTORE),
            (collection("local", "replset.minvalid"), RESTORE),
            (every("system.js"), RESTORE),
            (every("system.users"), RESTORE.with(set![find remove update])),
            (collection("admin", "system.backup_users"), RESTORE),
            (collection("admin", "system.roles"), set![createIndex]),
            (collection("admin", "system.version"), RESTORE.with(set![find])),
            (collection("admin", "temproles"), set![find]),
            (collection("admin", "tempusers"), set![find]),
        ],
    },
    BuiltInRole {
        name: "root",
        everywhere: false,
        includes: &[
            ("backup", "admin"),
            ("clusterAdmin", "admin"),
            ("dbAdminAnyDatabase", "admin"),
            ("readWriteAnyDatabase", "admin"),
            ("restore", "admin"),
            ("userAdminAnyDatabase", "admin"),
        ],
        privileges: &[(Scope::Everything, set![validate])],
    },
    BuiltInRole {
        name: "userAdmin",
        everywhere: true,
        includes: &[],
        privileges: &[(database(HERE), USER_ADMIN)],
    },
    BuiltInRole {
        name: "userAdminAnyDatabase",
        everywhere: false,
        includes: &[],
        privileges: &[
            (Scope::Cluster, set![authSchemaUpgrade invalidateUserCache listDatabases viewUser]),
            (Scope::UserDatabases, USER_ADMIN.with(set![listCachedAndActiveUsers])),
            (database("config"), USER_ADMIN),
            (database("local"), USER_ADMIN),
            (every("system.users"), READ),
            (collection("admin", "system.users"), READ.with(set![createIndex dropIndex])),
            (collection("admin", "system.roles"), READ.with(set![createIndex dropIndex])),
            (collection("admin", "system.backup_users"), READ),
            (collection("admin", "system.version"), READ),
        ],
    },
];

/// The row of a role, if that database has it.
fn find(role: &str, database: &str) -> Option<&'static BuiltInRole> {
    ROLES.iter().find(|one| one.name == role && (one.everywhere || database == "admin"))
}

/// The built-in roles of a database, by name.
pub(crate) fn built_in(database: &str) -> Vec<RoleName> {
    let of_database = ROLES.iter().filter(|role| role.everywhere || database == "admin");
    of_database.map(|role| RoleName { role: role.name.to_owned(), database: database.to_owned() }).collect()
}

impl BuiltInRole {
    /// Adds its privileges; those of one scope become one.
    fn add_to(&self, privileges: &mut Vec<Privilege>, database: &str) {
        for (role, of) in self.includes {
            let of = if *of == HERE { database } else { of };
            if let Some(role) = find(role, of) {
                role.add_to(privileges, of);
            }
        }
        for (scope, actions) in self.privileges {
            let scope = in_database(scope, database);
            match privileges.iter_mut().find(|one| one.scope == scope) {
                Some(one) => one.actions = one.actions | *actions,
                None => privileges.push(Privilege { scope, actions: *actions }),
            }
        }
    }
}

/// A scope of the table for a role of this database.
fn in_database(scope: &Scope, database: &str) -> Scope {
    let here = || Cow::Owned(database.to_owned());
    match scope {
        Scope::Database(name) if name == HERE => Scope::Database(here()),
        Scope::Collection(Some(of), name) if of == HERE => Scope::Collection(Some(here()), name),
        other => other.clone(),
    }
}

impl RoleName {
    /// Refuses a role that does not exist (31).
    pub(crate) fn check(self) -> Result<RoleName> {
        if self.is_built_in() {
            return Ok(self);
        }
        let what = format!("Could not find role: {}@{}", self.role, self.database);
        Err(Failure::new(Code::RoleNotFound, what))
    }

    /// Whether the role exists.
    pub(crate) fn is_built_in(&self) -> bool {
        find(&self.role, &self.database).is_some()
    }

    /// Its privileges; an empty list if the role does not exist.
    pub(crate) fn privileges(&self) -> Vec<Privilege> {
        let mut privileges = Vec::new();
        if let Some(role) = find(&self.role, &self.database) {
            role.add_to(&mut privileges, &self.database);
        }
        privileges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_is_there_once_and_gives_something() {
        assert!(ROLES.is_sorted_by(|one, other| one.name < other.name));
        for role in built_in("admin") {
            assert!(role.is_built_in() && !role.privileges().is_empty(), "{role:?}");
        }
        for (role, of) in ROLES.iter().flat_map(|role| role.includes) {
            let of = if *of == HERE { "a" } else { of };
            assert!(find(role, of).is_some(), "{role}@{of}");
        }
    }

    #[test]
    fn roles_that_do_not_exist_are_refused() {
        let role =
            |name: &str, database: &str| RoleName { role: name.to_owned(), database: database.to_owned() };
        assert_eq!(role("root", "a").check().unwrap_err().code(), Code::RoleNotFound);
        assert!(role("root", "a").privileges().is_empty());
        assert_eq!(role("mine", "admin").check().unwrap_err().message(), "Could not find role: mine@admin");
        assert_eq!(built_in("a").len(), 6);
    }
}
