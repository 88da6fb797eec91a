//! Makes a connection ready for commands: the first exchange identifies the client and the server and agrees on their options; the
//! login follows.
//!
//! It sends `hello` first, and `isMaster` if the server does not know that (before 4.4.2). A server before 3.6 does not understand
//! OP_MSG and is refused. The login uses SCRAM through commands: begun inside hello if the server accepts that, by `saslStart`
//! otherwise.

use std::time::Instant;

use bson::spec::BinarySubtype;
use bson::{Binary, Document, RawDocument, RawDocumentBuf, doc};
use fathom_errors::Kind;
use fathom_wire::scram::{ClientConversation, Mechanism};
use fathom_wire::{Code, Compressor};

use crate::tls::random_bytes;
use crate::transport::TransportStream;
use crate::{Address, Connection, Credential, Error, Result, Target};

/// The oldest wire version with OP_MSG: MongoDB 3.6.
const MIN_WIRE_VERSION: i32 = 6;

impl Connection {
    /// Connects to the first suitable server of the target, shakes hands and logs in. With `replicaSet` and several addresses only
    /// the primary is suitable. A seed list is resolved first.
    pub fn connect(target: &Target) -> Result<Connection> {
        if target.seed_list.is_some() {
            return Connection::connect(&target.resolve()?);
        }
        let primary_wanted = target.replica_set.is_some() && target.addresses.len() > 1;
        let mut last = fathom_errors::Error::usage("the target names no server").into();
        for address in &target.addresses {
            match Connection::open(address, target) {
                Ok(connection) if primary_wanted && !connection.is_writable_primary() => {
                    let what = format!("no primary among {target}");
                    last = fathom_errors::Error::new(Kind::NotFound, what).into();
                }
                // Another server of the deployment would refuse the same password.
                Err(Error::Server(failure)) => return Err(failure.into()),
                Err(error) => last = error,
                Ok(connection) => return Ok(connection),
            }
        }
        Err(last)
    }

    /// Connects to one server, shakes hands and logs in.
    pub fn open(address: &Address, target: &Target) -> Result<Connection> {
        let mut connection = Connection::new(TransportStream::connect(address, target)?, address.clone());
        shake_hands(&mut connection, target)?;
        connection.stream.set_timeout(target.socket_timeout)?;
        Ok(connection)
    }
}

/// Performs the handshake on a new connection, agrees on compression and logs in.
fn shake_hands(connection: &mut Connection, target: &Target) -> Result<()> {
    let mut authentication = target.credential.as_ref().map(Authentication::start).transpose()?;
    let mut command = doc! { "hello": 1, "helloOk": true, "client": client(target) };
    if !target.compressors.is_empty() {
        command.insert("compression", names(&target.compressors));
    }
    if let (Some(authentication), Some(credential)) = (&authentication, &target.credential) {
        if credential.mechanism.is_none() {
            command.insert("saslSupportedMechs", format!("{}.{}", credential.source, credential.user));
        }
        command.insert("speculativeAuthenticate", authentication.speculation());
    }
    let mut began = Instant::now();
    let hello = match connection.run("admin", &command) {
        Err(Error::Server(failure)) if failure.code() == Code::CommandNotFound => {
            let mut older = doc! { "isMaster": 1 };
            older.extend(command.into_iter().skip(1));
            began = Instant::now();
            connection.run("admin", &older)?
        }
        other => other?,
    };
    let round_trip = began.elapsed();
    let version = hello.get_i32("maxWireVersion").unwrap_or(0);
    if version < MIN_WIRE_VERSION {
        let what = format!(
            "the server speaks wire version {version}, and {MIN_WIRE_VERSION} (MongoDB 3.6) is the least"
        );
        return Err(fathom_errors::Error::new(Kind::Unsupported, what).into());
    }
    check_replica_set(&hello, target)?;
    connection.set_compressor(agreed(&hello, target));
    if let Some(authentication) = &mut authentication {
        authentication.complete(connection, &hello)?;
    }
    connection.set_hello(hello, round_trip);
    Ok(())
}

/// The client's metadata, as drivers send them (mongodb/specifications:source/mongodb-handshake/handshake.md).
fn client(target: &Target) -> Document {
    let mut client = doc! {
        "driver": { "name": "fathom", "version": env!("CARGO_PKG_VERSION") },
        "os": { "type": "Linux", "architecture": std::env::consts::ARCH },
    };
    if let Some(name) = &target.app_name {
        client.insert("application", doc! { "name": name });
    }
    client
}

fn names(compressors: &[Compressor]) -> Vec<&'static str> {
    compressors.iter().map(|compressor| compressor.name()).collect()
}

/// The first of our compressors that the server supports too.
fn agreed(hello: &RawDocumentBuf, target: &Target) -> Option<Compressor> {
    let theirs = hello.get_array("compression").ok()?;
    let has = |compressor: &Compressor| {
        theirs.into_iter().flatten().any(|name| name.as_str() == Some(compressor.name()))
    };
    target.compressors.iter().copied().find(has)
}

fn check_replica_set(hello: &RawDocumentBuf, target: &Target) -> Result<()> {
    let Some(wanted) = &target.replica_set else { return Ok(()) };
    let what = match hello.get_str("setName") {
        Ok(name) if name == wanted => return Ok(()),
        Ok(other) => format!("the server belongs to the replica set '{other}' and not to '{wanted}'"),
        Err(_) => format!("the server does not belong to a replica set, but replicaSet is '{wanted}'"),
    };
    Err(fathom_errors::Error::new(Kind::NotFound, what).into())
}

/// The maximum number of server replies in a login: two with a skipped empty exchange, three without.
const MAX_EXCHANGES: usize = 4;

/// A login in progress.
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

    /// The `saslStart` inside hello that saves an exchange.
    pub(crate) fn speculation(&self) -> Document {
        let mut command = self.sasl_start();
        command.insert("db", &self.credential.source);
        command
    }

    /// Completes the login, continuing from the reply to hello.
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
        for _ in 0..MAX_EXCHANGES {
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

/// Unpredictable random text for the login.
fn nonce() -> Result<String> {
    let bytes = random_bytes::<24>()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
