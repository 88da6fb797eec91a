//! SCRAM over commands: begun inside hello where the server takes that, and by `saslStart` where not.

use bson::spec::BinarySubtype;
use bson::{Binary, Document, RawDocument, doc};
use fathom_wire::scram::{ClientConversation, Mechanism};

use crate::random::random_bytes;
use crate::{Connection, Credential, Error, Result};

/// How often the server may answer before it must be done: two with a skipped empty exchange, three without.
const EXCHANGES_MAX: usize = 4;

/// A login under way.
#[derive(Debug)]
pub(crate) struct Authentication<'a> {
    credential: &'a Credential,
    conversation: ClientConversation,
    first: Vec<u8>,
}

impl<'a> Authentication<'a> {
    /// Begins a conversation with the credential's mechanism, or with the strongest.
    pub(crate) fn start(credential: &'a Credential) -> Result<Authentication<'a>> {
        Authentication::with(credential, credential.mechanism.unwrap_or(Mechanism::Sha256))
    }

    fn with(credential: &'a Credential, mechanism: Mechanism) -> Result<Authentication<'a>> {
        let Credential { user, password, .. } = credential;
        let (conversation, first) = ClientConversation::start(mechanism, user, password, &nonce()?);
        Ok(Authentication { credential, conversation, first })
    }

    /// The `saslStart` in hello that saves an exchange.
    pub(crate) fn speculation(&self) -> Document {
        let mut command = self.sasl_start();
        command.insert("db", &self.credential.source);
        command
    }

    /// Logs in, going on from what hello answered.
    pub(crate) fn complete(&mut self, connection: &mut Connection, hello: &RawDocument) -> Result<()> {
        if let Ok(reply) = hello.get_document("speculativeAuthenticate") {
            return self.converse(connection, reply);
        }
        if let (None, Ok(theirs)) = (self.credential.mechanism, hello.get_array("saslSupportedMechs")) {
            let has = |mechanism: &Mechanism| {
                theirs.into_iter().flatten().any(|name| name.as_str() == Some(mechanism.name()))
            };
            let chosen = Mechanism::ALL.into_iter().find(has).unwrap_or(Mechanism::Sha1);
            if chosen != self.conversation.mechanism() {
                *self = Authentication::with(self.credential, chosen)?;
            }
        }
        let reply = connection.run(&self.credential.source, &self.sasl_start())?;
        self.converse(connection, &reply)
    }

    fn sasl_start(&self) -> Document {
        doc! {
            "saslStart": 1,
            "mechanism": self.conversation.mechanism().name(),
            "payload": payload(self.first.clone()),
            "options": { "skipEmptyExchange": true },
        }
    }

    fn converse(&mut self, connection: &mut Connection, first: &RawDocument) -> Result<()> {
        let mut reply = first.to_owned();
        for _ in 0..EXCHANGES_MAX {
            let theirs = reply.get_binary("payload").map_err(Error::protocol)?;
            let done = reply.get_bool("done").map_err(Error::protocol)?;
            let message = if done && self.conversation.is_proved() {
                Vec::new()
            } else {
                self.conversation.step(theirs.bytes)?
            };
            if done {
                break;
            }
            let command = doc! {
                "saslContinue": 1,
                "conversationId": reply.get_i32("conversationId").map_err(Error::protocol)?,
                "payload": payload(message),
            };
            reply = connection.run(&self.credential.source, &command)?;
        }
        if self.conversation.is_proved() {
            return Ok(());
        }
        Err(Error::protocol("it ended the login without proving that it knows the user"))
    }
}

fn payload(bytes: Vec<u8>) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes }
}

/// Random text that nobody can guess.
fn nonce() -> Result<String> {
    let bytes = random_bytes::<24>()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
