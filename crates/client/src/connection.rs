//! A connection that sends one request at a time, each answered before the next.
//!
//! Buffers are reused, so that a load generator does not measure its own allocations. After a network error every further call
//! fails at once: later bytes on the socket belong to a request that no caller waits for any more. A connection that is ready for
//! commands can be taken apart for an event loop that drives many of them.

use std::fmt;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use fathom_errors::Kind;
use fathom_wire::{
    Code, Codec, Compressor, DocumentWriter, Failure, Header, Message, OpCode, OpMsgWriter, flag,
    never_compressed, write_query_command,
};

use crate::transport::TransportStream;
use crate::{Address, Error, Result, Transport};

/// A connection that is ready for commands.
#[derive(Debug)]
pub struct Connection {
    pub(crate) stream: TransportStream,
    address: Address,
    codec: Codec,
    compressor: Option<Compressor>,
    /// The request as written, and as sent if it is compressed.
    request: Vec<u8>,
    packed: Vec<u8>,
    /// A compressed reply after decompression.
    unpacked: Vec<u8>,
    request_id: i32,
    hello: RawDocumentBuf,
    hello_round_trip: Duration,
    broken: bool,
}

impl Connection {
    /// A connection before its handshake.
    pub(crate) fn new(stream: TransportStream, address: Address) -> Connection {
        Connection {
            stream,
            address,
            codec: Codec::default(),
            compressor: None,
            request: Vec::new(),
            packed: Vec::new(),
            unpacked: Vec::new(),
            request_id: 0,
            hello: RawDocumentBuf::new(),
            hello_round_trip: Duration::ZERO,
            broken: false,
        }
    }

    /// The reply to hello when the connection was made.
    pub fn hello(&self) -> &RawDocument {
        &self.hello
    }

    /// The duration of hello when the connection was made, without connecting and logging in.
    pub fn hello_round_trip(&self) -> Duration {
        self.hello_round_trip
    }

    /// Whether the server accepted writes when the connection was made.
    pub fn is_writable_primary(&self) -> bool {
        ["isWritablePrimary", "ismaster"].into_iter().any(|name| self.hello.get_bool(name).unwrap_or(false))
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The agreed compressor, if both sides share one.
    pub fn compressor(&self) -> Option<Compressor> {
        self.compressor
    }

    /// Whether a network error has ended this connection.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Sets the time limit for replies from now on; `None` for no limit.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        Ok(self.stream.set_timeout(timeout.filter(|timeout| !timeout.is_zero()))?)
    }

    /// Keeps the reply to hello, and how long it took.
    pub(crate) fn set_hello(&mut self, hello: RawDocumentBuf, round_trip: Duration) {
        (self.hello, self.hello_round_trip) = (hello, round_trip);
    }

    pub(crate) fn set_compressor(&mut self, compressor: Option<Compressor>) {
        self.compressor = compressor;
    }

    /// Runs a command on `database` and returns the reply; `ok: 0` becomes [`Error::Server`]. Errors of single writes
    /// (`writeErrors`, `writeConcernError`) are part of a reply that is ok.
    pub fn run(
        &mut self,
        database: &str,
        command: &(impl CommandDocument + ?Sized),
    ) -> Result<RawDocumentBuf> {
        self.run_with_sequences(database, command, &[])
    }

    /// Runs a command whose array fields are document sequences, such as `documents` of insert.
    pub fn run_with_sequences(
        &mut self,
        database: &str,
        command: &(impl CommandDocument + ?Sized),
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
        command: &(impl CommandDocument + ?Sized),
        sequences: &[(&str, &[RawDocumentBuf])],
    ) -> Result<()> {
        self.send(!never_compressed(command.name()), |message| {
            message.set_flags(flag::MORE_TO_COME);
            write(message, database, command, sequences);
        })
    }

    /// Sends the message that `build` writes and returns the reply in the receive buffer, without a copy. For commands that may be
    /// compressed; `$db` is up to the caller.
    pub fn call(&mut self, build: impl FnOnce(&mut OpMsgWriter<'_>)) -> Result<&RawDocument> {
        self.send(true, build)?;
        self.receive()
    }

    /// Sends the message that `build` writes; [`Connection::finish`] takes the reply, before anything else is sent. This lets one
    /// thread have requests to several servers outstanding.
    pub fn begin(&mut self, build: impl FnOnce(&mut OpMsgWriter<'_>)) -> Result<()> {
        self.send(true, build)
    }

    /// Makes calls do only what they can without waiting, for one thread with many connections: requests must then be small enough
    /// to be sent at once, and [`Connection::finish`] must follow [`Connection::has_reply`].
    pub fn set_nonblocking(&mut self, nonblocking: bool) -> Result<()> {
        Ok(self.stream.set_nonblocking(nonblocking)?)
    }

    /// Takes the available bytes of the reply and returns whether it is complete.
    pub fn has_reply(&mut self) -> Result<bool> {
        let whole = self.stream.has_frame();
        self.broken |= whole.is_err();
        Ok(whole?)
    }

    /// The reply to the message of [`Connection::begin`], borrowed from the buffer.
    pub fn finish(&mut self) -> Result<&RawDocument> {
        self.receive()
    }

    /// Runs a command as drivers did before OP_MSG, with OP_QUERY and OP_REPLY.
    pub fn run_by_query(&mut self, database: &str, command: &RawDocument) -> Result<RawDocumentBuf> {
        self.next_request()?;
        write_query_command(&mut self.request, self.request_id, database, command);
        let sent = self.stream.send(&self.request);
        self.or_broken(sent)?;
        self.receive().map(RawDocument::to_owned)
    }

    fn next_request(&mut self) -> Result<()> {
        if self.broken {
            let what = format!("the connection to {} has ended after an earlier error", self.address);
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
        // Any failure before the reply is read in full leaves the connection unusable.
        *broken = true;
        let mut frame = stream.receive()?;
        let mut header = Header::from_frame(frame).map_err(Error::protocol)?;
        if header.op_code == OpCode::COMPRESSED {
            codec.decompress(frame, unpacked).map_err(Error::protocol)?;
            frame = unpacked;
            header = Header::from_frame(frame).map_err(Error::protocol)?;
        }
        if header.response_to != *request_id {
            let what =
                format!("it answers request {}, but request {request_id} was sent", header.response_to);
            return Err(Error::protocol(what));
        }
        let document = match Message::parse(frame).map_err(Error::protocol)? {
            Message::Msg(message) if message.more_to_come() => {
                return Err(Error::protocol("it announces a further reply, although only one was requested"));
            }
            Message::Msg(message) => message.body,
            Message::Reply(reply) => {
                reply.documents().next().ok_or_else(|| Error::protocol("its OP_REPLY is empty"))?
            }
            Message::Query(_) => return Err(Error::protocol("it answers with a query")),
        };
        *broken = false;
        check(document)?;
        Ok(document)
    }

    fn or_broken(&mut self, sent: fathom_errors::Result<()>) -> Result<()> {
        self.broken |= sent.is_err();
        Ok(sent?)
    }
}

/// Lets callers poll the socket.
impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn write(
    message: &mut OpMsgWriter<'_>,
    database: &str,
    command: &(impl CommandDocument + ?Sized),
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

/// A command document, whose first field names the command.
pub trait CommandDocument {
    /// Writes the fields into the body of a message.
    fn write(&self, body: &mut DocumentWriter<'_>);

    /// The name of the command; empty for an empty document.
    fn name(&self) -> &str;
}

impl CommandDocument for RawDocument {
    fn write(&self, body: &mut DocumentWriter<'_>) {
        body.extend_raw(self);
    }

    fn name(&self) -> &str {
        self.iter_elements().next().and_then(Result::ok).map_or("", |element| element.key().as_str())
    }
}

impl CommandDocument for RawDocumentBuf {
    fn write(&self, body: &mut DocumentWriter<'_>) {
        body.extend_raw(self);
    }

    fn name(&self) -> &str {
        RawDocument::name(self)
    }
}

impl CommandDocument for Document {
    fn write(&self, body: &mut DocumentWriter<'_>) {
        body.extend(self);
    }

    fn name(&self) -> &str {
        self.keys().next().map_or("", String::as_str)
    }
}

/// The labels that drivers act on; other labels stay a field of the failure.
const LABELS: [&str; 6] = [
    "RetryableWriteError",
    "TransientTransactionError",
    "UnknownTransactionCommitResult",
    "ResumableChangeStreamError",
    "NoWritesPerformed",
    "SystemOverloadedError",
];

/// An error if `reply` is not ok.
fn check(reply: &RawDocument) -> Result<()> {
    let ok = match reply.get("ok") {
        Ok(Some(RawBsonRef::Double(value))) => value == 1.0,
        Ok(Some(RawBsonRef::Int32(value))) => value == 1,
        Ok(Some(RawBsonRef::Int64(value))) => value == 1,
        Ok(Some(RawBsonRef::Boolean(value))) => value,
        _ => return Err(Error::protocol("its reply has no ok")),
    };
    if ok { Ok(()) } else { Err(Error::Server(failure(reply))) }
}

#[cold]
fn failure(reply: &RawDocument) -> Failure {
    let code = reply.get_i32("code").map_or(Code::UnknownError, Code);
    let message = reply.get_str("errmsg").unwrap_or("the server gave no reason").to_owned();
    let mut failure = Failure::new(code, message);
    for (name, value) in reply.iter().flatten() {
        match (name.as_str(), value) {
            ("ok" | "code" | "errmsg" | "codeName", _) => {}
            ("errorLabels", RawBsonRef::Array(labels)) => {
                let known = |text: &str| LABELS.into_iter().find(|label| *label == text);
                for label in labels.into_iter().flatten().filter_map(|label| known(label.as_str()?)) {
                    failure = failure.labelled(label);
                }
            }
            (name, value) => {
                if let Ok(value) = Bson::try_from(value) {
                    failure = failure.with(name, value);
                }
            }
        }
    }
    failure
}

/// The parts of a connection after the handshake and login.
pub struct ConnectionParts {
    /// The socket, blocking and with the target's time-outs until changed.
    pub transport: Transport,
    /// Compresses and decompresses for this connection.
    pub codec: Codec,
    /// The agreed compressor, if any.
    pub compressor: Option<Compressor>,
    /// The number of the last request; the next is one more.
    pub request_id: i32,
    pub address: Address,
    /// The reply to hello.
    pub hello: RawDocumentBuf,
}

impl Connection {
    /// Takes the connection apart. No reply may be outstanding: unrequested bytes are an error, and so is a connection that a
    /// network error has ended.
    pub fn into_parts(self) -> Result<ConnectionParts> {
        let Connection { stream, address, codec, compressor, request_id, hello, broken, .. } = self;
        if broken {
            let what = format!("the connection to {address} has ended after an earlier error");
            return Err(fathom_errors::Error::new(Kind::Stopped, what).into());
        }
        let (transport, unread_bytes) = stream.into_transport();
        if unread_bytes > 0 {
            let what = format!("it sent {unread_bytes} bytes without a request");
            return Err(Error::protocol(what));
        }
        Ok(ConnectionParts { transport, codec, compressor, request_id, address, hello })
    }
}

impl fmt::Debug for ConnectionParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionParts")
            .field("transport", &self.transport)
            .field("compressor", &self.compressor)
            .field("request_id", &self.request_id)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// A handle that ends a connection; the thread that waits on it gets an error.
#[derive(Debug)]
pub struct Interrupter(TcpStream);

impl Interrupter {
    /// Ends the connection; no effect if it has ended already.
    pub fn interrupt(&self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

impl Connection {
    /// A handle to end this connection from another thread.
    pub fn interrupter(&self) -> Result<Interrupter> {
        Ok(Interrupter(self.stream.socket()?))
    }
}
