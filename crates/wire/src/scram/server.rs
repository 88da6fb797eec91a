//! The server's side of SCRAM: stores credentials, demands a proof of the password, and gives a proof of its own.
//!
//! The stored credentials suffice to check a password and to prove the server's identity, but not to log in elsewhere. The first message is parsed on
//! its own ([`ClientFirstMessage`]), because the credentials must be fetched before it can be answered. A failure reveals only that the login failed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bson::{Document, doc};
use subtle::ConstantTimeEq;

use super::{
    Attributes, Mechanism, authentication_failed, base64_of, bytes_of, malformed, text_of, unescape, xor,
};
use crate::{Code, Failure};

/// The client's first message, which names its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFirstMessage {
    user: String,
    nonce: String,
    /// The message without its channel binding header, as both sides sign it.
    bare: String,
    /// The channel binding header, which the final message must repeat.
    header: String,
}

impl ClientFirstMessage {
    /// Reads the payload of `saslStart`; channel binding and authorization as another user are refused.
    pub fn parse(payload: &[u8]) -> Result<ClientFirstMessage, Failure> {
        let text = text_of(payload)?;
        let bare = text.strip_prefix("n,,").or_else(|| text.strip_prefix("y,,")).ok_or_else(|| {
            malformed("it asks for channel binding or another identity, which is not supported")
        })?;
        let header = text.strip_suffix(bare).unwrap_or_default();
        let mut attributes = Attributes::from_text(bare);
        let user = unescape(attributes.next('n')?)?;
        let nonce = attributes.next('r')?;
        if nonce.is_empty() {
            return Err(malformed("the nonce is empty"));
        }
        Ok(ClientFirstMessage {
            user,
            nonce: nonce.to_owned(),
            bare: bare.to_owned(),
            header: header.to_owned(),
        })
    }

    /// The user whose credentials are needed.
    pub fn user(&self) -> &str {
        &self.user
    }
}

/// The answer to one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScramReply {
    /// The `payload` of the reply.
    pub payload: Vec<u8>,
    /// The reply's `done`: the user is authenticated only when it is true.
    pub done: bool,
}

/// A conversation after its first exchange.
#[derive(Debug)]
pub struct ServerConversation {
    mechanism: Mechanism,
    user: String,
    skip_empty_exchange: bool,
    state: ScramServerState,
}

enum ScramServerState {
    /// Waiting for the client's proof.
    Proof { credentials: Credentials, nonce: String, signed: String, binding: String },
    /// The proof was correct; waiting for an empty message.
    Empty,
    /// The conversation has ended, successfully or not.
    Over,
}

impl ServerConversation {
    /// Answers the client's opening. `server_nonce` is fresh random text without commas (base64 of 24 bytes, say);
    /// `skip_empty_exchange` is the client's option of that name.
    pub fn start(
        mechanism: Mechanism,
        first: ClientFirstMessage,
        credentials: Credentials,
        server_nonce: &str,
        skip_empty_exchange: bool,
    ) -> (ServerConversation, ScramReply) {
        let nonce = first.nonce + server_nonce;
        let salt = base64_of(&credentials.salt);
        let reply = format!("r={nonce},s={salt},i={}", credentials.iterations);
        let signed = format!("{},{reply},", first.bare);
        let binding = base64_of(first.header.as_bytes());
        let state = ScramServerState::Proof { credentials, nonce, signed, binding };
        let conversation = ServerConversation { mechanism, user: first.user, skip_empty_exchange, state };
        (conversation, ScramReply { payload: reply.into_bytes(), done: false })
    }

    /// The user who logs in, authenticated once a [`ScramReply`] was `done`.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Answers a further message. After an error the conversation is over.
    pub fn step(&mut self, payload: &[u8]) -> Result<ScramReply, Failure> {
        match std::mem::replace(&mut self.state, ScramServerState::Over) {
            ScramServerState::Proof { credentials, nonce, signed, binding } => {
                let signature = check(self.mechanism, payload, &credentials, &nonce, signed, &binding)?;
                let done = self.skip_empty_exchange;
                if !done {
                    self.state = ScramServerState::Empty;
                }
                Ok(ScramReply { payload: format!("v={}", base64_of(&signature)).into_bytes(), done })
            }
            ScramServerState::Empty if payload.is_empty() => {
                Ok(ScramReply { payload: Vec::new(), done: true })
            }
            ScramServerState::Empty | ScramServerState::Over => Err(authentication_failed()),
        }
    }
}

impl std::fmt::Debug for ScramServerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ScramServerState::Proof { .. } => "Proof",
            ScramServerState::Empty => "Empty",
            ScramServerState::Over => "Over",
        })
    }
}

/// Checks the proof in the final message; returns the server's signature if it is correct.
fn check(
    mechanism: Mechanism,
    payload: &[u8],
    credentials: &Credentials,
    nonce: &str,
    signed: String,
    binding: &str,
) -> Result<Vec<u8>, Failure> {
    let text = text_of(payload)?;
    let (without_proof, _) = text.rsplit_once(",p=").ok_or_else(|| malformed("attribute p is missing"))?;
    let mut attributes = Attributes::from_text(text);
    if attributes.next('c')? != binding || attributes.next('r')? != nonce {
        return Err(authentication_failed());
    }
    let proof = bytes_of(attributes.next('p')?)?;
    let signed = signed + without_proof;
    let client_signature = mechanism.hmac(&credentials.stored_key, signed.as_bytes())?;
    let client_key = xor(&proof, &client_signature);
    let right = mechanism.hash(&client_key).ct_eq(&credentials.stored_key);
    if proof.len() != mechanism.hash_bytes() || !bool::from(right) {
        return Err(authentication_failed());
    }
    mechanism.hmac(&credentials.server_key, signed.as_bytes())
}

/// The credentials of one user for one mechanism, as `system.users` stores them.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The number of iterations of the derivation.
    pub iterations: u32,
    pub salt: Vec<u8>,
    /// The key that checks the client's proof.
    pub stored_key: Vec<u8>,
    /// The key that makes the server's signature.
    pub server_key: Vec<u8>,
}

impl Credentials {
    /// Derives credentials from a password. This is slow by design: tens of milliseconds at the default iterations.
    pub fn derive(
        mechanism: Mechanism,
        user: &str,
        password: &str,
        salt: Vec<u8>,
        iterations: u32,
    ) -> Result<Credentials, Failure> {
        let salted = mechanism.salted_password(user, password, &salt, iterations)?;
        Credentials::from_salted(mechanism, &salted, salt, iterations)
    }

    /// Derives credentials for SCRAM-SHA-1 from a password that the client digested already (hex MD5 of
    /// `user:mongo:password`).
    pub fn derive_digested(digest: &str, salt: Vec<u8>, iterations: u32) -> Result<Credentials, Failure> {
        let mut salted = vec![0; Mechanism::Sha1.hash_bytes()];
        pbkdf2::pbkdf2_hmac::<sha1::Sha1>(digest.as_bytes(), &salt, iterations, &mut salted);
        Credentials::from_salted(Mechanism::Sha1, &salted, salt, iterations)
    }

    fn from_salted(
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

    /// Reads a document from [`Credentials::to_document`], or from mongod.
    pub fn from_document(mechanism: Mechanism, document: &Document) -> Result<Credentials, Failure> {
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
