//! What answers the messages of connections: a request as it came, what becomes of its reply, and what is kept of a
//! connection, by a thread of its own or between two messages that no thread waits for.
//!
//! A service takes connections over and hands them back, so its trait and the two states of a connection name each
//! other. What is done with a connection stands in files of its own above this one.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::JoinHandle;

use bson::{RawDocument, doc};
use fathom_errors::{Error, Kind};
use fathom_wire::{Code, Codec, DocumentWriter, Failure, OpMsg, OpQuery};
use parking_lot::Mutex;

use crate::log::Log;
use crate::stream::Stream;
use crate::{Result, Traffic};

/// Room for the first message of a connection, a hello: who sends less than that keeps no more memory busy.
const FIRST_BYTES: usize = 1 << 10;

/// What answers the messages of many connections.
pub trait Service: Send + Sync + Sized + 'static {
    /// What is kept of a connection from message to message, by its own thread.
    type Peer: Send + 'static;

    /// Where connections that come and go are noted.
    fn log(&self) -> &Log;
    /// What counts their bytes.
    fn traffic(&self) -> &Traffic;
    /// Whether no more is to be answered.
    fn is_stopping(&self) -> bool;
    /// A connection was accepted: its number, which no other has, and what to keep of it. By the socket it can be ended from outside.
    fn welcome(&self, remote: &str, socket: &Arc<TcpStream>) -> (u64, Self::Peer);
    /// A connection was turned away because there are too many.
    fn turn_away(&self);
    /// Appends the reply to a request; an error ends the connection.
    fn answer(
        self: &Arc<Self>,
        peer: &mut Self::Peer,
        incoming: &Incoming<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Answer>;
    /// Whether the connection is to end now that its command is answered.
    fn is_over(&self, peer: &Self::Peer) -> bool;
    /// A connection of this number ended.
    fn leave(&self, id: u64);
    /// Whether a connection in the clear, between two messages, is to go on by [`Service::take_over`] and no longer by a thread
    /// of its own.
    fn is_wanted(&self, _: &Self::Peer) -> bool {
        false
    }
    /// Takes a connection that [`Service::is_wanted`].
    fn take_over(self: &Arc<Self>, connection: Unattended<Self>) {
        connection.attend();
    }
}

/// A connection and what it keeps between messages.
pub(super) struct Connection<S: Service> {
    pub(super) service: Arc<S>,
    pub(super) id: u64,
    pub(super) remote: String,
    pub(super) peer: S::Peer,
    pub(super) stream: Stream,
    /// Room for bytes that are read; the first `filled` are, and are not used yet.
    pub(super) input: Vec<u8>,
    pub(super) filled: usize,
    pub(super) output: Vec<u8>,
    pub(super) plain: Vec<u8>,
    pub(super) codec: Codec,
    pub(super) requests: i32,
    /// Whether the last message came compressed.
    pub(super) compressed: bool,
    /// Takes it out of the lists when it ends, also when its thread panics.
    _leave: Leave<S>,
}

impl<S: Service> Connection<S> {
    pub(super) fn new(
        service: Arc<S>,
        (id, remote): (u64, String),
        peer: S::Peer,
        (stream, mut input): (Stream, Vec<u8>),
        leave: Leave<S>,
    ) -> Connection<S> {
        let filled = input.len();
        input.resize(FIRST_BYTES.max(filled), 0);
        Connection {
            service,
            id,
            remote,
            peer,
            stream,
            input,
            filled,
            output: Vec::new(),
            plain: Vec::new(),
            codec: Codec::default(),
            requests: 0,
            compressed: false,
            _leave: leave,
        }
    }
}

/// A connection in the clear whose last message is answered.
pub struct Unattended<S: Service> {
    pub(super) connection: Connection<S>,
    /// Whether the socket had no more when it was last read.
    pub(super) drained: bool,
    /// How much of the reply is sent.
    pub(super) sent: usize,
}

impl<S: Service> Unattended<S> {
    pub(super) fn new(connection: Connection<S>) -> Unattended<S> {
        let sent = connection.output.len();
        Unattended { connection, drained: false, sent }
    }
}

/// The sockets of all connections, so that they can be ended from outside, and their threads.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    pub(super) open: Mutex<HashMap<u64, Arc<TcpStream>>>,
}

/// Takes a connection out of the lists when it ends.
pub(super) struct Leave<S: Service> {
    pub(super) service: Arc<S>,
    pub(super) sockets: Arc<Sockets>,
    pub(super) id: u64,
}

impl<S: Service> Drop for Leave<S> {
    fn drop(&mut self) {
        self.service.leave(self.id);
        let mut open = self.sockets.open.lock();
        open.remove(&self.id);
        let left = i64::try_from(open.len()).unwrap_or(i64::MAX);
        drop(open);
        let attributes = doc! {
            "connectionId": i64::try_from(self.id).unwrap_or(i64::MAX),
            "connectionCount": left,
        };
        let context = format!("conn{}", self.id);
        self.service.log().info("NETWORK", 22944, &context, "Connection ended", attributes);
    }
}

/// A request as it came.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// An OP_MSG.
    Message(&'a OpMsg<'a>),
    /// A command of an old driver's handshake.
    Query(&'a OpQuery<'a>),
}

/// What becomes of the reply that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is sent as the client likes it.
    MayCompress,
    /// It holds secrets or comes before compression is agreed.
    Plain,
    /// There is none; the connection ends.
    Close,
    /// There is none yet: of an event loop, which leaves the request to a thread of the connection's own.
    Unanswered,
}

/// The command's own document; an OP_QUERY that is no command is refused.
pub fn body_of<'a>(incoming: &Incoming<'a>) -> Result<&'a RawDocument> {
    match incoming {
        Incoming::Message(message) => Ok(message.body),
        Incoming::Query(query) if query.command_database().is_some() => Ok(query.command()),
        Incoming::Query(_) => Err(Failure::new(Code(5_739_100), "OP_QUERY is supported for commands only")),
    }
}

/// Starts a background thread of a service.
///
/// # Errors
/// When the system cannot start a thread.
pub fn spawn_thread<S: Send + Sync + 'static>(
    name: &str,
    service: &Arc<S>,
    run: impl FnOnce(&Arc<S>) + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    let service = Arc::clone(service);
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || run(&service))
        .map_err(|error| Error::new(Kind::Io, format!("cannot start the thread {name}")).because(error))
}

/// A failed reply: `{ok: 0, errmsg, code, codeName}` and what else the failure carries; `unsaid` is a label that is for the
/// process alone.
pub fn write_failure(reply: &mut DocumentWriter<'_>, failure: &Failure, unsaid: Option<&str>) {
    reply.f64("ok", 0.0);
    reply.string("errmsg", failure.message());
    reply.i32("code", failure.code().0);
    reply.string("codeName", &failure.code().name());
    reply.extend(failure.extra());
    let labels: Vec<&str> = failure.labels().iter().copied().filter(|label| unsaid != Some(*label)).collect();
    if !labels.is_empty() {
        let mut array = reply.begin_array("errorLabels");
        labels.iter().for_each(|label| array.string(label));
    }
}
