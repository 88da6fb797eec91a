//! The client's side of SCRAM: proves that it knows the password, and trusts the server only after the server's proof.

use subtle::ConstantTimeEq;

use super::{
    Attributes, Mechanism, authentication_failed, base64_of, bytes_of, escape, malformed, text_of, xor,
};
use crate::Failure;

/// The header of the first message, which requests no channel binding.
const HEADER: &str = "n,,";

/// The minimum number of iterations that a client accepts, so that a false server cannot make guessing cheap (the drivers' rule).
const MIN_ITERATIONS: u32 = 4096;

/// The maximum: a false server must not keep the client busy for minutes either.
const MAX_ITERATIONS: u32 = 10_000_000;

/// A conversation from its first message on.
pub struct ClientConversation {
    mechanism: Mechanism,
    user: String,
    password: String,
    state: ScramClientState,
}

enum ScramClientState {
    /// Waiting for the server's salt.
    Salt { nonce: String, bare: String },
    /// Waiting for the server's signature.
    Signature { expected: Vec<u8> },
    /// The server has proved itself.
    Proved,
    /// The login has failed for good.
    Over,
}

impl ClientConversation {
    /// Starts a conversation and returns its first message. `nonce` is fresh random text without commas (base64 of 24 bytes, say).
    pub fn start(
        mechanism: Mechanism,
        user: &str,
        password: &str,
        nonce: &str,
    ) -> (ClientConversation, Vec<u8>) {
        let bare = format!("n={},r={nonce}", escape(user));
        let payload = format!("{HEADER}{bare}").into_bytes();
        let state = ScramClientState::Salt { nonce: nonce.to_owned(), bare };
        (
            ClientConversation { mechanism, user: user.to_owned(), password: password.to_owned(), state },
            payload,
        )
    }

    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Whether the server has proved that it knows the password too; without that proof its `done` is false.
    pub fn is_proved(&self) -> bool {
        matches!(self.state, ScramClientState::Proved)
    }

    /// The next message, in answer to the server's. After an error the conversation is over.
    pub fn step(&mut self, payload: &[u8]) -> Result<Vec<u8>, Failure> {
        match std::mem::replace(&mut self.state, ScramClientState::Over) {
            ScramClientState::Salt { nonce, bare } => {
                let (message, expected) = self.prove(payload, &nonce, &bare)?;
                self.state = ScramClientState::Signature { expected };
                Ok(message)
            }
            ScramClientState::Signature { expected } => {
                let signature = bytes_of(Attributes::from_text(text_of(payload)?).next('v')?)?;
                if !bool::from(signature.ct_eq(&expected)) {
                    return Err(authentication_failed());
                }
                self.state = ScramClientState::Proved;
                Ok(Vec::new())
            }
            ScramClientState::Proved => {
                self.state = ScramClientState::Proved;
                Ok(Vec::new())
            }
            ScramClientState::Over => Err(authentication_failed()),
        }
    }

    /// The final message, and the signature that the server must answer with.
    fn prove(&self, payload: &[u8], nonce: &str, bare: &str) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        let server_first = text_of(payload)?;
        let mut attributes = Attributes::from_text(server_first);
        let both = attributes.next('r')?;
        let salt = bytes_of(attributes.next('s')?)?;
        let iterations =
            attributes.next('i')?.parse().map_err(|_| malformed("the iteration count is not a number"))?;
        if !both.starts_with(nonce) || both.len() == nonce.len() {
            return Err(malformed("the server's nonce does not continue ours"));
        }
        if !(MIN_ITERATIONS..=MAX_ITERATIONS).contains(&iterations) {
            let what =
                format!("{iterations} iterations are not between {MIN_ITERATIONS} and {MAX_ITERATIONS}");
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
