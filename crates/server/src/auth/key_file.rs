//! The key file: the secret that members of a set share, with which they log in as `__system@local`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fathom_errors::{Error, Kind};
use fathom_wire::scram::{Credentials, Mechanism};

use super::roles::Role;
use super::user::User;

/// The user who knows the key.
pub(super) const MEMBER: &str = "__system";
/// How long a key may be, in characters, white space left out.
const LENGTH: std::ops::RangeInclusive<usize> = 6..=1024;

/// The user that the key file is the password of. Refused as by mongod: a file that others may read, a key that is too short or
/// too long, characters that are not base64.
pub(super) fn member(key: &str) -> Result<User, Error> {
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
    user.set_roles(vec![Role { role: MEMBER.to_owned(), database: "admin".to_owned() }]);
    Ok(user)
}

pub(super) fn read(path: &Path) -> Result<String, Error> {
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
