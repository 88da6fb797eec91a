//! Relays queries that one shard answers, and their replies, in a few event loops instead of a thread for each client.
//!
//! A thread that waits for its client, then for a shard, sleeps and is woken twice for each query, which costs more than all the
//! work on the query itself (docs/journal). A loop therefore takes over a connection that has sent only such queries for a while.
//! The connection returns to a thread of its own at the first message that is anything else or does not succeed: the loop never
//! answers with a failure, repeats nothing and waits only for its sockets, so that one place decides on a client's replies.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_client::{Connection, ReadPreference};
use fathom_service::event_loop::{BELL, EventLoop, LoopLoad, Meter, excess};
use fathom_service::parse::IndexedDocument;
use fathom_service::{BufferState, IdleConnection, RequestMessage, body_of};
use fathom_wire::DocumentWriter;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;

use crate::backend::Backend;
use crate::commands::{cursor_terms, for_shard, pass_cursor_on, shards_of};
use crate::counters::OperationWaits;
use crate::cursors::CursorOptions;
use crate::dispatch::{count, request_of};
use crate::instance::Instance;
use crate::request::{Command, Request};
use crate::shard_command::ShardCommand;

/// Runs one of the loops until the router stops.
pub(crate) fn run(instance: &Arc<Instance>, place: usize) {
    let loops = instance.relay.all();
    if let Some(one) = loops.get(place) {
        let _ending = one.ending();
        let before = place.checked_sub(1).and_then(|before| loops.get(before));
        RelayedClients::new(instance, one, before.map(|before| before.load())).run();
    }
}

/// A larger request could fill a socket and make the loop wait.
const MAX_REQUEST_BYTES: usize = 8 << 10;

/// A query for one shard.
struct TargetedQuery<'a> {
    request: Request<'a>,
    backend: Arc<Backend>,
    outgoing: ShardCommand<'a>,
    options: CursorOptions,
}

impl<'a> TargetedQuery<'a> {
    /// The query in a request of `length` bytes; `None` if it is anything else or invalid, or if the route to its shard is not
    /// cached.
    fn read(
        instance: &Instance,
        length: usize,
        incoming: &RequestMessage<'a>,
        fields: &'a IndexedDocument<'a>,
    ) -> Option<TargetedQuery<'a>> {
        if length > MAX_REQUEST_BYTES || fields.first()?.0 != "find" {
            return None;
        }
        let request = request_of(instance, incoming, fields).ok()?;
        if request.generic.is_numbered {
            return None;
        }
        let (_, options) = cursor_terms(&request).ok()?;
        let route = instance.known_route(request.database, &request.namespace().ok()?)?;
        let shards = shards_of(&request, &route).ok()?;
        let [shard] = shards.as_slice() else { return None };
        let backend = instance.cluster.known_shard(shard)?;
        let outgoing = for_shard(&request, &route, shard).ok()?;
        Some(TargetedQuery { request, backend, outgoing, options })
    }
}

/// Events taken from the kernel at once.
const MAX_EVENTS_AT_ONCE: usize = 128;
/// The interval at which a stopping router checks for unanswered queries.
const STOP_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// The time that such queries are given.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

struct RelayedClient {
    connection: IdleConnection<Instance>,
    asked: Option<ShardQuery>,
}

/// A query that was sent to a shard.
struct ShardQuery {
    command: &'static Command,
    shard: u64,
    /// The size of the request in bytes.
    length: usize,
    begun: Instant,
    sent: Instant,
    database: String,
    options: CursorOptions,
}

/// The clients of a loop. The numbers in events are never reused: clients have even numbers, shards odd ones.
struct RelayedClients<'l> {
    instance: &'l Arc<Instance>,
    own: &'l EventLoop<Instance>,
    sessions: HashMap<u64, RelayedClient>,
    shards: ShardConnections<'l>,
    next: u64,
    meter: Meter,
    /// The load of the previous loop, which takes over this loop's connections when both have little to do.
    before: Option<&'l LoopLoad>,
}

impl<'l> RelayedClients<'l> {
    fn new(
        instance: &'l Arc<Instance>,
        own: &'l EventLoop<Instance>,
        before: Option<&'l LoopLoad>,
    ) -> RelayedClients<'l> {
        let shards = ShardConnections::new(own.epoll());
        RelayedClients {
            instance,
            own,
            sessions: HashMap::new(),
            shards,
            next: 0,
            meter: Meter::new(),
            before,
        }
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(MAX_EVENTS_AT_ONCE);
        let mut stopped = None;
        loop {
            if self.instance.is_stopping() {
                self.sessions.retain(|_, session| session.asked.is_some());
                let since = *stopped.get_or_insert_with(Instant::now);
                if self.sessions.is_empty() || since.elapsed() > STOP_TIMEOUT {
                    break;
                }
            }
            events.clear();
            // An interrupted wait counts as one without events; any other failure would repeat itself.
            let waited = epoll::wait(
                self.own.epoll(),
                spare_capacity(&mut events),
                stopped.is_some().then_some(&STOP_POLL),
            );
            if waited.is_err_and(|error| error != rustix::io::Errno::INTR) {
                break;
            }
            for event in &events {
                match event.data.u64() {
                    BELL => self.welcome(),
                    number if number % 2 == 1 => self.shard_spoke(number),
                    number => self.client_spoke(number),
                }
            }
            if let Some(percent) = self.meter.measure(self.own.load()) {
                self.give_up(excess(percent, self.before.map(LoopLoad::percent), self.sessions.len()));
            }
        }
    }

    /// Gives up to `most` clients that wait for no reply their threads again; the first loop with room takes them over from there.
    fn give_up(&mut self, most: usize) {
        let rests = |(number, session): (&u64, &RelayedClient)| session.asked.is_none().then_some(*number);
        let resting: Vec<u64> = self.sessions.iter().filter_map(rests).take(most).collect();
        resting.into_iter().for_each(|number| self.hand_back(number));
    }

    fn welcome(&mut self) {
        for connection in self.own.arrivals() {
            let number = self.number();
            let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
            if epoll::add(self.own.epoll(), &connection, epoll::EventData::new_u64(number), flags).is_err() {
                leave(connection);
                continue;
            }
            self.sessions.insert(number, RelayedClient { connection, asked: None });
            self.go_on(number);
        }
    }

    /// An even number; the next one is odd.
    fn number(&mut self) -> u64 {
        self.next += 2;
        self.next
    }

    fn client_spoke(&mut self, number: u64) {
        let Some(session) = self.sessions.get_mut(&number) else { return };
        session.connection.wake();
        // A client that sends while its query is unanswered is read afterwards.
        if session.asked.is_none() {
            self.go_on(number);
        }
    }

    /// Forwards the client's next query, if it has arrived.
    fn go_on(&mut self, number: u64) {
        let Some(session) = self.sessions.get_mut(&number) else { return };
        match session.connection.receive() {
            BufferState::Part => {}
            BufferState::End => {
                self.sessions.remove(&number);
                self.shards.give_back(self.sessions.len());
            }
            BufferState::Frame(length) => {
                if self.ask(number, length).is_none() {
                    self.hand_back(number);
                }
            }
        }
    }

    /// Sends a query of `length` bytes to its shard; `None` if the loop cannot handle the request.
    fn ask(&mut self, number: u64, length: usize) -> Option<()> {
        let begun = Instant::now();
        let shard_number = self.number() + 1;
        let session = self.sessions.get_mut(&number)?;
        let message = session.connection.command(length)?;
        let incoming = RequestMessage::Message(&message);
        let fields = IndexedDocument::from_document(body_of(&incoming).ok()?).ok()?;
        let TargetedQuery { request, backend, outgoing, options } =
            TargetedQuery::read(self.instance, length, &incoming, &fields)?;
        let shard = self.shards.take((&backend, &request.generic.preference), number, shard_number)?;
        let sent = Instant::now();
        let connection = &mut self.shards.get(shard)?.connection;
        if connection.begin(|message| outgoing.write(request.database, message)).is_err() {
            self.shards.discard(shard);
            return None;
        }
        let database = request.database.to_owned();
        session.asked =
            Some(ShardQuery { command: request.command, shard, length, begun, sent, database, options });
        Some(())
    }

    fn shard_spoke(&mut self, number: u64) {
        let Some(shard) = self.shards.get(number) else { return };
        let client = shard.client;
        match (shard.connection.has_reply(), client) {
            (Ok(false), _) => {}
            (Ok(true), Some(client)) => self.deliver(client),
            // The shard closed the connection, or sent an unrequested message.
            _ => {
                self.shards.discard(number);
                if let Some(client) = client {
                    self.hand_back(client);
                }
            }
        }
    }

    /// Passes on a shard's reply; a query that did not succeed is repeated by a thread, which can handle the failure.
    fn deliver(&mut self, number: u64) {
        let Some(session) = self.sessions.get_mut(&number) else { return };
        let Some(asked) = session.asked.take() else { return };
        let Some(shard) = self.shards.get(asked.shard) else { return };
        let waited = asked.sent.elapsed();
        let (instance, backend) = (self.instance, &shard.backend);
        let answered = shard.connection.finish().ok().and_then(|answer| {
            let terms = (asked.database.as_str(), asked.options);
            let write = |out: &mut Vec<u8>| {
                let mut reply = DocumentWriter::new(out);
                pass_cursor_on(instance, terms, backend, answer, &mut reply)?;
                reply.f64("ok", 1.0);
                Ok(())
            };
            session.connection.reply(asked.length, write).ok()
        });
        if shard.connection.is_broken() {
            self.shards.discard(asked.shard);
        } else {
            self.shards.rest(asked.shard);
        }
        if answered.is_some() {
            self.count(&asked, waited);
        }
        match answered {
            Some(true) => self.go_on(number),
            _ => self.hand_back(number),
        }
    }

    fn count(&self, asked: &ShardQuery, waited: Duration) {
        let counters = &self.instance.counters;
        counters.queries.add(1);
        counters.relayed.add(1);
        let us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        count(self.instance, asked.command, asked.begun, OperationWaits { us, data_us: 0, shards: 1 }, false);
    }

    /// Returns a client to a thread of its own.
    fn hand_back(&mut self, number: u64) {
        let Some(RelayedClient { connection, .. }) = self.sessions.remove(&number) else { return };
        let _ = epoll::delete(self.own.epoll(), &connection);
        // Idle connections return to the shards' pools, where the client's next request finds one.
        self.shards.give_back(self.sessions.len());
        leave(connection);
    }
}

fn leave(connection: IdleConnection<Instance>) {
    connection.peer().end_one_shard_queries();
    connection.attend();
}

#[derive(Debug)]
struct ShardConnection {
    backend: Arc<Backend>,
    connection: Connection,
    /// The client that waits for a reply on this connection.
    client: Option<u64>,
}

/// All connections of a loop to shards, by the number that events carry.
#[derive(Debug)]
struct ShardConnections<'l> {
    epoll: &'l OwnedFd,
    all: HashMap<u64, ShardConnection>,
    idle: Vec<u64>,
}

impl<'l> ShardConnections<'l> {
    fn new(epoll: &'l OwnedFd) -> ShardConnections<'l> {
        ShardConnections { epoll, all: HashMap::new(), idle: Vec::new() }
    }

    /// A connection for a client's query: an idle one of the loop, or else one from the shard's pool, which gets the number
    /// `number`; `None` if a new one would have to be opened.
    fn take(
        &mut self,
        (backend, preference): (&Arc<Backend>, &ReadPreference),
        client: u64,
        number: u64,
    ) -> Option<u64> {
        let wanted = backend.known_member(preference)?;
        let fits = |number: &&u64| {
            self.all
                .get(number)
                .is_some_and(|one| Arc::ptr_eq(&one.backend, backend) && *one.connection.address() == wanted)
        };
        if let Some(place) = self.idle.iter().rposition(|number| fits(&number)) {
            let number = self.idle.swap_remove(place);
            self.all.get_mut(&number)?.client = Some(client);
            return Some(number);
        }
        let mut connection = backend.idle_connection(&wanted)?;
        let data = epoll::EventData::new_u64(number);
        let ready = connection.set_nonblocking(true).is_ok()
            && epoll::add(self.epoll, &connection, data, epoll::EventFlags::IN | epoll::EventFlags::ET)
                .is_ok();
        if !ready {
            backend.discard(&connection);
            return None;
        }
        self.all.insert(
            number,
            ShardConnection { backend: Arc::clone(backend), connection, client: Some(client) },
        );
        Some(number)
    }

    fn get(&mut self, number: u64) -> Option<&mut ShardConnection> {
        self.all.get_mut(&number)
    }

    /// Marks a connection idle: its query is answered.
    fn rest(&mut self, number: u64) {
        if let Some(one) = self.all.get_mut(&number) {
            one.client = None;
            self.idle.push(number);
        }
    }

    /// Closes a connection that failed.
    fn discard(&mut self, number: u64) {
        self.idle.retain(|idle| *idle != number);
        if let Some(ShardConnection { backend, connection, .. }) = self.all.remove(&number) {
            let _ = epoll::delete(self.epoll, &connection);
            backend.discard(&connection);
        }
    }

    /// Returns idle connections to their pools until at most `most` are left.
    fn give_back(&mut self, most: usize) {
        while self.idle.len() > most {
            let Some(number) = self.idle.pop() else { return };
            let Some(ShardConnection { backend, mut connection, .. }) = self.all.remove(&number) else {
                continue;
            };
            let _ = epoll::delete(self.epoll, &connection);
            match connection.set_nonblocking(false) {
                Ok(()) => backend.give_back(connection),
                Err(_) => backend.discard(&connection),
            }
        }
    }
}
