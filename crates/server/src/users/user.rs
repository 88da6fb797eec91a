//! A user as a document of `admin.system.users`: MongoDB's schema 28, with credentials for each mechanism.

use bson::{Bson, Document, doc};
use fathom_query::{Code, Failure};
use fathom_wire::scram::{Credentials, Mechanism};

use super::roles::RoleName;
use crate::Result;

#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) database: String,
    pub(crate) roles: Vec<RoleName>,
    credentials: Vec<(Mechanism, Credentials)>,
    /// The document as it is stored.
    document: Document,
}

impl User {
    /// Makes a user who did not exist before.
    pub(crate) fn create(database: &str, name: &str) -> User {
        let document = doc! {
            "_id": format!("{database}.{name}"),
            "userId": bson::Uuid::new(),
            "user": name,
            "db": database,
            "credentials": {},
            "roles": [],
        };
        User {
            name: name.to_owned(),
            database: database.to_owned(),
            roles: Vec::new(),
            credentials: Vec::new(),
            document,
        }
    }

    /// Reads a stored user; a user that cannot be read cannot log in.
    pub(crate) fn read(document: Document) -> Result<User> {
        let unusable = |field: &str| {
            Failure::new(
                Code::UnsupportedFormat,
                format!("a document of admin.system.users has no usable {field}"),
            )
        };
        let name = document.get_str("user").map_err(|_| unusable("user"))?.to_owned();
        let database = document.get_str("db").map_err(|_| unusable("db"))?.to_owned();
        let mut roles = Vec::new();
        for role in document.get_array("roles").map_err(|_| unusable("roles"))? {
            let role = role.as_document().ok_or_else(|| unusable("roles"))?;
            roles.push(RoleName {
                role: role.get_str("role").map_err(|_| unusable("roles"))?.to_owned(),
                database: role.get_str("db").map_err(|_| unusable("roles"))?.to_owned(),
            });
        }
        let mut credentials = Vec::new();
        let stored = document.get_document("credentials").map_err(|_| unusable("credentials"))?;
        for mechanism in Mechanism::ALL {
            if let Ok(one) = stored.get_document(mechanism.name()) {
                credentials.push((mechanism, Credentials::from_document(mechanism, one)?));
            }
        }
        Ok(User { name, database, roles, credentials, document })
    }

    /// The user's `_id`, which is `database.user`.
    pub(crate) fn id(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }

    /// The document as it is stored.
    pub(crate) fn document(&self) -> &Document {
        &self.document
    }

    /// The credentials that a login by `mechanism` is checked against.
    pub(crate) fn credentials(&self, mechanism: Mechanism) -> Option<&Credentials> {
        self.credentials.iter().find(|(one, _)| *one == mechanism).map(|(_, credentials)| credentials)
    }

    /// The mechanisms with which it can log in, in MongoDB's order.
    pub(crate) fn mechanisms(&self) -> Vec<Mechanism> {
        [Mechanism::Sha1, Mechanism::Sha256]
            .into_iter()
            .filter(|mechanism| self.credentials(*mechanism).is_some())
            .collect()
    }

    pub(crate) fn set_credentials(&mut self, credentials: Vec<(Mechanism, Credentials)>) {
        let mut stored = Document::new();
        for mechanism in [Mechanism::Sha1, Mechanism::Sha256] {
            if let Some((_, one)) = credentials.iter().find(|(other, _)| *other == mechanism) {
                stored.insert(mechanism.name(), one.to_document());
            }
        }
        self.document.insert("credentials", stored);
        self.credentials = credentials;
    }

    /// Removes the credentials of all but these mechanisms.
    pub(crate) fn keep_mechanisms(&mut self, kept: &[Mechanism]) {
        let credentials =
            self.credentials.iter().filter(|(mechanism, _)| kept.contains(mechanism)).cloned().collect();
        self.set_credentials(credentials);
    }

    /// Replaces the roles; a repeated role is stored once.
    pub(crate) fn set_roles(&mut self, mut roles: Vec<RoleName>) {
        roles.sort();
        roles.dedup();
        self.document.insert("roles", roles_array(&roles));
        self.roles = roles;
    }

    /// Replaces the application's custom data of the user.
    pub(crate) fn set_custom_data(&mut self, data: Document) {
        self.document.insert("customData", data);
    }
}

/// Roles as `[{role, db}]`.
pub(crate) fn roles_array(roles: &[RoleName]) -> Vec<Bson> {
    roles.iter().map(|role| Bson::Document(doc! { "role": &role.role, "db": &role.database })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_comes_back_as_it_was_written() {
        let mut user = User::create("admin", "jo.e");
        let derive = |mechanism| Credentials::derive(mechanism, "jo.e", "pw", vec![1; 16], 2).unwrap();
        user.set_credentials(Mechanism::ALL.map(|one| (one, derive(one))).to_vec());
        let role = |name: &str| RoleName { role: name.to_owned(), database: "admin".to_owned() };
        user.set_roles(vec![role("root"), role("read"), role("root")]);
        user.set_custom_data(doc! { "a": 1 });
        let again = User::read(user.document().clone()).unwrap();
        assert_eq!(again.id(), "admin.jo.e");
        assert_eq!(again.roles, [role("read"), role("root")]);
        assert_eq!(again.mechanisms(), [Mechanism::Sha1, Mechanism::Sha256]);
        assert!(again.credentials(Mechanism::Sha256) == user.credentials(Mechanism::Sha256));
        user.keep_mechanisms(&[Mechanism::Sha256]);
        assert_eq!(user.mechanisms(), [Mechanism::Sha256]);
        assert_eq!(user.document().get_document("credentials").unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_user_is_refused() {
        assert!(User::read(doc! { "user": "x" }).is_err());
        let broken = doc! { "SCRAM-SHA-1": { "salt": "?" } };
        assert!(User::read(doc! { "user": "x", "db": "a", "roles": [], "credentials": broken }).is_err());
    }
}
