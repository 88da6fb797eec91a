//! How a connection becomes ready for commands: the first exchange says who we are, what the server is, and what both
//! sides agree on; the login follows.
//!
//! `hello` first, and `isMaster` where that is not known (before 4.4.2). A server before 3.6 does not understand OP_MSG
//! and is refused. The login is SCRAM over commands: begun inside hello where the server takes that, and by `saslStart`
//! where not.

use std::time::Instant;

use bson::spec::BinarySubtype;
use bson::{Binary, Document, RawDocument, RawDocumentBuf, doc};
use fathom_errors::Kind;
use fathom_wire::scram::{ClientConversation, Mechanism};
use fathom_wire::{Code, Compressor};

use crate::tls::random_bytes;
use crate::transport::Stream;
use crate::{Address, Connection, Credential, Error, Result, Target};

/// The oldest wire version that has OP_MSG: MongoDB 3.6.
const WIRE_VERSION_MIN: i32 = 6;

impl Connection {
    /// Connects to the first of the target's servers that will do, shakes hands and logs in. With `replicaSet` and several
    /// addresses only the primary will do. A seed list is resolved first.
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
                // Another server knows no other password.
                Err(Error::Server(failure)) => return Err(failure.into()),
                Err(error) => last = error,
                Ok(connection) => return Ok(connection),
            }
        }
        Err(last)
    }

    /// Connects to one server, shakes hands and logs in.
    pub fn open(address: &Address, target: &Target) -> Result<Connection> {
        let mut connection = Connection::new(Stream::connect(address, target)?, address.clone());
        shake_hands(&mut connection, target)?;
        connection.stream.set_timeout(target.socket_timeout)?;
        Ok(connection)
    }
}

/// Shakes hands on a new connection, agrees on compression and proves who we are.
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
    if version < WIRE_VERSION_MIN {
        let what = format!(
            "the server speaks wire version {version}, and {WIRE_VERSION_MIN} (MongoDB 3.6) is the least"
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

/// What drivers say of themselves (mongodb/specifications:source/mongodb-handshake/handshake.md).
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

/// The first of our compressors that the server has too.
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
        Err(_) => format!("the server belongs to no replica set, and '{wanted}' is wanted"),
    };
    Err(fathom_errors::Error::new(Kind::NotFound, what).into())
}

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
