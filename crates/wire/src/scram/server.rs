//! The server's side: asks for a proof of the password and gives one of its own.
//!
//! The first message is read on its own ([`ClientFirst`]), because the credentials have to be fetched between it and the
//! answer. Failing says only that it failed.

use subtle::ConstantTimeEq;

use super::text::{Attributes, base64_of, bytes_of, malformed, text_of, unescape};
use super::{Credentials, Mechanism, authentication_failed, xor};
use crate::Failure;

/// The client's opening: who it says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFirst {
    user: String,
    nonce: String,
    /// The message without its channel binding header, as both sides sign it.
    bare: String,
    /// The channel binding header, which the final message must repeat.
    header: String,
}

impl ClientFirst {
    /// Reads the payload of `saslStart`; channel binding and authorizing as somebody else are refused.
    pub fn parse(payload: &[u8]) -> Result<ClientFirst, Failure> {
        let text = text_of(payload)?;
        let bare = text.strip_prefix("n,,").or_else(|| text.strip_prefix("y,,")).ok_or_else(|| {
            malformed("it asks for channel binding or another identity, which is not supported")
        })?;
        let header = text.strip_suffix(bare).unwrap_or_default();
        let mut attributes = Attributes::of(bare);
        let user = unescape(attributes.next('n')?)?;
        let nonce = attributes.next('r')?;
        if nonce.is_empty() {
            return Err(malformed("the nonce is empty"));
        }
        Ok(ClientFirst { user, nonce: nonce.to_owned(), bare: bare.to_owned(), header: header.to_owned() })
    }

    /// The user whose credentials are needed.
    pub fn user(&self) -> &str {
        &self.user
    }
}

/// What to answer to one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The `payload` of the reply.
    pub payload: Vec<u8>,
    /// Its `done`: the user is authenticated when it is true, not before.
    pub done: bool,
}

/// A conversation after its first exchange.
#[derive(Debug)]
pub struct ServerConversation {
    mechanism: Mechanism,
    user: String,
    skip_empty_exchange: bool,
    state: State,
}

enum State {
    /// The proof is awaited.
    Proof { credentials: Credentials, nonce: String, signed: String, binding: String },
    /// The proof was right; an empty message is awaited.
    Empty,
    /// It has ended, well or not.
    Over,
}

impl ServerConversation {
    /// Answers the client's opening. `server_nonce` is fresh random text without commas (base64 of 24 bytes, say);
    /// `skip_empty_exchange` is the client's option of that name.
    pub fn start(
        mechanism: Mechanism,
        first: ClientFirst,
        credentials: Credentials,
        server_nonce: &str,
        skip_empty_exchange: bool,
    ) -> (ServerConversation, Step) {
        let nonce = first.nonce + server_nonce;
        let salt = base64_of(&credentials.salt);
        let reply = format!("r={nonce},s={salt},i={}", credentials.iterations);
        let signed = format!("{},{reply},", first.bare);
        let binding = base64_of(first.header.as_bytes());
        let state = State::Proof { credentials, nonce, signed, binding };
        let conversation = ServerConversation { mechanism, user: first.user, skip_empty_exchange, state };
        (conversation, Step { payload: reply.into_bytes(), done: false })
    }

    /// The user in question, authenticated once a [`Step`] was `done`.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Answers a further message. After an error the conversation is over.
    pub fn step(&mut self, payload: &[u8]) -> Result<Step, Failure> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Proof { credentials, nonce, signed, binding } => {
                let signature = check(self.mechanism, payload, &credentials, &nonce, signed, &binding)?;
                let done = self.skip_empty_exchange;
                if !done {
                    self.state = State::Empty;
                }
                Ok(Step { payload: format!("v={}", base64_of(&signature)).into_bytes(), done })
            }
            State::Empty if payload.is_empty() => Ok(Step { payload: Vec::new(), done: true }),
            State::Empty | State::Over => Err(authentication_failed()),
        }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            State::Proof { .. } => "Proof",
            State::Empty => "Empty",
            State::Over => "Over",
        })
    }
}

/// Checks the proof in the final message; the server's signature if it is right.
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
    let mut attributes = Attributes::of(text);
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
