//! What a server keeps of a password: enough to check it and to prove itself, not enough to log in elsewhere.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bson::{Document, doc};

use super::Mechanism;
use crate::{Code, Failure};

/// The credentials of one user for one mechanism, as `system.users` keeps them.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Rounds of the derivation.
    pub iterations: u32,
    /// The salt.
    pub salt: Vec<u8>,
    /// What the client's proof is checked with.
    pub stored_key: Vec<u8>,
    /// What the server's signature is made with.
    pub server_key: Vec<u8>,
}

impl Credentials {
    /// Derives credentials from a password. Meant to be slow: tens of milliseconds at the default iterations.
    pub fn derive(
        mechanism: Mechanism,
        user: &str,
        password: &str,
        salt: Vec<u8>,
        iterations: u32,
    ) -> Result<Credentials, Failure> {
        let salted = mechanism.salted_password(user, password, &salt, iterations)?;
        Credentials::of_salted(mechanism, &salted, salt, iterations)
    }

    /// Derives credentials for SCRAM-SHA-1 from a password that the client digested already (hex MD5 of
    /// `user:mongo:password`).
    pub fn derive_digested(digest: &str, salt: Vec<u8>, iterations: u32) -> Result<Credentials, Failure> {
        let mut salted = vec![0; Mechanism::Sha1.hash_bytes()];
        pbkdf2::pbkdf2_hmac::<sha1::Sha1>(digest.as_bytes(), &salt, iterations, &mut salted);
        Credentials::of_salted(Mechanism::Sha1, &salted, salt, iterations)
    }

    fn of_salted(
        mechanism: Mechanism,
        salted: &[u8],
        salt: Vec<u8>,
        iterations: u32,
    ) -> Result<Credentials, Failure> {
        let client_key = mechanism.hmac(salted, b"Client Key")?;
        let server_key = mechanism.hmac(salted, b"Server Key")?;
        Ok(Credentials { iterations, salt, stored_key: mechanism.hash(&client_key), server_key })
    }

    /// The document under the mechanism's name in a user's `credentials`.
    pub fn to_document(&self) -> Document {
        doc! {
            "iterationCount": i32::try_from(self.iterations).unwrap_or(i32::MAX),
            "salt": STANDARD.encode(&self.salt),
            "storedKey": STANDARD.encode(&self.stored_key),
            "serverKey": STANDARD.encode(&self.server_key),
        }
    }

    /// Reads what [`Credentials::to_document`] wrote, or mongod did.
    pub fn of_document(mechanism: Mechanism, document: &Document) -> Result<Credentials, Failure> {
        let unsupported = |field: &str| {
            let what = format!("credential document has no usable {field}");
            Failure::new(Code::UnsupportedFormat, what)
        };
        let bytes = |field: &str| {
            let text = document.get_str(field).map_err(|_| unsupported(field))?;
            STANDARD.decode(text).map_err(|_| unsupported(field))
        };
        let iterations = document.get_i32("iterationCount").ok().and_then(|count| u32::try_from(count).ok());
        let credentials = Credentials {
            iterations: iterations.filter(|&count| count > 0).ok_or_else(|| unsupported("iterationCount"))?,
            salt: bytes("salt")?,
            stored_key: bytes("storedKey")?,
            server_key: bytes("serverKey")?,
        };
        for (field, key) in [("storedKey", &credentials.stored_key), ("serverKey", &credentials.server_key)] {
            if key.len() != mechanism.hash_bytes() {
                return Err(unsupported(field));
            }
        }
        Ok(credentials)
    }
}

/// Keys stay out of logs.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}
