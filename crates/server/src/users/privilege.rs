//! Privileges: sets of actions on databases, collections, or the server itself.

use std::borrow::Cow;

use bson::{Document, doc};

use super::actions::ActionSet;

/// The scope of a privilege. System collections (`system.*`, and `replset.*` of `local`) are in none of the wide scopes but
/// `Everything`, as in MongoDB: plain readers must not see users and profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The server as a whole.
    Cluster,
    /// Everything, including system collections.
    Everything,
    /// The ordinary collections of all databases except `local` and `config`.
    UserDatabases,
    /// The ordinary collections of one database.
    Database(Cow<'static, str>),
    /// One collection by name, in one database or (if absent) in each.
    Collection(Option<Cow<'static, str>>, &'static str),
}

/// Actions in one scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Privilege {
    pub(crate) scope: Scope,
    pub(crate) actions: ActionSet,
}

/// The resource that a command uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrivilegeResource<'a> {
    /// The server as a whole.
    Cluster,
    /// A collection; an empty name means the database as a whole, and two empty names all databases but `local` and `config`.
    Collection(&'a str, &'a str),
}

impl Privilege {
    /// The privilege as `showPrivileges` prints it.
    pub(crate) fn to_document(&self) -> Document {
        let resource = match &self.scope {
            Scope::Cluster => doc! { "cluster": true },
            Scope::Everything => doc! { "anyResource": true },
            Scope::UserDatabases => doc! { "db": "", "collection": "" },
            Scope::Database(database) => doc! { "db": &**database, "collection": "" },
            Scope::Collection(database, name) => {
                doc! { "db": database.as_deref().unwrap_or_default(), "collection": *name }
            }
        };
        doc! { "resource": resource, "actions": self.actions.names() }
    }
}

impl Scope {
    fn covers(&self, resource: PrivilegeResource<'_>) -> bool {
        let (database, collection) = match (self, resource) {
            (Scope::Everything, _) | (Scope::Cluster, PrivilegeResource::Cluster) => return true,
            (Scope::Cluster, _) | (_, PrivilegeResource::Cluster) => return false,
            (_, PrivilegeResource::Collection(database, collection)) => (database, collection),
        };
        let of_system =
            collection.starts_with("system.") || database == "local" && collection.starts_with("replset.");
        match self {
            Scope::UserDatabases => !of_system && !matches!(database, "local" | "config"),
            Scope::Database(name) => !of_system && name == database,
            Scope::Collection(only, name) => {
                collection == *name && only.as_ref().is_none_or(|only| only == database)
            }
            Scope::Cluster | Scope::Everything => false,
        }
    }

    /// Whether it covers anything of a database.
    fn touches(&self, database: &str) -> bool {
        match self {
            Scope::Collection(only, _) => only.as_ref().is_none_or(|only| only == database),
            other => other.covers(PrivilegeResource::Collection(database, "")),
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

    /// Whether it includes all of `actions` on `resource`.
    pub(crate) fn allows(&self, actions: ActionSet, resource: PrivilegeResource<'_>) -> bool {
        let mut wanted = actions;
        for privilege in &self.privileges {
            if wanted.is_empty() {
                break;
            }
            if privilege.scope.covers(resource) {
                wanted = wanted.without(privilege.actions);
            }
        }
        wanted.is_empty()
    }

    /// Whether it includes any action on anything of a database.
    pub(crate) fn touches(&self, database: &str) -> bool {
        self.privileges.iter().any(|privilege| privilege.scope.touches(database))
    }
}

#[cfg(test)]
mod tests {
    use super::super::actions::set;
    use super::*;

    fn of(privileges: Vec<(Scope, ActionSet)>) -> PrivilegeSet {
        let privileges =
            privileges.into_iter().map(|(scope, actions)| Privilege { scope, actions }).collect();
        PrivilegeSet { generation: 1, known: true, privileges }
    }

    #[test]
    fn wide_scopes_leave_system_collections_out() {
        let finds = |scope: Scope, database: &str, collection: &str| {
            of(vec![(scope, set![find])])
                .allows(set![find], PrivilegeResource::Collection(database, collection))
        };
        let own = || Scope::Database("a".into());
        assert!(finds(own(), "a", "c") && finds(own(), "a", ""));
        assert!(!finds(own(), "b", "c") && !finds(own(), "a", "system.users"));
        assert!(finds(Scope::UserDatabases, "b", "c") && finds(Scope::UserDatabases, "", ""));
        assert!(!finds(Scope::UserDatabases, "local", "c"));
        let local = || Scope::Database("local".into());
        assert!(finds(local(), "local", "oplog.rs") && !finds(local(), "local", "replset.minvalid"));
        assert!(finds(Scope::Database("a".into()), "a", "replset.x"));
        assert!(finds(Scope::Collection(None, "system.profile"), "z", "system.profile"));
        assert!(finds(Scope::Everything, "admin", "system.users"));
        assert!(!of(vec![(own(), set![find])]).allows(set![find], PrivilegeResource::Cluster));
    }

    #[test]
    fn actions_of_several_privileges_add_up() {
        let both = of(vec![
            (Scope::UserDatabases, set![find]),
            (Scope::Database("a".into()), set![insert]),
            (Scope::Collection(Some("local".into()), "system.replset"), set![find]),
        ]);
        assert!(both.allows(set![find insert], PrivilegeResource::Collection("a", "c")));
        assert!(!both.allows(set![find insert], PrivilegeResource::Collection("b", "c")));
        assert!(both.touches("b") && both.touches("local") && !both.touches("config"));
    }
}
