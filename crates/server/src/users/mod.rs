//! All users: stored in `admin.system.users`, cached in memory, changed one at a time.
//!
//! A change is in the journal before it is confirmed or cached: a dropped user does not return after a crash, and a
//! created one exists.
//!
//! Members of a set log in as `__system@local`, with the secret of their common key file.

mod actions;
mod privilege;
mod roles;
mod user;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bson::doc;
use fathom_engine::Engine;
use fathom_errors::{Error, Kind};
use fathom_query::Failure;
use fathom_wire::scram::{Credentials, Mechanism};
use parking_lot::{Mutex, MutexGuard, RwLock};
use sha2::{Digest, Sha256};

use crate::Result;
use crate::config::Config;
use crate::log::Log;
use crate::parameters::Parameters;
use crate::storage::{Catalog, document_of};

pub(crate) use actions::{Action, ActionSet, set};
pub(crate) use privilege::{PrivilegeResource, PrivilegeSet};
pub(crate) use roles::{RoleName, built_in};
pub(crate) use user::{User, roles_array};

/// The collection that stores users.
pub(crate) const USERS: &str = "admin.system.users";
/// The collection that records the schema version of users, for tools that copy users.
pub(crate) const VERSION: &str = "admin.system.version";
/// MongoDB's number of that schema.
pub(crate) const SCHEMA_VERSION: i32 = 5;

/// The users of the server.
#[derive(Debug)]
pub(crate) struct Users {
    enabled: bool,
    /// Generates the salts for unknown users.
    secret: [u8; 32],
    /// `__system@local`, whose password is the key file's content.
    member: Option<Arc<User>>,
    /// The key, with which this member logs in to others.
    key: Option<String>,
    pub(crate) all: RwLock<BTreeMap<String, Arc<User>>>,
    changes: Mutex<()>,
    /// Grows with each change, so that connections can refresh the data cached on their users.
    pub(crate) generation: AtomicU64,
}

impl Users {
    /// The user and password with which this member logs in to others of its set.
    pub(crate) fn member_login(&self) -> Option<(String, String)> {
        self.key.clone().map(|key| (MEMBER.to_owned(), key))
    }

    /// Loads the users stored in the catalog.
    pub(crate) fn open(
        config: &Config,
        engine: &Arc<dyn Engine>,
        catalog: &Catalog,
        log: &Log,
    ) -> Result<Users, Error> {
        let mut secret = [0; 32];
        crate::random::fill(&mut secret);
        let key = config.key_file.as_deref().map(read_key_file).transpose()?;
        let users = Users {
            enabled: config.auth || config.key_file.is_some(),
            secret,
            member: key.as_deref().map(member).transpose()?.map(Arc::new),
            key,
            all: RwLock::default(),
            changes: Mutex::new(()),
            generation: AtomicU64::new(1),
        };
        let failed = |failure: Failure| {
            Error::new(
                fathom_errors::Kind::Corruption,
                format!("the users cannot be loaded: {}", failure.message()),
            )
        };
        users.load(engine, catalog, log).map_err(failed)?;
        Ok(users)
    }

    /// Reads all users again, for example after their collection was dropped.
    pub(crate) fn load(&self, engine: &Arc<dyn Engine>, catalog: &Catalog, log: &Log) -> Result<()> {
        let mut all = BTreeMap::new();
        let collection = catalog.get(USERS);
        if let Some(table) = collection.as_ref().and_then(|collection| collection.table()) {
            let session = engine.session()?;
            let mut cursor = session.cursor(table)?;
            let mut more = cursor.first()?;
            while more {
                match document_of(cursor.value()).and_then(crate::parse::owned).and_then(User::read) {
                    Ok(user) => drop(all.insert(user.id(), Arc::new(user))),
                    Err(failure) => log.warning(
                        "ACCESS",
                        20247,
                        "initandlisten",
                        "a user cannot be read, and cannot log in",
                        doc! { "error": failure.message() },
                    ),
                }
                more = cursor.next()?;
            }
        }
        *self.all.write() = all;
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Whether clients must authenticate.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// A number that changes with each change of a user.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether no user exists yet who could log in.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.read().is_empty()
    }

    pub(crate) fn get(&self, database: &str, name: &str) -> Option<Arc<User>> {
        if database == "local"
            && let Some(member) = self.member.as_ref().filter(|member| member.name == name)
        {
            return Some(Arc::clone(member));
        }
        self.all.read().get(&format!("{database}.{name}")).cloned()
    }

    /// All users, by id.
    pub(crate) fn all(&self) -> Vec<Arc<User>> {
        self.all.read().values().cloned().collect()
    }

    /// Held during a change, from reading to writing.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.changes.lock()
    }

    /// Derives credentials for a new password; `digested` is one that the client digested already, for SCRAM-SHA-1.
    pub(crate) fn derive(
        &self,
        parameters: &Parameters,
        mechanism: Mechanism,
        name: &str,
        password: &str,
        digested: bool,
    ) -> Result<Credentials> {
        let mut salt = vec![0; mechanism.salt_bytes()];
        crate::random::fill(&mut salt);
        let rounds = rounds(parameters, mechanism);
        if digested {
            return Credentials::derive_digested(password, salt, rounds);
        }
        Credentials::derive(mechanism, name, password, salt, rounds)
    }

    /// Credentials that match no password: the same name always gets the same salt, so that a stranger does not learn
    /// which users exist.
    pub(crate) fn pretend(
        &self,
        parameters: &Parameters,
        mechanism: Mechanism,
        database: &str,
        name: &str,
    ) -> Credentials {
        let mut hash = Sha256::new();
        hash.update(self.secret);
        hash.update(mechanism.name());
        hash.update(database);
        hash.update([0]);
        hash.update(name);
        let mut salt = hash.finalize().to_vec();
        salt.truncate(mechanism.salt_bytes());
        let mut stored_key = vec![0; mechanism.hash_bytes()];
        crate::random::fill(&mut stored_key);
        let server_key = stored_key.clone();
        Credentials { iterations: rounds(parameters, mechanism), salt, stored_key, server_key }
    }
}

/// The iterations of new credentials, as `scramIterationCount` and `scramSHA256IterationCount` currently set them.
fn rounds(parameters: &Parameters, mechanism: Mechanism) -> u32 {
    let rounds = match mechanism {
        Mechanism::Sha1 => parameters.scram_iterations(),
        Mechanism::Sha256 => parameters.scram_sha256_iterations(),
    };
    u32::try_from(rounds).unwrap_or(u32::MAX).max(1)
}

/// The user whose password is the key.
pub(crate) const MEMBER: &str = "__system";
/// The allowed length of a key, in characters without white space.
const LENGTH: std::ops::RangeInclusive<usize> = 6..=1024;

/// The user whose password is the key file's content. As in mongod, a file that others may read, a key that is too short or too
/// long, and characters that are not base64 are refused.
pub(crate) fn member(key: &str) -> Result<User, Error> {
    let mut user = User::create("local", MEMBER);
    let mut credentials = Vec::new();
    for mechanism in Mechanism::ALL {
        let mut salt = vec![0; mechanism.salt_bytes()];
        crate::random::fill(&mut salt);
        let derived = Credentials::derive(mechanism, MEMBER, key, salt, mechanism.default_iterations());
        let unusable =
            |failure: fathom_wire::Failure| Error::new(Kind::Malformed, failure.message().to_owned());
        credentials.push((mechanism, derived.map_err(unusable)?));
    }
    user.set_credentials(credentials);
    user.set_roles(vec![RoleName { role: MEMBER.to_owned(), database: "admin".to_owned() }]);
    Ok(user)
}

pub(crate) fn read_key_file(path: &Path) -> Result<String, Error> {
    let name = path.display();
    let metadata = std::fs::metadata(path).map_err(|cause| Error::io("read the key file", path, cause))?;
    if metadata.mode() & 0o077 != 0 {
        return Err(Error::new(Kind::Permission, format!("permissions on {name} are too open"))
            .advise(format!("run: chmod 600 {name}")));
    }
    let text = std::fs::read_to_string(path).map_err(|cause| Error::io("read the key file", path, cause))?;
    let key: String = text.chars().filter(|one| !one.is_whitespace()).collect();
    let foreign = |one: &char| !(one.is_ascii_alphanumeric() || matches!(one, '+' | '/' | '='));
    if let Some(one) = key.chars().find(foreign) {
        return Err(Error::new(Kind::Malformed, format!("invalid char in key file {name}: {one:?}"))
            .advise("make one with: openssl rand -base64 756"));
    }
    if !LENGTH.contains(&key.len()) {
        let what = format!(
            "security key in {name} has length {}, must be between {} and {} chars",
            key.len(),
            LENGTH.start(),
            LENGTH.end()
        );
        return Err(Error::new(Kind::Malformed, what).advise("make one with: openssl rand -base64 756"));
    }
    Ok(key)
}
