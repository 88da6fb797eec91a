//! Privileges: sets of rights on databases, collections, or the server itself.

use bson::{Document, doc};

use super::rights::Rights;

/// The scope of rights. Collections named `system.*` are in none of the wide scopes but `Everything`, as in MongoDB: plain
/// readers must not see users and profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The server as a whole.
    Cluster,
    /// Everything, including system collections.
    Everything,
    /// The ordinary collections of all databases except `local` and `config`.
    UserDatabases,
    /// The ordinary collections of one database.
    Database(String),
    /// One collection by name, in one database or (if absent) in each.
    Collection(Option<String>, &'static str),
}

/// Rights in one scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Privilege {
    pub(crate) scope: Scope,
    pub(crate) rights: Rights,
}

/// The resource that a command uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrivilegeResource<'a> {
    /// The server as a whole.
    Cluster,
    /// A collection; an empty name means the database as a whole.
    Collection(&'a str, &'a str),
}

impl Privilege {
    /// Whether it grants any of `wanted` on `resource`.
    pub(crate) fn allows(&self, wanted: Rights, resource: PrivilegeResource<'_>) -> bool {
        self.rights.has_any(wanted) && self.scope.covers(resource)
    }

    /// The privilege as `showPrivileges` prints it.
    pub(crate) fn to_document(&self) -> Document {
        let resource = match &self.scope {
            Scope::Cluster => doc! { "cluster": true },
            Scope::Everything => doc! { "anyResource": true },
            Scope::UserDatabases => doc! { "db": "", "collection": "" },
            Scope::Database(database) => doc! { "db": database, "collection": "" },
            Scope::Collection(database, name) => {
                doc! { "db": database.as_deref().unwrap_or_default(), "collection": *name }
            }
        };
        doc! { "resource": resource, "actions": self.rights.actions() }
    }
}

impl Scope {
    fn covers(&self, resource: PrivilegeResource<'_>) -> bool {
        let (database, collection) = match (self, resource) {
            (Scope::Everything, _) | (Scope::Cluster, PrivilegeResource::Cluster) => return true,
            (Scope::Cluster, _) | (_, PrivilegeResource::Cluster) => return false,
            (_, PrivilegeResource::Collection(database, collection)) => (database, collection),
        };
        let ordinary = !collection.starts_with("system.");
        match self {
            Scope::UserDatabases => ordinary && !matches!(database, "local" | "config"),
            Scope::Database(name) => ordinary && name == database,
            Scope::Collection(only, name) => {
                collection == *name && only.as_ref().is_none_or(|only| only == database)
            }
            Scope::Cluster | Scope::Everything => false,
        }
    }
}

/// The privileges of a connection's users, computed after a change of users and not for each command.
#[derive(Debug, Default)]
pub(crate) struct PrivilegeSet {
    /// The generation of users for which this was computed; 0 if it must be computed.
    pub(crate) generation: u64,
    pub(crate) known: bool,
    pub(crate) privileges: Vec<Privilege>,
}

impl PrivilegeSet {
    /// Makes the next command compute it again.
    pub(crate) fn forget(&mut self) {
        self.generation = 0;
    }

    /// Whether a user has logged in.
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    /// Whether it includes any of `rights` on `resource`.
    pub(crate) fn allows(&self, rights: Rights, resource: PrivilegeResource<'_>) -> bool {
        self.privileges.iter().any(|privilege| privilege.allows(rights, resource))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_scopes_leave_system_collections_out() {
        let find = |scope| Privilege { scope, rights: Rights::FIND };
        let own = find(Scope::Database("a".to_owned()));
        assert!(own.allows(Rights::FIND, PrivilegeResource::Collection("a", "c")));
        assert!(own.allows(Rights::FIND, PrivilegeResource::Collection("a", "")));
        assert!(!own.allows(Rights::CHANGE, PrivilegeResource::Collection("a", "c")));
        assert!(!own.allows(Rights::FIND, PrivilegeResource::Collection("b", "c")));
        assert!(!own.allows(Rights::FIND, PrivilegeResource::Collection("a", "system.users")));
        let all = find(Scope::UserDatabases);
        assert!(all.allows(Rights::FIND, PrivilegeResource::Collection("b", "c")));
        assert!(!all.allows(Rights::FIND, PrivilegeResource::Collection("local", "c")));
        assert!(!all.allows(Rights::FIND, PrivilegeResource::Cluster));
        let profile = find(Scope::Collection(None, "system.profile"));
        assert!(profile.allows(Rights::FIND, PrivilegeResource::Collection("z", "system.profile")));
        assert!(
            find(Scope::Everything)
                .allows(Rights::FIND, PrivilegeResource::Collection("admin", "system.users"))
        );
    }
}
