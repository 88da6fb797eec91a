//! The interface of a service that answers the messages of connections: a received request, the fate of its reply, and
//! the state of a connection, either on a thread of its own or idle between two messages.
//!
//! A service takes connections over and hands them back, so its trait and the two states of a connection refer to each
//! other. The code that works on connections is in separate files above this one.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::JoinHandle;

use bson::{RawDocument, doc};
use fathom_errors::{Error, Kind};
use fathom_wire::{Code, Codec, DocumentWriter, Failure, OpMsg, OpQuery};
use parking_lot::Mutex;

use crate::log::Log;
use crate::stream::SocketStream;
use crate::{NetworkCounters, Result};

/// The buffer for the first message of a connection, a hello: a client that sends less uses no more memory.
const FIRST_BYTES: usize = 1 << 10;

/// A service that answers the messages of many connections.
pub trait Service: Send + Sync + Sized + 'static {
    /// The state of a connection from message to message, owned by its own thread.
    type Peer: Send + 'static;

    /// The log for opened and closed connections.
    fn log(&self) -> &Log;
    /// The counters of its traffic.
    fn traffic(&self) -> &NetworkCounters;
    /// Whether the service is stopping and answers no more requests.
    fn is_stopping(&self) -> bool;
    /// Accepts a connection: returns its unique number and its state. The socket allows it to be closed from outside.
    fn welcome(&self, remote: &str, socket: &Arc<TcpStream>) -> (u64, Self::Peer);
    /// Records a connection that was refused because there are too many.
    fn turn_away(&self);
    /// Appends the reply to a request; an error ends the connection.
    fn answer(
        self: &Arc<Self>,
        peer: &mut Self::Peer,
        incoming: &RequestMessage<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Answer>;
    /// Whether the connection must be closed now that its command is answered.
    fn is_over(&self, peer: &Self::Peer) -> bool;
    /// Records that the connection with this number ended.
    fn leave(&self, id: u64);
    /// Whether an unencrypted connection, between two messages, should continue by [`Service::take_over`] instead of a thread
    /// of its own.
    fn is_wanted(&self, _: &Self::Peer) -> bool {
        false
    }
    /// Takes a connection over for which [`Service::is_wanted`] was true.
    fn take_over(self: &Arc<Self>, connection: IdleConnection<Self>) {
        connection.attend();
    }
}

/// A connection and its state between messages.
pub(super) struct ServedConnection<S: Service> {
    pub(super) service: Arc<S>,
    pub(super) id: u64,
    pub(super) remote: String,
    pub(super) peer: S::Peer,
    pub(super) stream: SocketStream,
    /// The input buffer; its first `filled` bytes are read but not yet used.
    pub(super) input: Vec<u8>,
    pub(super) filled: usize,
    pub(super) output: Vec<u8>,
    pub(super) plain: Vec<u8>,
    pub(super) codec: Codec,
    pub(super) requests: i32,
    /// Whether the last message came compressed.
    pub(super) compressed: bool,
    /// Removes it from the lists when it ends, even if its thread panics.
    _leave: ConnectionGuard<S>,
}

impl<S: Service> ServedConnection<S> {
    pub(super) fn new(
        service: Arc<S>,
        (id, remote): (u64, String),
        peer: S::Peer,
        (stream, mut input): (SocketStream, Vec<u8>),
        leave: ConnectionGuard<S>,
    ) -> ServedConnection<S> {
        let filled = input.len();
        input.resize(FIRST_BYTES.max(filled), 0);
        ServedConnection {
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

/// An unencrypted connection whose last message is answered.
pub struct IdleConnection<S: Service> {
    pub(super) connection: ServedConnection<S>,
    /// Whether the socket was empty after the last read.
    pub(super) drained: bool,
    /// The number of bytes of the reply already sent.
    pub(super) sent: usize,
}

impl<S: Service> IdleConnection<S> {
    pub(super) fn new(connection: ServedConnection<S>) -> IdleConnection<S> {
        let sent = connection.output.len();
        IdleConnection { connection, drained: false, sent }
    }
}

/// The sockets of all connections, so that they can be closed from outside, and their threads.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    pub(super) open: Mutex<HashMap<u64, Arc<TcpStream>>>,
}

/// Removes a connection from the lists when it ends.
pub(super) struct ConnectionGuard<S: Service> {
    pub(super) service: Arc<S>,
    pub(super) sockets: Arc<Sockets>,
    pub(super) id: u64,
}

impl<S: Service> Drop for ConnectionGuard<S> {
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

/// A request as it was received.
#[derive(Debug)]
pub enum RequestMessage<'a> {
    Message(&'a OpMsg<'a>),
    /// A command of an old driver's handshake.
    Query(&'a OpQuery<'a>),
}

/// The treatment of the reply that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is sent in the form that the client prefers.
    MayCompress,
    /// It is sent uncompressed, because it holds secrets or precedes the agreement on compression.
    Plain,
    /// No reply is sent, and the connection is closed.
    Close,
    /// No reply exists yet: an event loop leaves the request to the connection's own thread.
    Unanswered,
}

/// The command's own document; an OP_QUERY that is not a command is refused.
pub fn body_of<'a>(incoming: &RequestMessage<'a>) -> Result<&'a RawDocument> {
    match incoming {
        RequestMessage::Message(message) => Ok(message.body),
        RequestMessage::Query(query) if query.command_database().is_some() => Ok(query.command()),
        RequestMessage::Query(_) => {
            Err(Failure::new(Code(5_739_100), "OP_QUERY is supported for commands only"))
        }
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

/// Writes a failed reply: `{ok: 0, errmsg, code, codeName}` and the failure's other fields; `unsaid` is a label that only
/// the process may see.
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
