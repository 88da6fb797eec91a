//! Tests of event loops without the watch and the meters, which judge by the machine's clocks: the test opens the gate, looks and dissolves
//! itself, so that it knows who serves each operation.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bson::Document;
use fathom_client::{Address, Code, Connection, Target};
use fathom_service::{ConnectionLimits, Listener, bind};
use fathom_wire::{Header, Message, OpMsgWriter, flag};

use super::*;
use crate::config::{Config, EngineName};
use crate::executor::MIN_CONSECUTIVE_BRIEF;
use crate::log::Log;

/// The limit of a wait for an event, which only a server that hangs reaches.
const TIMEOUT: Duration = Duration::from_secs(300);

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A server with event loops and an open gate, without a watch.
struct UnwatchedServer {
    instance: Arc<Instance>,
    listener: Listener,
    threads: Vec<JoinHandle<()>>,
}

impl UnwatchedServer {
    fn start() -> UnwatchedServer {
        let mut config = Config::default();
        config.storage.engine = EngineName::Ephemeral;
        config.storage.db_path = "/nonexistent".into();
        config.set_parameters.insert("enableTestCommands".to_owned(), "1".to_owned());
        let log = Arc::new(Log::quiet(&config.log_options()));
        let engine = crate::engines::open(&config.storage, &log).unwrap();
        let (instance, _) = Instance::new(config, engine, None, log, crate::commands::registry()).unwrap();
        let loops = 0..instance.executor.stages.len();
        let run = |place| {
            spawn_thread("EventLoop", &instance, move |instance| run_loop(instance, place, None)).unwrap()
        };
        let threads: Vec<JoinHandle<()>> = loops.map(run).collect();
        let sockets = bind(&["127.0.0.1".to_owned()], 0, |host| {
            fathom_client::host_addresses(host, 0, fathom_client::LOOK_UP_TIMEOUT)
        });
        let sockets = sockets.unwrap();
        instance.port.set(sockets[0].local_addr().unwrap().port()).unwrap();
        let limits = ConnectionLimits { max_connections: 100, may_be_plain: true };
        let listener = Listener::start(&instance, sockets, limits, None).unwrap();
        instance.executor.gate.open();
        UnwatchedServer { instance, listener, threads }
    }

    fn connect(&self) -> Connection {
        let port = *self.instance.port.get().unwrap();
        let mut target = Target::at(Address::new("127.0.0.1", port));
        target.socket_timeout = Some(TIMEOUT);
        Connection::connect(&target).unwrap()
    }

    /// Connections that loops serve, and a few documents.
    fn crowd(&self, count: usize) -> Vec<Connection> {
        let documents: Vec<Document> = (0..8).map(|id| doc! { "_id": id, "square": id * id }).collect();
        run(&mut self.connect(), &doc! { "insert": "c", "documents": documents });
        let mut crowd: Vec<Connection> = (0..count).map(|_| self.connect()).collect();
        self.bring(&mut crowd);
        crowd
    }

    /// Sends as many brief queries as it takes until loops serve connections that have threads.
    fn bring(&self, connections: &mut [Connection]) {
        let before = self.instance.executor.connections();
        for connection in connections.iter_mut() {
            (0..MIN_CONSECUTIVE_BRIEF).for_each(|number| read(connection, number % 8));
        }
        self.wait_for_connections(before + connections.len());
    }

    fn wait_for_connections(&self, count: usize) {
        until("loops serve these connections", || self.instance.executor.connections() == count);
    }

    /// Stops it; returns the number of operations that loops served.
    fn stop(self) -> u64 {
        self.instance.stop();
        self.listener.stop();
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        self.instance.executor.executed.get()
    }
}

fn run(connection: &mut Connection, command: &Document) -> Document {
    let reply = connection.run("test", command).unwrap_or_else(|error| panic!("{command}: {error}"));
    Document::try_from(&*reply).unwrap()
}

fn read(connection: &mut Connection, id: u32) {
    let reply = run(connection, &doc! { "find": "c", "filter": { "_id": id }, "limit": 1 });
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    assert_eq!(batch[0].as_document().unwrap().get_i32("square").unwrap().unsigned_abs(), id * id, "{reply}");
}

/// One of the loops, as its own thread has it.
fn loop_thread<'l>(instance: &'l Arc<Instance>, before: Option<&'l LoopLoad>) -> LoopThread<'l> {
    let (own, stage) = (&instance.executor.loops.all()[0], &instance.executor.stages[0]);
    LoopThread { instance, own, stage, before, meter: None }
}

#[test]
fn a_connection_moves_to_a_loop_after_a_run_of_brief_operations_and_leaves_it_for_others() {
    let server = UnwatchedServer::start();
    let connections = || server.instance.executor.connections();
    let mut crowd = server.crowd(6);
    crowd.iter_mut().for_each(|connection| (0..8).for_each(|id| read(connection, id)));
    // Each leaves its loop for its answer, and no other one does.
    let pipeline = doc! { "aggregate": "c", "pipeline": [{ "$count": "n" }], "cursor": {} };
    assert!(run(&mut crowd[0], &pipeline).to_string().contains("\"n\": 8"));
    assert_eq!(connections(), 5);
    let journaled = doc! { "insert": "j", "documents": [{}], "writeConcern": { "w": 1, "j": true } };
    assert_eq!(run(&mut crowd[1], &journaled).get_i32("n").unwrap(), 1);
    assert_eq!(connections(), 4);
    let large = doc! { "insert": "c", "documents": [{ "_id": 8, "text": "x".repeat(20_000) }] };
    assert_eq!(run(&mut crowd[2], &large).get_i32("n").unwrap(), 1);
    assert_eq!(connections(), 3);
    server.bring(&mut crowd[..3]);
    assert_eq!(connections(), 6);
    // A failure is a reply like any other.
    let wrong = doc! { "find": "c", "filter": { "_id": { "$nonsense": 1 } }, "limit": 1 };
    let failed = crowd[0].run("test", &wrong).unwrap_err();
    assert_eq!(failed.failure().unwrap().code(), Code::BadValue);
    crowd.iter_mut().for_each(|connection| read(connection, 7));
    drop(crowd.pop());
    server.wait_for_connections(5);
    assert_eq!(server.stop(), 6 * 8 + 1 + 6);
}

#[test]
fn an_operation_that_only_turns_out_to_be_long_is_the_last_in_its_loop() {
    let server = UnwatchedServer::start();
    let mut crowd = server.crowd(2);
    let many: Vec<Document> = (0..400).map(|n| doc! { "n": n }).collect();
    run(&mut server.connect(), &doc! { "insert": "many", "documents": many });
    let scan = doc! { "find": "many", "filter": { "n": 399 }, "limit": 1 };
    assert!(run(&mut crowd[0], &scan).to_string().contains("399"));
    // Its thread answers the next one, however brief, while the loop keeps the other connection.
    read(&mut crowd[0], 1);
    assert_eq!(server.instance.executor.connections(), 1);
    read(&mut crowd[1], 2);
    assert_eq!(server.stop(), 2);
}

#[test]
fn a_loop_serves_small_writes() {
    let server = UnwatchedServer::start();
    let mut crowd = server.crowd(5);
    for (place, connection) in (0..).zip(&mut crowd) {
        let update = doc! { "q": { "_id": place }, "u": { "$set": { "by": place } } };
        let reply = run(connection, &doc! { "update": "c", "updates": [update] });
        assert_eq!(reply.get_i32("nModified").unwrap(), 1, "{reply}");
        run(connection, &doc! { "insert": "c", "documents": [{ "_id": 100 + place }] });
        let delete = doc! { "delete": "c", "deletes": [{ "q": { "_id": 5 + place }, "limit": 1 }] };
        assert_eq!(run(connection, &delete).get_i32("n").unwrap(), i32::from(place < 3));
    }
    let find = doc! { "find": "c", "sort": { "_id": 1 } };
    let reply = run(&mut server.connect(), &find);
    let found = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    let found: Vec<&Document> = found.iter().filter_map(bson::Bson::as_document).collect();
    let ids: Vec<i32> = found.iter().map(|one| one.get_i32("_id").unwrap()).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]);
    assert!(found.iter().take(5).all(|one| one.get("by") == one.get("_id")));
    assert_eq!(server.stop(), 5 * 3);
}

#[test]
fn an_operation_that_waits_holds_nobody_up() {
    let server = UnwatchedServer::start();
    let instance = Arc::clone(&server.instance);
    let mut crowd = server.crowd(6);
    let data = doc! {
        "failCommands": ["find"], "namespace": "test.slow", "blockConnection": true, "blockTimeMS": 600_000,
    };
    let point = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data };
    server.connect().run("admin", &point).unwrap();
    let mut waits = crowd.pop().unwrap();
    let thread = std::thread::spawn(move || {
        let failed = waits.run("test", &doc! { "find": "slow", "limit": 1 }).unwrap_err();
        (waits, failed.failure().unwrap().code())
    });
    let slow = || {
        let clients = instance.clients.all();
        clients.into_iter().find(|client| {
            client.activity().command.get_str("find").is_ok_and(|name| name == "slow") && client.is_active()
        })
    };
    until("the operation has begun", || slow().is_some());
    let mut watch = Watch::new(&instance);
    let begun = Instant::now();
    while watch.look() != Some("operations wait") {
        assert!(begun.elapsed() < TIMEOUT, "nobody saw that an operation waits");
        std::thread::sleep(CHECK_INTERVAL);
    }
    assert_eq!((dissolve(&instance.executor), instance.executor.connections()), (6, 0));
    crowd
        .iter_mut()
        .for_each(|connection| (0..MIN_CONSECUTIVE_BRIEF).for_each(|number| read(connection, number % 8)));
    // It still waits, and its connection has a thread afterwards.
    let client = slow().unwrap();
    assert!(client.interrupt(client.activity().operation, Code::Interrupted));
    let (mut waits, code) = thread.join().unwrap();
    assert_eq!(code, Code::Interrupted);
    read(&mut waits, 3);
    drop(instance);
    assert_eq!(server.stop(), 1);
}

#[test]
fn a_full_loop_gives_up_a_quarter_and_one_beside_an_idle_loop_all() {
    let server = UnwatchedServer::start();
    let instance = &server.instance;
    let mut crowd = server.crowd(8);
    loop_thread(instance, None).give_up(80);
    assert_eq!(instance.executor.connections(), 8);
    loop_thread(instance, None).give_up(95);
    assert_eq!(instance.executor.connections(), 6);
    // Those with threads come back after a run of brief operations.
    crowd
        .iter_mut()
        .for_each(|connection| (0..MIN_CONSECUTIVE_BRIEF).for_each(|number| read(connection, number % 8)));
    server.wait_for_connections(8);
    let before = instance.executor.loops.all()[0].load();
    loop_thread(instance, Some(before)).give_up(20);
    assert_eq!(instance.executor.connections(), 0);
    crowd.iter_mut().for_each(|connection| read(connection, 5));
    assert_eq!(server.stop(), 6 * u64::from(MIN_CONSECUTIVE_BRIEF));
}

#[test]
fn the_gate_opens_for_many_while_devices_are_idle_and_tickets_are_plenty() {
    let server = UnwatchedServer::start();
    let instance = &server.instance;
    instance.executor.gate.shut();
    let watch = Watch::new(instance);
    let mut crowd: Vec<Connection> = (0..5).map(|_| server.connect()).collect();
    let documents: Vec<Document> = (0..8).map(|id| doc! { "_id": id, "square": id * id }).collect();
    run(&mut crowd[0], &doc! { "insert": "c", "documents": documents });
    // Four are too few. A connection asks after its reply, and so before the next one.
    crowd[..4]
        .iter_mut()
        .for_each(|connection| (0..=MIN_CONSECUTIVE_BRIEF).for_each(|number| read(connection, number % 8)));
    assert_eq!(watch.decide(false, Some(true)), None);
    (0..=MIN_CONSECUTIVE_BRIEF).for_each(|number| read(&mut crowd[4], number % 8));
    crowd[..4].iter_mut().for_each(|connection| (0..2).for_each(|id| read(connection, id)));
    assert_eq!(watch.decide(false, None), None);
    assert_eq!(watch.decide(false, Some(false)), Some("devices are read"));
    assert_eq!(watch.decide(true, Some(true)), Some("operations wait"));
    let usual = instance.parameters.read_tickets.swap(4, Ordering::Relaxed);
    assert_eq!(watch.decide(false, Some(true)), Some("tickets are scarce"));
    instance.parameters.read_tickets.store(usual, Ordering::Relaxed);
    crowd.iter_mut().for_each(|connection| read(connection, 2));
    assert_eq!(instance.executor.connections(), 0);
    assert_eq!(watch.decide(false, Some(true)), None);
    crowd.iter_mut().for_each(|connection| read(connection, 3));
    server.wait_for_connections(5);
    server.stop();
}

#[test]
fn an_operation_may_end_its_connection_and_no_other() {
    let server = UnwatchedServer::start();
    let mut crowd = server.crowd(5);
    let data = doc! { "failCommands": ["find"], "namespace": "test.gone", "closeConnection": true };
    let point = doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data };
    server.connect().run("admin", &point).unwrap();
    assert!(crowd.pop().unwrap().run("test", &doc! { "find": "gone", "limit": 1 }).unwrap_err().is_network());
    crowd.iter_mut().for_each(|connection| read(connection, 5));
    server.wait_for_connections(4);
    assert_eq!(server.stop(), 4);
}

/// A client that writes its bytes itself.
struct RawClient(TcpStream);

impl RawClient {
    fn connect(server: &UnwatchedServer) -> RawClient {
        let socket = TcpStream::connect(("127.0.0.1", *server.instance.port.get().unwrap())).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        RawClient(socket)
    }

    /// Sends all of them at once.
    fn send(&mut self, messages: &[(u32, Document)]) {
        let mut bytes = Vec::new();
        for (number, (flags, document)) in (1..).zip(messages) {
            let mut message = OpMsgWriter::begin(&mut bytes, number, 0);
            message.set_flags(*flags);
            message.raw_body(&bson::RawDocumentBuf::try_from(document).unwrap());
            message.finish().unwrap();
        }
        self.0.write_all(&bytes).unwrap();
    }

    /// The number of the message that a reply answers, and the reply.
    fn receive(&mut self) -> (i32, Document) {
        let mut frame = vec![0; Header::BYTES];
        self.0.read_exact(&mut frame).unwrap();
        let header = Header::parse(frame.first_chunk().unwrap()).unwrap();
        frame.resize(header.length_bytes, 0);
        self.0.read_exact(&mut frame[Header::BYTES..]).unwrap();
        match Message::parse(&frame).unwrap() {
            Message::Msg(message) => (header.response_to, Document::try_from(message.body).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    /// Sends brief queries one by one until a loop serves it too, with `others`.
    fn bring(&mut self, server: &UnwatchedServer, others: usize) {
        for id in 0..MIN_CONSECUTIVE_BRIEF.cast_signed() {
            self.send(&[(0, find(id % 8))]);
            self.receive();
        }
        server.wait_for_connections(others + 1);
    }
}

fn find(id: i32) -> Document {
    doc! { "find": "c", "filter": { "_id": id }, "limit": 1, "$db": "test" }
}

#[test]
fn messages_that_come_at_once_are_answered_in_their_order() {
    let server = UnwatchedServer::start();
    let _crowd = server.crowd(2);
    let mut raw = RawClient::connect(&server);
    for count in [3, 100] {
        raw.bring(&server, 2);
        let mut messages: Vec<(u32, Document)> = (0..count).map(|number| (0, find(number % 8))).collect();
        // In between, one that wants no reply, and one that is not brief.
        let silent = doc! {
            "insert": "silent", "documents": [{ "_id": count }], "writeConcern": { "w": 0 }, "$db": "test",
        };
        messages.insert(1, (flag::MORE_TO_COME, silent));
        messages.insert(3, (0, doc! { "count": "silent", "$db": "test" }));
        raw.send(&messages);
        for number in (0..messages.len()).filter(|number| *number != 1) {
            let (answers, reply) = raw.receive();
            assert_eq!(answers, i32::try_from(number).unwrap() + 1, "{reply}");
            assert_eq!(reply.get_f64("ok").unwrap(), 1.0, "{reply}");
        }
    }
    let counted = run(&mut server.connect(), &doc! { "count": "silent" });
    assert_eq!(counted.get_i32("n").unwrap(), 2);
    // Each time a query, the silent insert and another query come before the count, which leaves the loop. A later one may come back.
    assert!(server.stop() >= 2 * 3);
}

#[test]
fn a_client_that_does_not_read_its_reply_holds_nobody_up() {
    let server = UnwatchedServer::start();
    for id in 0..12 {
        let large = doc! { "_id": id, "text": "x".repeat(1 << 20) };
        run(&mut server.connect(), &doc! { "insert": "large", "documents": [large] });
    }
    let mut crowd = server.crowd(5);
    let mut raw = RawClient::connect(&server);
    raw.bring(&server, 5);
    raw.send(&[(0, doc! { "find": "large", "limit": 12, "$db": "test" })]);
    // Its reply is more than its socket takes.
    server.wait_for_connections(5);
    crowd.iter_mut().for_each(|connection| (0..8).for_each(|id| read(connection, id)));
    let (_, reply) = raw.receive();
    let cursor = reply.get_document("cursor").unwrap();
    assert_eq!(cursor.get_array("firstBatch").unwrap().len(), 12);
    raw.send(&[(0, find(1))]);
    assert_eq!(raw.receive().1.get_f64("ok").unwrap(), 1.0);
    assert_eq!(server.stop(), 5 * 8);
}

#[test]
fn reads_are_few_below_ten_pages_between_two_counts() {
    let mut reads = Reads::default();
    let counts = [1 << 30, (1 << 30) + MAX_READ_BYTES, (1 << 30) + 2 * MAX_READ_BYTES + 1, 1 << 31, 1 << 31];
    let few = counts.map(|bytes| reads.are_few_at(bytes));
    assert_eq!(few, [None, Some(true), Some(false), Some(false), Some(true)]);
}

#[test]
fn a_loop_waits_when_its_thread_sleeps_often_between_two_counts() {
    let mut sample = LoopSample::default();
    let waits = [500, 500 + MAX_SLEEPS, 501 + 2 * MAX_SLEEPS, 501 + 2 * MAX_SLEEPS]
        .map(|sleeps| sample.count(sleeps));
    assert_eq!(waits, [false, false, true, false]);
}

#[test]
fn a_loop_waits_when_it_sleeps_at_an_operation_or_takes_long_over_it() {
    let look = |sample: &mut LoopSample, step: u64, state: char, after: u64| {
        let status = ThreadStatus { state, voluntary_switches: 0 };
        sample.look_at(step, false, || Some((status, 0, after)))
    };
    // The second look at the same operation finds that its thread sleeps.
    let mut sleeps = LoopSample::default();
    assert_eq!(
        [7, 7, 8, 8, 9, 9].map(|step| look(&mut sleeps, step, 'S', step)),
        [false, true, false, false, false, true]
    );
    // A running one may take some more, as the machine may have given it no processor.
    let mut runs = LoopSample::default();
    assert_eq!([7; 5].map(|step| look(&mut runs, step, 'R', step)), [false, false, false, true, true]);
    assert_eq!([9, 9, 11, 11, 13, 13].map(|step| look(&mut runs, step, 'R', step)), [false; 6]);
    // It went on while its status was read.
    let mut goes_on = LoopSample::default();
    assert_eq!([7; 5].map(|step| look(&mut goes_on, step, 'S', step + 1)), [false; 5]);
    let mut gone = LoopSample::default();
    assert_eq!([7; 5].map(|step| gone.look_at(step, true, || None)), [false; 5]);
}
