//! Table: the built-in roles, and the rights of each. User-defined roles are refused by name.

use fathom_query::{Code, Failure};

use super::privilege::{Privilege, Scope};
use super::rights::Rights;
use crate::Result;

/// A role of a user: its name and the database that it holds for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RoleName {
    pub(crate) role: String,
    pub(crate) database: String,
}

/// Roles that every database has.
static OF_DATABASES: &[&str] = &["dbAdmin", "dbOwner", "read", "readWrite", "userAdmin"];

/// Further roles of `admin`.
static OF_ADMIN: &[&str] = &[
    "__system",
    "backup",
    "clusterAdmin",
    "clusterManager",
    "clusterMonitor",
    "dbAdminAnyDatabase",
    "hostManager",
    "readAnyDatabase",
    "readWriteAnyDatabase",
    "restore",
    "root",
    "userAdminAnyDatabase",
];

/// The built-in roles of a database, by name.
pub(crate) fn built_in(database: &str) -> Vec<RoleName> {
    let more: &[&str] = if database == "admin" { OF_ADMIN } else { &[] };
    let mut roles: Vec<RoleName> = OF_DATABASES
        .iter()
        .chain(more)
        .map(|role| RoleName { role: (*role).to_owned(), database: database.to_owned() })
        .collect();
    roles.sort();
    roles
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
        let name = self.role.as_str();
        OF_DATABASES.contains(&name) || self.database == "admin" && OF_ADMIN.contains(&name)
    }

    /// Its privileges; an empty list if the role does not exist.
    pub(crate) fn privileges(&self) -> Vec<Privilege> {
        let database = || Scope::Database(self.database.clone());
        match self.role.as_str() {
            "read" => read(database(), Some(&self.database)),
            "readWrite" => read_write(database(), Some(&self.database)),
            "dbAdmin" => administer(database(), Some(&self.database)),
            "userAdmin" => vec![Privilege { scope: database(), rights: Rights::USERS }],
            "dbOwner" => {
                let mut all = read_write(database(), Some(&self.database));
                all.extend(administer(database(), Some(&self.database)));
                all.push(Privilege { scope: database(), rights: Rights::USERS });
                all
            }
            name if self.database == "admin" => of_admin(name),
            _ => Vec::new(),
        }
    }
}

fn cluster(rights: Rights) -> Privilege {
    Privilege { scope: Scope::Cluster, rights }
}

fn read(scope: Scope, database: Option<&str>) -> Vec<Privilege> {
    let rights = Rights::FIND | Rights::LIST | Rights::STATS;
    let scripts = Scope::Collection(database.map(str::to_owned), "system.js");
    vec![Privilege { scope, rights }, Privilege { scope: scripts, rights }]
}

fn read_write(scope: Scope, database: Option<&str>) -> Vec<Privilege> {
    let rights = Rights::FIND | Rights::LIST | Rights::STATS | Rights::CHANGE | Rights::SCHEMA;
    let scripts = Scope::Collection(database.map(str::to_owned), "system.js");
    vec![Privilege { scope, rights }, Privilege { scope: scripts, rights }]
}

fn administer(scope: Scope, database: Option<&str>) -> Vec<Privilege> {
    let rights = Rights::LIST | Rights::STATS | Rights::SCHEMA | Rights::ADMINISTER;
    let profile = Scope::Collection(database.map(str::to_owned), "system.profile");
    let of_profile = Rights::FIND | Rights::LIST | Rights::STATS | Rights::SCHEMA | Rights::ADMINISTER;
    vec![Privilege { scope, rights }, Privilege { scope: profile, rights: of_profile }]
}

fn of_admin(name: &str) -> Vec<Privilege> {
    let listed = cluster(Rights::DATABASES);
    let with = |mut all: Vec<Privilege>, more: Privilege| {
        all.push(more);
        all
    };
    match name {
        "__system" => {
            let everything = Rights::FIND | Rights::LIST | Rights::STATS | Rights::CHANGE;
            let of_server = Rights::FIGURES | Rights::MONITOR | Rights::MANAGE | Rights::SETS;
            let rights = everything | of_server | Rights::SCHEMA | Rights::ADMINISTER | Rights::USERS;
            vec![Privilege { scope: Scope::Everything, rights: rights | Rights::DATABASES }]
        }
        "readAnyDatabase" => with(read(Scope::UserDatabases, None), listed),
        "readWriteAnyDatabase" => with(read_write(Scope::UserDatabases, None), listed),
        "dbAdminAnyDatabase" => with(administer(Scope::UserDatabases, None), listed),
        "userAdminAnyDatabase" => vec![
            Privilege { scope: Scope::UserDatabases, rights: Rights::USERS },
            Privilege { scope: Scope::Database("local".to_owned()), rights: Rights::USERS },
            Privilege { scope: Scope::Database("config".to_owned()), rights: Rights::USERS },
            of_users(Rights::FIND | Rights::LIST | Rights::STATS),
            listed,
        ],
        "clusterMonitor" => cluster_monitor(),
        "clusterManager" => vec![
            cluster(Rights::SETS),
            Privilege { scope: Scope::Database("config".to_owned()), rights: readable() | Rights::CHANGE },
            Privilege { scope: Scope::Database("local".to_owned()), rights: readable() },
        ],
        "hostManager" => vec![cluster(Rights::MANAGE)],
        "clusterAdmin" => {
            let mut all = of_admin("clusterManager");
            all.extend(of_admin("clusterMonitor"));
            all.extend(of_admin("hostManager"));
            all
        }
        "backup" => vec![
            Privilege { scope: Scope::Everything, rights: readable() },
            cluster(Rights::DATABASES | Rights::FIGURES),
        ],
        "restore" => vec![
            Privilege {
                scope: Scope::Everything,
                rights: Rights::LIST | Rights::STATS | Rights::CHANGE | Rights::SCHEMA | Rights::ADMINISTER,
            },
            cluster(Rights::DATABASES | Rights::FIGURES),
        ],
        "root" => {
            let parts = [
                "readWriteAnyDatabase",
                "dbAdminAnyDatabase",
                "userAdminAnyDatabase",
                "clusterAdmin",
                "restore",
                "backup",
            ];
            parts.into_iter().flat_map(of_admin).collect()
        }
        _ => Vec::new(),
    }
}

fn readable() -> Rights {
    Rights::FIND | Rights::LIST | Rights::STATS
}

fn of_users(rights: Rights) -> Privilege {
    Privilege { scope: Scope::Collection(Some("admin".to_owned()), "system.users"), rights }
}

fn cluster_monitor() -> Vec<Privilege> {
    let profiles = Scope::Collection(None, "system.profile");
    vec![
        cluster(Rights::DATABASES | Rights::FIGURES | Rights::MONITOR),
        Privilege { scope: Scope::UserDatabases, rights: Rights::STATS },
        Privilege { scope: Scope::Database("config".to_owned()), rights: readable() },
        Privilege { scope: Scope::Database("local".to_owned()), rights: readable() },
        Privilege { scope: profiles, rights: Rights::FIND },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::privilege::PrivilegeResource;
    use super::*;

    fn may(role: &str, database: &str, right: Rights, place: PrivilegeResource<'_>) -> bool {
        let role = RoleName { role: role.to_owned(), database: database.to_owned() }.check().unwrap();
        role.privileges().iter().any(|one| one.allows(right, place))
    }

    #[test]
    fn each_role_gives_what_it_says_and_no_more() {
        let here = PrivilegeResource::Collection("a", "c");
        let users = PrivilegeResource::Collection("admin", "system.users");
        assert!(may("read", "a", Rights::FIND, here) && !may("read", "a", Rights::CHANGE, here));
        assert!(may("readWrite", "a", Rights::SCHEMA, here));
        assert!(!may("readWrite", "a", Rights::ADMINISTER, here));
        assert!(may("dbAdmin", "a", Rights::ADMINISTER, here) && !may("dbAdmin", "a", Rights::FIND, here));
        assert!(may("dbOwner", "a", Rights::USERS, here) && !may("dbOwner", "b", Rights::USERS, here));
        assert!(may("readAnyDatabase", "admin", Rights::FIND, here));
        for role in ["readAnyDatabase", "readWriteAnyDatabase", "dbAdminAnyDatabase", "clusterAdmin"] {
            assert!(!may(role, "admin", Rights::FIND, users), "{role}");
        }
        for role in ["root", "backup", "userAdminAnyDatabase", "__system"] {
            assert!(may(role, "admin", Rights::FIND, users), "{role}");
        }
        assert!(may("hostManager", "admin", Rights::MANAGE, PrivilegeResource::Cluster));
        assert!(!may("clusterMonitor", "admin", Rights::MANAGE, PrivilegeResource::Cluster));
        assert!(may("clusterMonitor", "admin", Rights::STATS, here));
        for role in built_in("admin") {
            assert!(!role.privileges().is_empty(), "{role:?}");
        }
    }

    #[test]
    fn roles_that_do_not_exist_are_refused() {
        let role =
            |name: &str, database: &str| RoleName { role: name.to_owned(), database: database.to_owned() };
        assert_eq!(role("root", "a").check().unwrap_err().code(), Code::RoleNotFound);
        assert!(role("root", "a").privileges().is_empty());
        assert_eq!(role("mine", "admin").check().unwrap_err().message(), "Could not find role: mine@admin");
        assert_eq!(built_in("a").len(), 5);
    }
}
