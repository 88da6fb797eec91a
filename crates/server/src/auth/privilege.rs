//! What somebody may do where: a set of rights over some databases, collections, or the server itself.

use bson::{Document, doc};

use super::rights::Rights;

/// Where rights hold. Collections named `system.*` are in none of the wide places but `Everything`, as in MongoDB: users and
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

/// Rights in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Privilege {
    pub(crate) scope: Scope,
    pub(crate) rights: Rights,
}

/// What a command wants to touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// The server as a whole.
    Cluster,
    /// A collection; with an empty name the database as a whole.
    Collection(&'a str, &'a str),
}

impl Privilege {
    /// Whether it allows any of `wanted` at `place`.
    pub(crate) fn allows(&self, wanted: Rights, place: Place<'_>) -> bool {
        self.rights.has_any(wanted) && self.scope.covers(place)
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
    fn covers(&self, place: Place<'_>) -> bool {
        let (database, collection) = match (self, place) {
            (Scope::Everything, _) | (Scope::Cluster, Place::Cluster) => return true,
            (Scope::Cluster, _) | (_, Place::Cluster) => return false,
            (_, Place::Collection(database, collection)) => (database, collection),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_places_leave_system_collections_out() {
        let find = |scope| Privilege { scope, rights: Rights::FIND };
        let own = find(Scope::Database("a".to_owned()));
        assert!(own.allows(Rights::FIND, Place::Collection("a", "c")));
        assert!(own.allows(Rights::FIND, Place::Collection("a", "")));
        assert!(!own.allows(Rights::CHANGE, Place::Collection("a", "c")));
        assert!(!own.allows(Rights::FIND, Place::Collection("b", "c")));
        assert!(!own.allows(Rights::FIND, Place::Collection("a", "system.users")));
        let all = find(Scope::UserDatabases);
        assert!(all.allows(Rights::FIND, Place::Collection("b", "c")));
        assert!(!all.allows(Rights::FIND, Place::Collection("local", "c")));
        assert!(!all.allows(Rights::FIND, Place::Cluster));
        let profile = find(Scope::Collection(None, "system.profile"));
        assert!(profile.allows(Rights::FIND, Place::Collection("z", "system.profile")));
        assert!(find(Scope::Everything).allows(Rights::FIND, Place::Collection("admin", "system.users")));
    }
}
