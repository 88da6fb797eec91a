//! What somebody may do where: a set of rights over some databases, collections, or the server itself.

use bson::{Document, doc};

use super::rights::Rights;

/// Where rights hold. Collections named `system.*` are in none of the wide scopes but `Everything`, as in MongoDB: users and
/// profiles are not for plain readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The server as a whole.
    Cluster,
    /// All there is, also system collections.
    Everything,
    /// The ordinary collections of all databases but `local` and `config`.
    UserDatabases,
    /// The ordinary collections of one database.
    Database(String),
    /// One collection by name, in one database or (with none) in each.
    Collection(Option<String>, &'static str),
}

/// Rights in one scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Privilege {
    pub(crate) scope: Scope,
    pub(crate) rights: Rights,
}

/// What a command wants to touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    /// The server as a whole.
    Cluster,
    /// A collection; with an empty name the database as a whole.
    Collection(&'a str, &'a str),
}

impl Privilege {
    /// Whether it allows any of `wanted` on `resource`.
    pub(crate) fn allows(&self, wanted: Rights, resource: Resource<'_>) -> bool {
        self.rights.has_any(wanted) && self.scope.covers(resource)
    }

    /// As `showPrivileges` prints it.
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
    fn covers(&self, resource: Resource<'_>) -> bool {
        let (database, collection) = match (self, resource) {
            (Scope::Everything, _) | (Scope::Cluster, Resource::Cluster) => return true,
            (Scope::Cluster, _) | (_, Resource::Cluster) => return false,
            (_, Resource::Collection(database, collection)) => (database, collection),
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

/// What a connection may do: the privileges of its users, worked out when a user changes and not for each command.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    /// Of the users that this was worked out from; 0 when it has to be done.
    pub(crate) generation: u64,
    pub(crate) known: bool,
    pub(crate) privileges: Vec<Privilege>,
}

impl Granted {
    /// Has it worked out anew before the next command.
    pub(crate) fn forget(&mut self) {
        self.generation = 0;
    }

    /// Whether anybody has logged in.
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    /// Whether it includes any of `rights` on `resource`.
    pub(crate) fn allows(&self, rights: Rights, resource: Resource<'_>) -> bool {
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
        assert!(own.allows(Rights::FIND, Resource::Collection("a", "c")));
        assert!(own.allows(Rights::FIND, Resource::Collection("a", "")));
        assert!(!own.allows(Rights::CHANGE, Resource::Collection("a", "c")));
        assert!(!own.allows(Rights::FIND, Resource::Collection("b", "c")));
        assert!(!own.allows(Rights::FIND, Resource::Collection("a", "system.users")));
        let all = find(Scope::UserDatabases);
        assert!(all.allows(Rights::FIND, Resource::Collection("b", "c")));
        assert!(!all.allows(Rights::FIND, Resource::Collection("local", "c")));
        assert!(!all.allows(Rights::FIND, Resource::Cluster));
        let profile = find(Scope::Collection(None, "system.profile"));
        assert!(profile.allows(Rights::FIND, Resource::Collection("z", "system.profile")));
        assert!(find(Scope::Everything).allows(Rights::FIND, Resource::Collection("admin", "system.users")));
    }
}
