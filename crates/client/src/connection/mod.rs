//! A connection: one request at a time, each answered before the next.
//!
//! Buffers are used again, so that a load generator spends its time on the server. After a network error every further call
//! fails at once: what is still to come on the socket belongs to a request that nobody waits for.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};
use fathom_errors::Kind;
use fathom_wire::{
    Codec, Compressor, Header, Message, OpCode, OpMsgWriter, flag, never_compressed, write_query_command,
};

use crate::handshake::shake_hands;
use crate::stream::Stream;
use crate::{Address, Command, Cursor, Error, Result, Target};

mod parts;
mod reply;

pub use parts::Parts;

/// A connection that is ready for commands.
#[derive(Debug)]
pub struct Connection {
    pub(crate) stream: Stream,
    address: Address,
    codec: Codec,
    compressor: Option<Compressor>,
    /// The request as written, and as sent when it is compressed.
    request: Vec<u8>,
    packed: Vec<u8>,
    /// A reply that came compressed.
    unpacked: Vec<u8>,
    request_id: i32,
    hello: RawDocumentBuf,
    hello_round_trip: Duration,
    broken: bool,
}

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
        let mut connection = Connection {
            stream: Stream::connect(address, target)?,
            address: address.clone(),
            codec: Codec::default(),
            compressor: None,
            request: Vec::new(),
            packed: Vec::new(),
            unpacked: Vec::new(),
            request_id: 0,
            hello: RawDocumentBuf::new(),
            hello_round_trip: Duration::ZERO,
            broken: false,
        };
        connection.hello = shake_hands(&mut connection, target)?;
        connection.stream.set_timeout(target.socket_timeout)?;
        Ok(connection)
    }

    /// The reply to hello when the connection was made.
    pub fn hello(&self) -> &RawDocument {
        &self.hello
    }

    /// How long hello took when the connection was made, without connecting and logging in.
    pub fn hello_round_trip(&self) -> Duration {
        self.hello_round_trip
    }

    /// Whether the server took writes when the connection was made.
    pub fn is_writable_primary(&self) -> bool {
        ["isWritablePrimary", "ismaster"].into_iter().any(|name| self.hello.get_bool(name).unwrap_or(false))
    }

    /// The server's address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What messages are compressed with, if both sides agreed on something.
    pub fn compressor(&self) -> Option<Compressor> {
        self.compressor
    }

    /// Whether a network error has ended this connection.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// How long a reply may take from now on; for ever with `None`.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        Ok(self.stream.set_timeout(timeout.filter(|timeout| !timeout.is_zero()))?)
    }

    pub(crate) fn set_hello_round_trip(&mut self, round_trip: Duration) {
        self.hello_round_trip = round_trip;
    }

    pub(crate) fn set_compressor(&mut self, compressor: Option<Compressor>) {
        self.compressor = compressor;
    }

    /// Runs a command on `database` and returns the reply; `ok: 0` becomes [`Error::Server`]. Errors of single writes
    /// (`writeErrors`, `writeConcernError`) are part of a reply that is ok.
    pub fn run(&mut self, database: &str, command: &(impl Command + ?Sized)) -> Result<RawDocumentBuf> {
        self.run_with_sequences(database, command, &[])
    }

    /// Runs a command whose array fields travel beside it, such as `documents` of insert.
    pub fn run_with_sequences(
        &mut self,
        database: &str,
        command: &(impl Command + ?Sized),
        sequences: &[(&str, &[RawDocumentBuf])],
    ) -> Result<RawDocumentBuf> {
        let compressed = !never_compressed(command.name());
        self.send(compressed, |message| write(message, database, command, sequences))?;
        self.receive().map(RawDocument::to_owned)
    }

    /// Sends a command that gets no reply, such as an insert with `writeConcern: {w: 0}`; whether it succeeded stays unknown.
    pub fn send_only(
        &mut self,
        database: &str,
        command: &(impl Command + ?Sized),
        sequences: &[(&str, &[RawDocumentBuf])],
    ) -> Result<()> {
        self.send(!never_compressed(command.name()), |message| {
            message.set_flags(flag::MORE_TO_COME);
            write(message, database, command, sequences);
        })
    }

    /// Sends the message that `build` writes and returns the reply where it lies, without a copy. For commands that may be
    /// compressed; `$db` is up to the caller.
    pub fn call(&mut self, build: impl FnOnce(&mut OpMsgWriter<'_>)) -> Result<&RawDocument> {
        self.send(true, build)?;
        self.receive()
    }

    /// Sends the message that `build` writes; [`Connection::finish`] takes the reply, before anything else is sent. So may one
    /// thread have requests to several servers under way.
    pub fn begin(&mut self, build: impl FnOnce(&mut OpMsgWriter<'_>)) -> Result<()> {
        self.send(true, build)
    }

    /// Whether calls do what can be done now, for one thread that has many connections: then requests must be small enough to be sent
    /// at once, and [`Connection::finish`] comes after [`Connection::has_reply`].
    pub fn set_nonblocking(&mut self, nonblocking: bool) -> Result<()> {
        Ok(self.stream.set_nonblocking(nonblocking)?)
    }

    /// Takes what has come of the reply and says whether it is whole.
    pub fn has_reply(&mut self) -> Result<bool> {
        let whole = self.stream.has_frame();
        self.broken |= whole.is_err();
        Ok(whole?)
    }

    /// The reply to the message of [`Connection::begin`], where it lies.
    pub fn finish(&mut self) -> Result<&RawDocument> {
        self.receive()
    }

    /// Runs a command as drivers before OP_MSG did, by OP_QUERY and OP_REPLY.
    pub fn run_by_query(&mut self, database: &str, command: &RawDocument) -> Result<RawDocumentBuf> {
        self.next_request()?;
        write_query_command(&mut self.request, self.request_id, database, command);
        let sent = self.stream.send(&self.request);
        self.or_broken(sent)?;
        self.receive().map(RawDocument::to_owned)
    }

    /// Runs a command that answers with a cursor, and goes through its documents.
    pub fn cursor(&mut self, database: &str, command: &(impl Command + ?Sized)) -> Result<Cursor<'_>> {
        Cursor::open(self, database, command)
    }

    fn next_request(&mut self) -> Result<()> {
        if self.broken {
            let what = format!("the connection to {} was ended by an error before", self.address);
            return Err(fathom_errors::Error::new(Kind::Stopped, what).into());
        }
        self.request.clear();
        self.request_id = self.request_id.wrapping_add(1);
        Ok(())
    }

    fn send(&mut self, compressed: bool, build: impl FnOnce(&mut OpMsgWriter<'_>)) -> Result<()> {
        self.next_request()?;
        let mut message = OpMsgWriter::begin(&mut self.request, self.request_id, 0);
        build(&mut message);
        message.finish()?;
        let frame = match self.compressor.filter(|_| compressed) {
            None => &self.request,
            Some(compressor) => {
                self.packed.clear();
                self.codec.compress(&self.request, compressor, &mut self.packed)?;
                &self.packed
            }
        };
        let sent = self.stream.send(frame);
        self.or_broken(sent)
    }

    fn receive(&mut self) -> Result<&RawDocument> {
        let Connection { stream, codec, unpacked, request_id, broken, .. } = self;
        // Whatever goes wrong before the reply is read in full leaves the connection unusable.
        *broken = true;
        let mut frame = stream.receive()?;
        let mut header = Header::of_frame(frame).map_err(Error::protocol)?;
        if header.op_code == OpCode::COMPRESSED {
            codec.decompress(frame, unpacked).map_err(Error::protocol)?;
            frame = unpacked;
            header = Header::of_frame(frame).map_err(Error::protocol)?;
        }
        if header.response_to != *request_id {
            let what = format!("it answers request {} when {request_id} was asked", header.response_to);
            return Err(Error::protocol(what));
        }
        let document = match Message::parse(frame).map_err(Error::protocol)? {
            Message::Msg(message) if message.more_to_come() => {
                return Err(Error::protocol("it announces a reply that was not asked for"));
            }
            Message::Msg(message) => message.body,
            Message::Reply(reply) => {
                reply.documents().next().ok_or_else(|| Error::protocol("its OP_REPLY is empty"))?
            }
            Message::Query(_) => return Err(Error::protocol("it answers with a query")),
        };
        *broken = false;
        reply::check(document)?;
        Ok(document)
    }

    fn or_broken(&mut self, sent: fathom_errors::Result<()>) -> Result<()> {
        self.broken |= sent.is_err();
        Ok(sent?)
    }
}

/// For polls.
impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn write(
    message: &mut OpMsgWriter<'_>,
    database: &str,
    command: &(impl Command + ?Sized),
    sequences: &[(&str, &[RawDocumentBuf])],
) {
    let mut body = message.body();
    command.write(&mut body);
    body.string("$db", database);
    body.end();
    for (name, documents) in sequences {
        let mut sequence = message.sequence(name);
        documents.iter().for_each(|document| sequence.document(document));
    }
}
