//! The client's side: proves the password, and believes the server only after its proof.

use subtle::ConstantTimeEq;

use super::{
    Attributes, Mechanism, authentication_failed, base64_of, bytes_of, escape, malformed, text_of, xor,
};
use crate::Failure;

/// No channel binding: the header of the first message.
const HEADER: &str = "n,,";

/// The fewest rounds that a client accepts, so that a false server cannot ask for a cheap guess (the drivers' rule).
const ITERATIONS_MIN: u32 = 4096;

/// The most: a false server must not keep us busy for minutes either.
const ITERATIONS_MAX: u32 = 10_000_000;

/// A conversation from its first message on.
pub struct ClientConversation {
    mechanism: Mechanism,
    user: String,
    password: String,
    state: State,
}

enum State {
    /// The salt is awaited.
    Salt { nonce: String, bare: String },
    /// The server's signature is awaited.
    Signature { expected: Vec<u8> },
    /// The server has proved itself.
    Proved,
    /// It failed.
    Over,
}

impl ClientConversation {
    /// A conversation, and its first message. `nonce` is fresh random text without commas (base64 of 24 bytes, say).
    pub fn start(
        mechanism: Mechanism,
        user: &str,
        password: &str,
        nonce: &str,
    ) -> (ClientConversation, Vec<u8>) {
        let bare = format!("n={},r={nonce}", escape(user));
        let payload = format!("{HEADER}{bare}").into_bytes();
        let state = State::Salt { nonce: nonce.to_owned(), bare };
        (
            ClientConversation { mechanism, user: user.to_owned(), password: password.to_owned(), state },
            payload,
        )
    }

    /// The mechanism.
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Whether the server has proved that it knows the password too; `done` from a server that has not is a lie.
    pub fn is_proved(&self) -> bool {
        matches!(self.state, State::Proved)
    }

    /// The next message, in answer to the server's. After an error the conversation is over.
    pub fn step(&mut self, payload: &[u8]) -> Result<Vec<u8>, Failure> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Salt { nonce, bare } => {
                let (message, expected) = self.prove(payload, &nonce, &bare)?;
                self.state = State::Signature { expected };
                Ok(message)
            }
            State::Signature { expected } => {
                let signature = bytes_of(Attributes::of(text_of(payload)?).next('v')?)?;
                if !bool::from(signature.ct_eq(&expected)) {
                    return Err(authentication_failed());
                }
                self.state = State::Proved;
                Ok(Vec::new())
            }
            State::Proved => {
                self.state = State::Proved;
                Ok(Vec::new())
            }
            State::Over => Err(authentication_failed()),
        }
    }

    /// The final message, and the signature that the server must answer with.
    fn prove(&self, payload: &[u8], nonce: &str, bare: &str) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        let server_first = text_of(payload)?;
        let mut attributes = Attributes::of(server_first);
        let both = attributes.next('r')?;
        let salt = bytes_of(attributes.next('s')?)?;
        let iterations =
            attributes.next('i')?.parse().map_err(|_| malformed("the iteration count is no number"))?;
        if !both.starts_with(nonce) || both.len() == nonce.len() {
            return Err(malformed("the server's nonce does not continue ours"));
        }
        if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
            let what =
                format!("{iterations} iterations are not between {ITERATIONS_MIN} and {ITERATIONS_MAX}");
            return Err(malformed(what));
        }
        let without_proof = format!("c={},r={both}", base64_of(HEADER.as_bytes()));
        let signed = format!("{bare},{server_first},{without_proof}");
        let salted = self.mechanism.salted_password(&self.user, &self.password, &salt, iterations)?;
        let client_key = self.mechanism.hmac(&salted, b"Client Key")?;
        let signature = self.mechanism.hmac(&self.mechanism.hash(&client_key), signed.as_bytes())?;
        let proof = xor(&client_key, &signature);
        let server_key = self.mechanism.hmac(&salted, b"Server Key")?;
        let expected = self.mechanism.hmac(&server_key, signed.as_bytes())?;
        Ok((format!("{without_proof},p={}", base64_of(&proof)).into_bytes(), expected))
    }
}

/// The password stays out of logs.
impl std::fmt::Debug for ClientConversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientConversation").field("mechanism", &self.mechanism).finish_non_exhaustive()
    }
}
