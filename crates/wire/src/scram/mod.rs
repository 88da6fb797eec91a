//! SCRAM as MongoDB implements it, both sides, without a socket: it consumes and produces messages, each an `a=value,b=value` text.
//!
//! The rules are those of RFC 5802 and 7677 with MongoDB's variations: no channel binding; SCRAM-SHA-1 starts from the hex MD5 of
//! `user:mongo:password`, SCRAM-SHA-256 from the SASLprepped password; a conversation may end with an empty exchange that newer
//! drivers skip. RFC 5802 fixes the order of the attributes, so they are read in sequence and any other order is refused. The caller
//! provides random nonces and salts, so that this module has no side effects.

mod client;
mod server;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::{Code, Failure};

pub use client::ClientConversation;
pub use server::{ClientFirstMessage, Credentials, ScramReply, ServerConversation};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    Sha1,
    Sha256,
}

impl Mechanism {
    /// Both mechanisms, the stronger first, in the order in which to try `saslSupportedMechs`.
    pub const ALL: [Mechanism; 2] = [Mechanism::Sha256, Mechanism::Sha1];

    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Sha1 => "SCRAM-SHA-1",
            Mechanism::Sha256 => "SCRAM-SHA-256",
        }
    }

    /// The mechanism with this name.
    pub fn from_name(name: &str) -> Option<Mechanism> {
        Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// `iterationCount` of credentials that mongod creates by default (`scramIterationCount`, `scramSHA256IterationCount`).
    pub fn default_iterations(self) -> u32 {
        match self {
            Mechanism::Sha1 => 10_000,
            Mechanism::Sha256 => 15_000,
        }
    }

    /// The number of bytes of mongod's salts: the hash's size minus the four that the derivation appends.
    pub fn salt_bytes(self) -> usize {
        self.hash_bytes() - 4
    }

    /// Bytes of the hash.
    pub fn hash_bytes(self) -> usize {
        match self {
            Mechanism::Sha1 => 20,
            Mechanism::Sha256 => 32,
        }
    }

    fn hash(self, data: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::Sha1 => Sha1::digest(data).to_vec(),
            Mechanism::Sha256 => Sha256::digest(data).to_vec(),
        }
    }

    fn hmac(self, key: &[u8], data: &[u8]) -> Result<Vec<u8>, Failure> {
        let refused =
            |_| Failure::new(Code::InternalError, "the key of a SCRAM signature has no usable length");
        Ok(match self {
            Mechanism::Sha1 => Hmac::<Sha1>::new_from_slice(key)
                .map_err(refused)?
                .chain_update(data)
                .finalize()
                .into_bytes()
                .to_vec(),
            Mechanism::Sha256 => Hmac::<Sha256>::new_from_slice(key)
                .map_err(refused)?
                .chain_update(data)
                .finalize()
                .into_bytes()
                .to_vec(),
        })
    }

    /// The salted password (PBKDF2, which is RFC 5802's `Hi`).
    fn salted_password(
        self,
        user: &str,
        password: &str,
        salt: &[u8],
        iterations: u32,
    ) -> Result<Vec<u8>, Failure> {
        let mut salted = vec![0; self.hash_bytes()];
        match self {
            Mechanism::Sha1 => {
                let digest = password_digest(user, password);
                pbkdf2::pbkdf2_hmac::<Sha1>(digest.as_bytes(), salt, iterations, &mut salted);
            }
            Mechanism::Sha256 => {
                // The cause repeats a character of the password.
                let prepared = stringprep::saslprep(password).map_err(|_| {
                    Failure::new(Code::BadValue, "the password holds a character that SASLprep forbids")
                })?;
                pbkdf2::pbkdf2_hmac::<Sha256>(prepared.as_bytes(), salt, iterations, &mut salted);
            }
        }
        Ok(salted)
    }
}

/// The password that SCRAM-SHA-1 uses: the hex MD5 of `user:mongo:password`. A client may send it instead of the password when
/// it creates a user (`digestPassword: false`).
fn password_digest(user: &str, password: &str) -> String {
    let digest = md5::Md5::digest(format!("{user}:mongo:{password}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bitwise exclusive or of keys of equal length.
fn xor(one: &[u8], other: &[u8]) -> Vec<u8> {
    one.iter().zip(other).map(|(one, other)| one ^ other).collect()
}

/// The only failure that a client sees: it does not reveal which part was wrong.
fn authentication_failed() -> Failure {
    Failure::new(Code::AuthenticationFailed, "Authentication failed.")
}

/// The attributes of a message that remain to be read.
struct Attributes<'a> {
    rest: Option<&'a str>,
}

impl<'a> Attributes<'a> {
    fn from_text(text: &'a str) -> Self {
        Attributes { rest: Some(text) }
    }

    /// The value of the next attribute, which must be `name`.
    fn next(&mut self, name: char) -> Result<&'a str, Failure> {
        let (attribute, rest) = match self.rest.and_then(|rest| rest.split_once(',')) {
            Some((attribute, rest)) => (Some(attribute), Some(rest)),
            None => (self.rest, None),
        };
        self.rest = rest;
        attribute
            .and_then(|attribute| attribute.strip_prefix(name)?.strip_prefix('='))
            .ok_or_else(|| malformed(format!("attribute {name} is missing")))
    }
}

/// The text of a payload.
fn text_of(payload: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(payload).map_err(|_| malformed("it is not UTF-8"))
}

/// The bytes of a base64 value.
fn bytes_of(value: &str) -> Result<Vec<u8>, Failure> {
    STANDARD.decode(value).map_err(|_| malformed("a value is not base64"))
}

fn base64_of(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Escapes a user's name for a message, in which commas and equal signs are special.
fn escape(name: &str) -> String {
    name.replace('=', "=3D").replace(',', "=2C")
}

/// Reverses [`escape`]; any other use of an equal sign is refused.
fn unescape(name: &str) -> Result<String, Failure> {
    let mut pieces = name.split('=');
    let mut unescaped = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (letter, rest) = match (piece.strip_prefix("2C"), piece.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(malformed("the user's name has an equal sign that escapes nothing")),
        };
        unescaped.push(letter);
        unescaped.push_str(rest);
    }
    Ok(unescaped)
}

/// The failure for a message that does not follow the grammar.
fn malformed(what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::BadValue, format!("the SCRAM message is malformed: {what}"))
}
