//! An entry for the fuzzers: whole commands run against a server in memory, in this process, without a socket or a thread.
//!
//! Commands that wait by their nature (a lock of all writes, a shutdown) are left out, because a fuzzer takes waiting for a
//! hang; everything else runs as it would for a client.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use fathom_engine::{Session, memory};
use fathom_wire::{Header, Message, OpCode, validate_document};

use crate::auth::Conversation;
use crate::client::Client;
use crate::config::{Config, EngineName};
use crate::dispatch::{self, Incoming, Surroundings};
use crate::instance::Instance;
use crate::log::Log;

/// After so many commands the server is made anew, so that what they leave behind stays small.
const COMMANDS: u32 = 500;
/// Commands that wait for other connections or end the process's work.
const LEFT_OUT: &[&str] = &["fsync", "fsyncUnlock", "shutdown", "logRotate"];

/// A server without sockets.
#[derive(Debug)]
pub struct Harness {
    instance: Arc<Instance>,
    client: Arc<Client>,
    session: Box<dyn Session>,
    conversation: Option<Conversation>,
    commands: u32,
    auth: bool,
}

impl Harness {
    /// A server in memory, where clients must log in if `auth`. None if it cannot be made.
    pub fn new(auth: bool) -> Option<Harness> {
        let mut config = Config::default();
        config.storage.engine = EngineName::Ephemeral;
        config.auth = auth;
        config.set_parameters.insert("enableTestCommands".to_owned(), "1".to_owned());
        let log = Arc::new(Log::quiet(&config));
        let (instance, _) = Instance::new(config, memory::open(), None, log).ok()?;
        let client = instance.clients.add("127.0.0.1:1".to_owned());
        let session = instance.engine.session().ok()?;
        Some(Harness { instance, client, session, conversation: None, commands: 0, auth })
    }

    /// Runs the sections of an OP_MSG (what follows its flags) as a command. The reply is none if they are no message, or if the
    /// command is left out.
    pub fn run(&mut self, sections: &[u8]) -> Option<RawDocumentBuf> {
        let header = Header {
            length_bytes: Header::BYTES + 4 + sections.len(),
            request_id: 1,
            response_to: 0,
            op_code: OpCode::MSG,
        };
        let frame = [&header.to_bytes()[..], &[0; 4], sections].concat();
        let Ok(Message::Msg(message)) = Message::parse(&frame) else { return None };
        if blocks(message.body) {
            return None;
        }
        self.commands += 1;
        if self.commands > COMMANDS || self.instance.is_stopping() {
            *self = Harness::new(self.auth)?;
        }
        let place = Surroundings { instance: &self.instance, session: &*self.session, client: &self.client };
        let mut reply = Vec::new();
        dispatch::run(&place, &Incoming::Message(&message), &mut self.conversation, &mut reply);
        // What a server answers must be BSON, whatever it was asked.
        let reply = validate_document(&reply).map(RawDocument::to_owned);
        assert!(reply.is_ok(), "a reply that is no document");
        reply.ok()
    }
}

/// Whether a command may wait for long: by name, or because it says for how long.
fn blocks(body: &RawDocument) -> bool {
    let named = body.iter().next().and_then(Result::ok).map(|(name, _)| name.as_str().to_owned());
    named.is_none_or(|name| LEFT_OUT.contains(&name.as_str()) || name == "configureFailPoint")
        || ["awaitData", "maxTimeMS"].iter().any(|name| body.get(name).ok().flatten().is_some())
}
